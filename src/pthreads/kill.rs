//! Signals for one thread: `pthread_kill`, `pthread_sigqueue`.
//!
//! A sender adds the signal to the thread's own, and leaves the rest to a helper (`park/futex/errands.rs`): a
//! handler may send signals, and the helper takes locks. The helper tells the thread, which takes the signal
//! (`interpose/cancel/signals.rs`). It tells it again until then, because the thread may have been between
//! two places: in this crate's own code, or in a queue for an LWP. The pauses get longer, because a handler
//! that runs may block the preemption signal.
//!
//! It also interrupts threads that are to end, until they do: they may come to a part of the C library where
//! the preemption signal ends them, and that does not look for a request (`interpose/cancel.rs`).
//!
//! Kernel threads of the program get their signals in the same way, unless a thread sends one to itself.
//!
//! There is a helper in finished programs that mention these functions, or once a thread was asked to end.
//! Where no object mentions them in time, waits do not listen, and a signal for another green thread goes to
//! the process.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::{pthread_t, sigval};

use super::masks;
use super::record::{KERNELS, Record};
use super::start::start_helper;
use crate::interpose::cancel;
use crate::park::futex::errands::Errands;
use crate::park::process;
use crate::sys::fork::Generation;
use crate::sys::kthread::Mask;
use crate::sys::moment::Moment;
use crate::sys::next;
use crate::sys::preempt;
use crate::sys::task_state::Tasks;

static ERRANDS: Errands = Errands::new();

/// Records of which the helper has given up shares. To free one takes the allocator's lock.
static GIVEN_UP: Errands = Errands::new();

/// The process that has a helper; 0: none. A forked child has none.
static HELPED: AtomicU32 = AtomicU32::new(0);

/// Between two looks at threads that have not taken their signals yet: first, and at most.
const PAUSE: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(32);
/// At most, if one is a kernel thread: where that blocks the preemption signal, it is told in another way.
const LONGEST_OF_KERNEL: Duration = Duration::from_micros(500);

/// Drops the shares that the helper has given up. Called where memory may be freed.
pub(super) fn drop_given_up() {
    GIVEN_UP.serve(|errand, shares| {
        // SAFETY: only records have these.
        let record = unsafe { Record::of_given_up(errand) };
        for _ in 0..shares {
            // SAFETY: so many shares were left with it.
            drop(unsafe { Arc::from_raw(record) });
        }
    });
}

/// Starts the helper, if this process has none. Called where memory may be taken.
pub(super) fn help() {
    drop_given_up();
    let this = process::this().id;
    // Relaxed, all: only the number matters.
    if HELPED.load(Ordering::Relaxed) == this || HELPED.swap(this, Ordering::Relaxed) == this {
        return;
    }
    cancel::kernel::prepare();
    let is_helped = Generation::watched(in_child).is_ok() && start_helper("selvedge-kill", None, run).is_ok();
    if !is_helped {
        // The next thread that is started tries again.
        HELPED.store(0, Ordering::Relaxed);
    }
}

/// Has the helper interrupt a thread that another has asked to end, until it does. Called where memory may be
/// taken.
pub(super) fn interrupt_until_ended(record: &Record) {
    help();
    let _quiet = Mask::block_asynchronous();
    leave(record);
}

/// Leaves a thread to the helper. Called while no handler can run: that may send a signal to the same thread,
/// and wait for that thread. It would find the errand begun, and not yet in the list.
fn leave(record: &Record) {
    ERRANDS.leave(&record.errand, || mem::forget(record.share()));
}

/// Does what comes first in a child.
fn in_child() {
    ERRANDS.forget();
    GIVEN_UP.forget();
    cancel::in_child();
    if let Some(own) = KERNELS.own() {
        own.errand.forget();
        own.given_up.forget();
    }
}

/// Runs errands for ever. It takes no memory, and frees none: a program may have stopped threads that have
/// the allocator's locks, and go on to stop others.
fn run() {
    let tasks = Tasks::private();
    let (mut heard, mut pause) = (0, PAUSE);
    loop {
        let (mut is_any_left, mut longest) = (false, LONGEST);
        let rung = ERRANDS.serve(|errand, _| {
            // SAFETY: only records have these.
            let record = unsafe { Record::of_errand(errand) };
            // SAFETY: the share that was left with it.
            let record = unsafe { Arc::from_raw(record) };
            if tell(&record, &tasks) {
                is_any_left = true;
                if record.cancel.is_of_kernel() {
                    longest = LONGEST_OF_KERNEL;
                }
                // This one is not the last, then.
                ERRANDS.leave_for_later(&record.errand, || mem::forget(record.share()));
            } else {
                GIVEN_UP.give_up(&record.given_up);
                mem::forget(record);
            }
        });
        pause = if rung == heard { (pause * 3 / 2).min(longest) } else { PAUSE };
        heard = rung;
        ERRANDS.sleep(rung, is_any_left.then(|| Moment::now() + pause));
    }
}

