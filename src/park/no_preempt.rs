//! Where a green thread must not be preempted by signal (I9).
//!
//! **Problem.** A preempted thread leaves its LWP between two instructions. There are four places where that
//! must not happen:
//!
//! - While it holds a queue lock, or the lock of a pool of stacks. The lock would stay with the preempted
//!   thread. A dispatcher that needs the lock would wait for a thread that only a dispatcher can run.
//! - After it has claimed a position in a channel, until its message is there, or taken. Other threads wait
//!   for that.
//! - Between its publication as asleep and its switch. It would be on a run queue and in a wait queue at
//!   once.
//! - After it has looked up its own LWP. It would go on with another LWP's.
//!
//! **Rejected.** To ask where the interrupted instruction lies: inlined and generic code of this crate is
//! everywhere. To mask the signal: a system call each time. A flag in the LWP: to find the LWP is the very
//! step that must not be interrupted.
//!
//! **Protocol.** Each thread register has a count. Code of this crate that is in such a place runs under a
//! [`NoPreempt`]. The handler runs on the same register, and does nothing while the count is not zero. The
//! count of a thread that waits stays up until the thread runs again, so it need not be carried over a
//! switch. A kernel thread's count keeps signals from it that others send to it
//! (`interpose/cancel/kernel.rs`), so it is zero while that thread [sleeps](without).
//!
//! Cost: an increment and a decrement of a thread-local. Neither is a read-modify-write between processors.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::shim::SignalCell;

std::thread_local! {
    // No destructor and a constant start, because a signal handler reads it. Of std in models too, which are
    // not interrupted: a negative model unwinds when the model's own thread-locals are already gone.
    static COUNT: SignalCell = const { SignalCell::new(0) };
}

/// While it exists, its thread is not preempted by signal.
#[derive(Debug)]
#[must_use = "preemption is allowed again as soon as it is dropped"]
pub(crate) struct NoPreempt {
    /// Not `Send`, because the count belongs to one thread.
    _of_this_thread: PhantomData<*mut ()>,
}

impl NoPreempt {
    /// Forbids preemption from here on.
    #[inline]
    pub(crate) fn hold() -> Self {
        // Wrapping: on `Pinned`, green threads share a count, which nothing reads.
        COUNT.with(|count| count.set(count.get().wrapping_add(1)));
        Self { _of_this_thread: PhantomData }
    }

    /// Returns evidence of what a caller does, without a count.
    ///
    /// # Safety
    /// A caller forbids preemption for as long as the result is used.
    #[inline]
    pub(crate) unsafe fn by_caller<'a>() -> &'a Self {
        // SAFETY: it has no size, and no reference writes to it.
        unsafe { NonNull::dangling().as_ref() }
    }
}

impl Drop for NoPreempt {
    #[inline]
    fn drop(&mut self) {
        COUNT.with(|count| count.set(count.get().wrapping_sub(1)));
    }
}

/// Lowers the count that a forgotten [`NoPreempt`] has raised.
pub(crate) fn lower() {
    drop(NoPreempt { _of_this_thread: PhantomData });
}

/// Runs `sleep` with a count of zero. Called by a kernel thread, which holds no lock.
pub(crate) fn without<R>(sleep: impl FnOnce() -> R) -> R {
    let before = COUNT.with(|count| (count.get(), count.set(0)).0);
    let slept = sleep();
    COUNT.with(|count| count.set(before));
    slept
}

/// Returns `true` if the thread of the calling thread register may be preempted. Called by the handler.
#[inline]
pub(crate) fn is_allowed() -> bool {
    COUNT.with(|count| count.get() == 0)
}

/// The count of one thread, as a handler of a signal finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(*const SignalCell);

// SAFETY: an atomic cell.
unsafe impl Send for Count {}
// SAFETY: an atomic cell.
unsafe impl Sync for Count {}

impl Count {
    /// Returns that of the calling thread register.
    pub(crate) fn of_caller() -> Self {
        COUNT.with(|count| Self(count))
    }

    /// Returns `true` if the thread may be preempted. Async-signal-safe.
    ///
    /// # Safety
    /// The thread is the running one.
    pub(crate) unsafe fn is_zero(self) -> bool {
        // SAFETY: a thread-local that has no destructor, and the caller's promise.
        unsafe { (*self.0).get() == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemption_is_allowed_where_nothing_forbids_it() {
        assert!(is_allowed());
        let one = NoPreempt::hold();
        let other = NoPreempt::hold();
        assert!(!is_allowed());
        drop(one);
        assert!(!is_allowed());
        std::mem::forget(other);
        lower();
        assert!(is_allowed());
    }
}
