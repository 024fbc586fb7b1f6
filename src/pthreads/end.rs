//! `pthread_exit`, and `pthread_join` and its like, `pthread_detach`: how a thread ends, and what becomes of
//! it.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::{clockid_t, pthread_t, timespec};

use super::masks;
use super::record::{self, Record, green_record};
use super::{semaphore, start};
use crate::interpose::cancel::{self, Ends, in_marked_call, point_of_code};
use crate::interpose::{self, announced, duration, moment};
use crate::park::futex::{self, NotWoken};
use crate::park::wait::{Wait, WaitError};
use crate::sys::kthread::{self, SignalMask};
use crate::sys::moment::Moment;
use crate::sys::{fork, next};

/// Joins the thread of `record`, as `wait` says, and stores its value.
///
/// # Safety
/// The thread has been neither joined nor detached. `value` is null, or a place.
unsafe fn join(record: &Record, value: *mut *mut c_void, wait: Wait) -> c_int {
    if record.is_own() {
        return libc::EDEADLK;
    }
    if record.has_forked_this() {
        // SAFETY: the caller's promise.
        return unsafe { join_in_child(record, value, wait) };
    }
    let handle = record.thread.lock().handle.take();
    let Some(handle) = handle else { return libc::EINVAL };
    let mut handle = Some(handle);
    let join = |wait| {
        let joined = handle.take().expect("it comes back").join_with(wait);
        joined.map_err(|(still, why)| {
            handle = Some(still);
            why
        })
    };
    let is_interrupted = |joined: &Result<_, _>| matches!(joined, Err(WaitError::Interrupted));
    let joined = cancel::wait_unless(Ends::Never, wait, join, is_interrupted);
    let ended = match joined {
        Ok(ended) => ended,
        Err(why) => {
            record.thread.lock().handle = handle;
            return if why == WaitError::TimedOut { libc::ETIMEDOUT } else { libc::ECANCELED };
        }
    };
    let code = match ended {
        Ok(left) => {
            if !value.is_null() {
                // SAFETY: the caller's promise.
                unsafe { value.write(left.0) };
            }
            0
        }
        // A parent process has it.
        Err(_) => libc::ESRCH,
    };
    // SAFETY: the handle was there, so the `pthread_t` had a share, and it is used up.
    unsafe { record.give_up_id() };
    code
}

/// Does so in the child that the thread has forked. Whatever threads of the parent have begun, it can be
/// joined or detached here, unless it was detached.
///
/// # Safety
/// As for [`join`].
unsafe fn join_in_child(record: &Record, value: *mut *mut c_void, wait: Wait) -> c_int {
    if mem::replace(&mut record.thread.lock().detached, true) {
        return libc::EINVAL;
    }
    if let Err(code) = until_ended(record.end_in_child(), wait, || !record.has_ended()) {
        record.thread.lock().detached = false;
        return code;
    }
    if !value.is_null() {
        // SAFETY: the caller's promise.
        unsafe { value.write(record.exit.get().unwrap_or(ptr::null_mut())) };
    }
    // SAFETY: the thread was not detached, so the `pthread_t` had a share, and it is used up.
    unsafe { record.give_up_id() };
    0
}

/// See `pthread_join(3)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { next::pthread_join(thread, value) };
    // SAFETY: the caller's promise.
    unsafe { join_by(thread, value, libc::CLOCK_REALTIME, ptr::null(), kernel) }
}

/// See `pthread_tryjoin_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    let record = green_record!(pthread_tryjoin_np(thread, value));
    let runs = match record.has_forked_this() {
        true => !record.has_ended(),
        false => record.thread.lock().handle.as_ref().is_some_and(|handle| !handle.is_finished()),
    };
    if runs {
        return libc::EBUSY;
    }
    // It is no cancellation point, and the thread has ended.
    // SAFETY: the caller's promise.
    cancel::refusing(|| unsafe { join(record, value, Wait::forever()) })
}