/// Tells a thread of its signals. Returns `false` if there is no need.
fn tell(record: &Record, tasks: &Tasks) -> bool {
    if record.has_ended() {
        return false;
    }
    if record.cancel.is_of_kernel() {
        return record.cancel.tell_kernel(tasks);
    }
    match record.with_started(|thread| record.cancel.tell(thread, tasks)) {
        Ok(told) => told.unwrap_or(false),
        Err(()) => true,
    }
}

/// Adds a signal to those of a thread. If that is queued, the kernel will have to keep it, for a moment.
///
/// # Errors
/// `EAGAIN` if it cannot, or if too many wait.
fn add(record: &Record, signal: c_int, value: Option<usize>) -> Result<(), c_int> {
    if signal >= libc::SIGRTMIN() && !preempt::may_queue() {
        return Err(libc::EAGAIN);
    }
    record.cancel.add_signal(signal, value)
}

/// Sends a signal to a green thread, with a value if it has one.
///
/// # Errors
/// The code to be returned.
fn send(record: &Record, signal: c_int, value: Option<usize>) -> Result<(), c_int> {
    let is_own = record.is_own();
    let is_kernels = record.cancel.is_kernels();
    if matches!(signal, libc::SIGKILL | libc::SIGSTOP) || !is_own && (is_kernels || !is_helped()) {
        return send_to_process(signal, value);
    }
    if is_own && (is_kernels || masks::of_caller() & 1 << (signal - 1) == 0) {
        // The kernel thread that it runs on gets the signal before this returns.
        return cancel::send_signal_here(signal, value);
    }
    let _quiet = Mask::block_asynchronous();
    add(record, signal, value)?;
    if !is_own {
        leave(record);
    }
    Ok(())
}

/// Sends a signal to a kernel thread, with a value if it has one. By `kernel`, if the thread is none of the
/// program's, or is the running one.
fn send_to_kernel(
    thread: pthread_t,
    signal: c_int,
    value: Option<usize>,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: no arguments.
    let is_own = || thread == unsafe { next::pthread_self() };
    let is_kernels = !is_signal(signal) || matches!(signal, 0 | libc::SIGKILL | libc::SIGSTOP);
    let known = if is_kernels || !is_helped() || is_own() { None } else { KERNELS.find(thread) };
    let Some(record) = known else { return kernel() };
    let _quiet = Mask::block_asynchronous();
    record.cancel.begin_wait();
    let added = add(&record, signal, value);
    if added.is_ok() && cancel::unended(|| record.cancel.tell_kernel(&Tasks::SHARED)) {
        leave(&record);
    }
    // The last share may not be dropped in a handler.
    GIVEN_UP.give_up(&record.given_up);
    mem::forget(record);
    added.err().unwrap_or(0)
}

/// Returns `true` if this process has a helper, and waits listen to it.
fn is_helped() -> bool {
    // Relaxed: see `help`.
    cancel::are_signals_used() && HELPED.load(Ordering::Relaxed) == std::process::id()
}

/// Sends a signal to the process.
fn send_to_process(signal: c_int, value: Option<usize>) -> Result<(), c_int> {
    // SAFETY: no arguments.
    let this = unsafe { libc::getpid() };
    let code = match value {
        Some(value) => {
            let value = sigval { sival_ptr: ptr::with_exposed_provenance_mut(value) };
            // SAFETY: no memory is involved.
            unsafe { libc::sigqueue(this, signal, value) }
        }
        // SAFETY: no memory is involved.
        None => unsafe { libc::kill(this, signal) },
    };
    if code == 0 { Ok(()) } else { Err(next::errno()) }
}

/// Checks the number of a signal as the C library does, which keeps two for itself.
fn is_signal(signal: c_int) -> bool {
    (0..=libc::SIGRTMAX()).contains(&signal) && !(32..libc::SIGRTMIN()).contains(&signal)
}

/// See `pthread_kill(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: the caller's promise.
        return send_to_kernel(thread, signal, None, || unsafe { next::pthread_kill(thread, signal) });
    };
    if !is_signal(signal) {
        return libc::EINVAL;
    }
    if signal == 0 || record.has_ended() {
        // POSIX has no error for a thread that has ended, and can still be joined.
        return 0;
    }
    send(record, signal, None).err().unwrap_or(0)
}

/// See `pthread_sigqueue(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        let bits = value.sival_ptr.expose_provenance();
        // SAFETY: the caller's promise.
        let kernel = || unsafe { next::pthread_sigqueue(thread, signal, value) };
        return send_to_kernel(thread, signal, Some(bits), kernel);
    };
    if !is_signal(signal) {
        return libc::EINVAL;
    }
    if record.has_ended() {
        return libc::ESRCH;
    }
    if signal == 0 {
        return 0;
    }
    send(record, signal, Some(value.sival_ptr.expose_provenance())).err().unwrap_or(0)
}
