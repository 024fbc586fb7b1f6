//! Where a green thread may not be preempted by signal (I9).
//!
//! **Problem.** A preempted thread leaves its LWP between two instructions. Done while it holds a queue lock, that would leave
//! the lock to whoever runs it next, and a dispatcher that wants it would wait for a thread that only a dispatcher can
//! run. Done between the moment at which it is published as asleep and its switch, it would be on a run queue and in a wait queue at
//! once. And whatever has just looked up its own LWP would go on with another's.
//!
//! **Rejected.** Asking where the interrupted instruction lies (inlined and generic code of ours is everywhere); masking the
//! signal (a system call each time); a flag in the LWP (to find the LWP is the very thing that must not be interrupted).
//!
//! **Protocol.** Each thread register has a count. All code of ours that holds a queue lock, that has published its thread, or
//! that uses its LWP, runs under a [`NoPreempt`]; the handler, which runs on the same register, does nothing while the
//! count is not zero. The count of a thread that waits stays up until it runs again, and so needs no carrying over a switch. A kernel
//! thread counts for nothing, but need not ask what it is.
//!
//! Cost: an increment and a decrement of a thread-local, neither of them a read-modify-write between processors.

use std::marker::PhantomData;

use crate::shim::SignalCell;

std::thread_local! {
    // No destructor and a constant start: a signal handler reads it. Of std in models too, which nothing interrupts: a negative one
    // unwinds when the model's own thread-locals are gone already.
    static COUNT: SignalCell = const { SignalCell::new(0) };
}

/// While it is there, its thread is not preempted by signal.
#[derive(Debug)]
#[must_use = "preemption is allowed again as soon as it is dropped"]
pub(crate) struct NoPreempt {
    /// The count is its own thread's.
    _of_this_thread: PhantomData<*mut ()>,
}

impl NoPreempt {
    /// From here on.
    #[inline]
    pub(crate) fn hold() -> Self {
        // Wrapping: on rung 3 green threads share a count, which nobody asks.
        COUNT.with(|count| count.set(count.get().wrapping_add(1)));
        Self { _of_this_thread: PhantomData }
    }
}

impl Drop for NoPreempt {
    #[inline]
    fn drop(&mut self) {
        COUNT.with(|count| count.set(count.get().wrapping_sub(1)));
    }
}

/// Lowers the count that a [`NoPreempt`] has raised which was forgotten.
pub(crate) fn lower() {
    drop(NoPreempt { _of_this_thread: PhantomData });
}

/// Whether the calling thread register's thread may be preempted. Asked by the handler.
#[inline]
pub(crate) fn is_allowed() -> bool {
    COUNT.with(|count| count.get() == 0)
}