/// See `pthread_timedjoin_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { next::pthread_timedjoin_np(thread, value, end) };
    // SAFETY: the caller's promise.
    unsafe { join_by(thread, value, libc::CLOCK_REALTIME, end, kernel) }
}

/// See `pthread_clockjoin_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { next::pthread_clockjoin_np(thread, value, clock, end) };
    // SAFETY: the caller's promise.
    unsafe { join_by(thread, value, clock, end, kernel) }
}

/// Joins a thread, unless `clock` shows `end` before; null: without a limit. A kernel thread is joined by
/// `kernel`.
///
/// # Safety
/// As for [`join`], and `end` is null or a time.
unsafe fn join_by(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    end: *const timespec,
    kernel: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let limit = || unsafe { limit(clock, end) };
    // SAFETY: the caller's promise.
    match unsafe { Record::of(thread) } {
        Some(record) => point_of_code(|| match limit() {
            // SAFETY: the caller's promise.
            Ok(end) => unsafe { join(record, value, Wait::by(end)) },
            Err(code) => code,
        }),
        // SAFETY: the caller's promise.
        None => unsafe { join_kernel(thread, value, limit, kernel) },
    }
}

/// Returns when `clock` shows `end`; null: never. What was before the clock's zero is over, as for the C
/// library.
///
/// # Safety
/// `end` is null or a time.
unsafe fn limit(clock: clockid_t, end: *const timespec) -> Result<Option<Moment>, c_int> {
    // SAFETY: the caller's promise.
    let Some(&end) = (unsafe { end.as_ref() }) else { return Ok(None) };
    if !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC) {
        return Err(libc::EINVAL);
    }
    let end = duration(timespec { tv_sec: end.tv_sec.max(0), ..end }).ok_or(libc::EINVAL)?;
    Ok(moment(clock, end))
}

/// The main thread of a finished program, as the C library names it.
static MAIN: AtomicU64 = AtomicU64::new(0);
/// 1: that thread has run all that it will. A futex.
static MAIN_HAS_ENDED: AtomicU32 = AtomicU32::new(0);

/// Notes that the running thread is the main thread. Called before the program starts.
pub(super) fn main_begins() {
    // Relaxed: there is no other thread.
    // SAFETY: no arguments.
    MAIN.store(unsafe { next::pthread_self() }, Ordering::Relaxed);
}

/// Notes that the running thread, which is a kernel thread, has run all that it will.
pub(super) fn kernel_ends() {
    // SAFETY: no arguments.
    if MAIN.load(Ordering::Relaxed) == unsafe { next::pthread_self() } {
        // Relaxed: the thread that waits for it joins it then.
        MAIN_HAS_ENDED.store(1, Ordering::Relaxed);
        semaphore::wake(MAIN_HAS_ENDED.as_ptr(), c_int::MAX);
    }
}

/// Waits at a futex for the end of a thread, while that `runs`.
fn until_ended(end: &AtomicU32, wait: Wait, runs: impl Fn() -> bool) -> Result<(), c_int> {
    let queued = |wait| futex::wait(end.as_ptr().addr(), futex::ANY, wait, &runs);
    while runs() {
        let is_interrupted = |waited: &Result<(), NotWoken>| *waited == Err(NotWoken::Interrupted);
        match cancel::wait_unless(Ends::Never, wait, queued, is_interrupted) {
            Ok(()) | Err(NotWoken::Differs) => {}
            Err(NotWoken::TimedOut) => return Err(libc::ETIMEDOUT),
            Err(NotWoken::Interrupted) => return Err(libc::ECANCELED),
        }
    }
    Ok(())
}

/// Waits for the end of the main thread. Called by a green thread.
fn until_main_has_ended(deadline: Option<Moment>) -> Result<(), c_int> {
    let runs = || MAIN_HAS_ENDED.load(Ordering::Relaxed) == 0;
    until_ended(&MAIN_HAS_ENDED, Wait::by(deadline), runs)
}

