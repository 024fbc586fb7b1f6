//! Signals that one thread sends to a kernel thread of the program: its main thread, and all of `onetoone`.
//!
//! **Problem.** The kernel runs a handler wherever the thread is, also where it holds a queue lock. The
//! handler may wait for other threads: a collector stops threads so. Those may want the lock, and so may the
//! helper, without which the collector comes to no end.
//!
//! **Rejected.** *To block signals while a lock is held*: two system calls for 20 ns. *To wrap the program's
//! handlers*: their flags, masks and frames are the kernel's to know.
//!
//! **Shape.** As for green threads: the signal waits here, and the preemption signal has the thread send it
//! to itself, unless it is in this crate's code ([`send_at_kernel`](Cancel::send_at_kernel)). The sender
//! tries that at once, and leaves the rest to the helper. In its waits for others, a kernel thread holds no
//! lock, and says so (`park/kernel_park.rs`).
//!
//! **A thread that sleeps** in the kernel gets at once what it blocks, for then a call waits for it, or must
//! not end for it. If it blocks the preemption signal, it gets all: it is in a handler, or suspended
//! ([`with_marker`]). So it does if that signal is not this crate's any more.
//!
//! **Not here**: signals for the process, and those of other processes. The kernel may run their handlers in
//! the main thread while it holds a lock. They must not wait for other threads.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;

use libc::sigset_t;

use super::signals::{MOST, PATIENCE, Ran};
use super::stands::Stands;
use super::{Cancel, DIFFERS, DISTANCE, DISTURBED, POKED, is_used, own};
use crate::park::no_preempt;
use crate::sys::Tid;
use crate::sys::kthread::SignalMask;
use crate::sys::next;
use crate::sys::preempt::{self, Interrupted};
use crate::sys::task_state::Tasks;

impl Cancel {
    /// Notes that a kernel thread's signals begin to wait.
    pub(crate) fn begin_wait(&self) {
        if let Some(stands) = self.stands.get() {
            stands.begin_wait();
        }
    }

    /// Tells a kernel thread of its signals: gives those to the kernel that must not wait, and interrupts
    /// the thread for the others. Returns `false` if none waits. Async-signal-safe; called while no handler
    /// can run.
    pub(crate) fn tell_kernel(&self, tasks: &Tasks) -> bool {
        let Some(stands) = self.stands.get() else { return false };
        // What comes after the look is for another.
        if stands.taking.is_done(&self.pending) {
            return false;
        }
        let tid = stands.tid();
        let direct = self.signals() & self.direct(stands, tasks, tid);
        if direct != 0 {
            stands.taking.unless_taken(|| self.send_to(tid, direct));
        }
        if stands.taking.is_done(&self.pending) {
            self.change(POKED, false);
            return false;
        }
        if Ran::of(self.signals()).ending
            && let Some(call) = tasks.in_kernel(tid)
        {
            // Relaxed, both: `POKED` orders them.
            self.call.sp.store(call.sp, Ordering::Relaxed);
            self.call.pc.store(call.pc, Ordering::Relaxed);
        }
        // Release: pairs with `send_at_kernel`.
        self.word.fetch_or(POKED, Ordering::Release);
        let _ = preempt::send(tid);
        true
    }

    /// Returns the signals that go to the kernel at once. A thread that sleeps does not leave its handler
    /// next, or change its mask, and then take a lock.
    fn direct(&self, stands: &Stands, tasks: &Tasks, tid: Tid) -> u64 {
        // Relaxed: a number.
        let is_known = !matches!(DISTANCE.load(Ordering::Relaxed), 0 | DIFFERS);
        if !is_known || !preempt::still_installed() {
            return u64::MAX;
        }
        let call = tasks.in_kernel(tid);
        let Some(blocked) = tasks.blocked(tid) else {
            // There is no `/proc`, or no descriptor for it.
            return if stands.is_long_busy() { u64::MAX } else { 0 };
        };
        let is_reached = blocked & preempt::signal_bit() == 0;
        match call.is_some() && call == tasks.in_kernel(tid) {
            true if is_reached => blocked,
            false if is_reached || !stands.is_long_busy() => 0,
            _ => u64::MAX,
        }
    }

    /// Sends these signals to the kernel thread.
    fn send_to(&self, tid: Tid, of: u64) {
        // If the kernel has no memory for one, the helper tries again.
        let mut sent = (0..MOST).map_while(|_| self.give_signal(of, |sent| sent.send_to(tid)));
        let _ = sent.all(|is_sent| is_sent);
    }