/// Joins a kernel thread by `join`. If that waits, it blocks the LWP, and not all versions of the C library
/// let a request end it. So a green thread waits here for the main thread, at most until `limit`. Other
/// kernel threads are rare.
///
/// # Safety
/// `value` is null, or a place. `thread` has been neither joined nor detached.
unsafe fn join_kernel(
    thread: pthread_t,
    value: *mut *mut c_void,
    limit: impl Fn() -> Result<Option<Moment>, c_int>,
    join: impl Fn() -> c_int,
) -> c_int {
    point_of_code(|| {
        // Relaxed: before the program started.
        if MAIN.load(Ordering::Relaxed) == thread && interpose::green().is_some() {
            // The C library knows if it cannot be joined.
            let over = timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the caller's promise, and a time.
            let code = unsafe { next::pthread_timedjoin_np(thread, value, &raw const over) };
            if code != libc::ETIMEDOUT {
                return code;
            }
            if let Err(code) = limit().and_then(until_main_has_ended) {
                return code;
            }
        }
        announced(|| in_marked_call(&join))
    })
}

/// Returns `true` on the main thread of a finished program that has started threads.
pub(super) fn is_main() -> bool {
    // SAFETY: no arguments.
    record::was_any() && start::is_default() && kthread::gettid() == unsafe { libc::getpid() }
}

/// Returns `true` on the thread that a child began with. To the C library, it is a thread as others. So the
/// helpers of this crate, which it counts, would keep the child.
pub(super) fn is_survivor() -> bool {
    // SAFETY: no arguments.
    start::is_default() && fork::is_child() && kthread::gettid() == unsafe { libc::getpid() }
}

/// Ends the program after its last thread. What the main thread has pushed by `pthread_cleanup_push` may be
/// what the others wait for, so another thread calls this. Signals come to the program while it ends, unless
/// `mask` has them.
fn end_with_the_last(mask: SignalMask) {
    record::until_none_is_alive();
    mask.adopt();
    // SAFETY: no thread of the program is left.
    unsafe { libc::exit(0) }
}

/// Lets the program end with its last thread, which may be the running one, the main thread. LWPs are none of
/// the program's.
pub(super) fn main_ends() {
    /// The process whose main thread has been here: `pthread_exit` may have called this.
    static ENDS: AtomicI32 = AtomicI32::new(0);
    // Relaxed: the main thread alone is here.
    // SAFETY: no arguments.
    let this = unsafe { libc::getpid() };
    if ENDS.swap(this, Ordering::Relaxed) == this {
        return;
    }
    record::begin_process();
    if !record::is_counted() {
        record::count();
        record::begin_kernel();
    }
    let mask = SignalMask::of_caller();
    masks::main_ends();
    if start::start_helper("selvedge-end", None, move || end_with_the_last(mask)).is_err() {
        record::count_off();
        end_with_the_last(mask);
    }
}

/// See `pthread_exit(3)`. The C library unwinds the stack, and runs what the thread has pushed by
/// `pthread_cleanup_push`. Then it jumps to where the thread's function was called (`start.rs`).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    cancel::leave();
    masks::keep();
    if record::with_own(|own| own.exit.set(value)).is_none() && is_main() {
        main_ends();
    }
    // SAFETY: the caller's promise.
    unsafe { next::pthread_exit(value) }
}

/// See `pthread_detach(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    let record = green_record!(pthread_detach(thread));
    let (was_detached, handle) = {
        let mut own = record.thread.lock();
        (mem::replace(&mut own.detached, true), own.handle.take())
    };
    let is_joinable = if record.has_forked_this() { !was_detached } else { handle.is_some() };
    if !is_joinable {
        return libc::EINVAL;
    }
    drop(handle);
    // SAFETY: it was not detached or joined, so the `pthread_t` had a share, and it is used up.
    unsafe { record.give_up_id() };
    0
}