    /// Sends its signals to the kernel thread that the handler of the preemption signal has interrupted.
    /// Returns `true` if there were any.
    pub(super) fn send_at_kernel(&self, at: &mut Interrupted<'_>) -> bool {
        let Some(stands) = self.stands.get() else { return false };
        self.change(DISTURBED, true);
        if !self.has(POKED) {
            return false;
        }
        // SAFETY: the thread that the handler has interrupted.
        let is_locked = !unsafe { stands.count.is_zero() };
        if is_locked && !stands.is_long_busy() {
            return false;
        }
        // Relaxed, both: handlers on the thread itself.
        if at.in_own_library() && self.left_alone.fetch_add(1, Ordering::Relaxed) < PATIENCE {
            return false;
        }
        let Some((ran, before)) = stands.taking.unless_taken(|| {
            self.left_alone.store(0, Ordering::Relaxed);
            // Acquire: pairs with `tell_kernel`.
            self.word.fetch_and(!POKED, Ordering::Acquire);
            let before = self.signals();
            (self.send_here(u64::MAX), before)
        }) else {
            return false;
        };
        // Relaxed: see `tell_kernel`.
        let [sp, pc] = [&self.call.sp, &self.call.pc].map(|place| place.swap(0, Ordering::Relaxed));
        if before & !at.mask().bits() != 0 {
            // A handler is about to run.
            self.change(DISTURBED, false);
        }
        if ran.ending {
            at.end_call(sp, pc);
        }
        before != 0
    }

    /// Makes a call of the running thread, which has this, until it ends for more than the preemption
    /// signal. `call` returns -1 and sets `errno` if there was no signal.
    pub(super) fn undisturbed(&self, mut call: impl FnMut() -> c_int) -> c_int {
        loop {
            self.change(DISTURBED, false);
            let result = call();
            if result >= 0 || next::errno() != libc::EINTR || !self.has(DISTURBED) {
                return result;
            }
        }
    }

    /// Sends all its signals to the running thread, which has this, if it has no locks of this crate.
    #[cold]
    pub(super) fn send_all_here(&self) {
        let Some(stands) = self.stands.get().filter(|_| no_preempt::is_allowed()) else { return };
        let before = SignalMask::of_caller();
        SignalMask::asynchronous().adopt();
        let is_lost = || stands.is_elsewhere();
        stands.taking.after_others(is_lost, || {
            // Acquire: pairs with `tell_kernel`.
            self.word.fetch_and(!POKED, Ordering::Acquire);
            let _ = self.send_here(u64::MAX);
        });
        before.adopt();
    }

    /// Notes that a kernel thread is that of a forked child.
    pub(super) fn kernel_in_child(&self) {
        if let Some(stands) = self.stands.get() {
            stands.taking.forget();
            self.change(POKED, false);
        }
    }
}

/// Sends the running thread's signals to the kernel, if it is a kernel thread. Called before it looks at
/// them, or changes what it blocks.
pub(crate) fn pass_to_kernel() {
    if let Some(own) = own()
        && let Some(stands) = own.stands.get()
        && !stands.taking.is_done(&own.pending)
    {
        own.send_all_here();
    }
}

/// Does so for the last time, if the running thread is a kernel thread: it ends. The kernel may give its
/// number to another thread. That is sent none of these signals, and the preemption signal at most.
pub(crate) fn end_kernel() {
    pass_to_kernel();
    if let Some(stands) = own().and_then(|own| own.stands.get()) {
        stands.taking.close(|| stands.is_elsewhere());
    }
}

/// Makes a call of a kernel thread that takes a mask of signals for as long as it lasts. `call` gets that
/// mask with the preemption signal, so the kernel gets what is sent to the thread meanwhile. Otherwise the
/// handler of that signal would end the call, and the mask, before another can run.
pub(crate) fn with_marker<R>(mask: *const sigset_t, call: impl FnOnce(*const sigset_t) -> R) -> R {
    pass_to_kernel();
    if mask.is_null() || !is_used() || own().is_none() {
        return call(mask);
    }
    // SAFETY: the caller's set.
    let mut marked = unsafe { mask.read_unaligned() };
    // SAFETY: a set begins with the kernel's eight bytes, and the signal has a place there.
    unsafe { *(&raw mut marked).cast::<u64>() |= preempt::signal_bit() };
    call(ptr::from_ref(&marked))
}

/// Installs the preemption signal for this alone, where there is no runtime of green threads.
pub(crate) fn prepare() {
    let _ = preempt::install(preempt::DEFAULT_SIGNAL, |at| {
        if at.is_marked() || super::is_told() {
            at.claim();
            let _ = super::send_at(at);
        }
    });
}
