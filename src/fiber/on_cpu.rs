//! Commit by flag: how a green thread can be published as asleep while an LWP still stands on its stack.
//!
//! **The problem.** Once a thread is in a wait queue or on a run queue, any LWP may mount it. But its
//! registers are saved only by the switch that leaves it, a little later. An LWP that mounts it too early
//! runs a stack that another LWP still uses (I2).
//!
//! **Rejected**: to publish the thread only after the switch, from the other stack (Go's unlock function,
//! Photon's deferred call). That is right, and simple. But every queue operation then runs on the far side of
//! a switch, and a compare-and-swap must settle the winner of a sleep. A hand-off takes 77 ns instead of 59
//! (`hot-path` figures in `PERFORMANCE.md`).
//!
//! **Protocol** (Linux's `on_cpu`):
//!
//! 1. The LWP that mounts a thread sets its flag.
//! 2. The thread publishes itself and leaves. The switch saves its context.
//! 3. The other side of the switch clears the flag, with release.
//! 4. The LWP that took the thread off a queue waits until the flag is clear, with acquire, before it mounts
//!    the thread. So it sees the saved context.
//!
//! The wait in 4 is bounded: two LWPs that each leave the thread that the other wants would wait for each
//! other forever. Past the bound, the thread goes back to a queue, and the waiter first leaves its own stack
//! for the dispatcher.
//!
//! A thread that was preempted by signal has left in the middle of code that knows nothing of it. It must
//! continue with signals blocked (`mxn/preempt.rs`), and only the dispatcher sees to that. To all others, its
//! flag looks set.
//!
//! A new thread has no context yet: the LWP that takes it off a queue lays one out. That touches the first
//! page of the thread's stack. If the spawner did it, one thread that starts many would pay for all of their
//! pages, while other CPUs wait for work.

use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::spin_hint;

/// How often to look at a flag that is set, at most. A switch takes some 30 looks at the longest. If the LWP
/// was preempted in it, no number is enough.
const LOOKS: u16 = crate::shim::MOUNTED_LOOKS;

/// The flag of a thread: an LWP stands on its stack.
///
/// | value | the stack belongs to | next by |
/// |---|---|---|
/// | clear | the LWP that has taken the thread off a queue | `set`, by it, as it mounts the thread |
/// | set | the LWP that runs the thread, or is leaving it | `clear` or `clear_preempted`, by that LWP |
/// | preempted | a dispatcher that has taken the thread off a queue | `set`, by it, with signals blocked |
/// | new | the LWP that has taken the thread off a queue | `set`, by it, when it has laid out a context there |
///
/// A spawner makes a clear flag new. The LWP clears the flag from another stack.
#[derive(Debug)]
pub(crate) struct Mounted(AtomicU8);

const CLEAR: u8 = 0;
const SET: u8 = 1;
const PREEMPTED: u8 = 2;
const NEW: u8 = 3;

impl Mounted {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(CLEAR))
    }

    /// Sets the flag as the caller mounts the thread. The caller owns the thread and has seen the flag clear.
    #[inline]
    pub(crate) fn set(&self) {
        // Relaxed: the next LWP that looks at it gets the thread from a queue, which orders this store
        // before.
        self.0.store(SET, Ordering::Relaxed);
    }

    /// Says that the thread has no context yet. The caller owns the thread and has seen the flag clear.
    #[inline]
    pub(crate) fn be_new(&self) {
        // Relaxed: as in `set`.
        self.0.store(NEW, Ordering::Relaxed);
    }

    /// Returns `true` if the thread has no context yet.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        // Relaxed: an owner has the thread from a queue. Others ask before and after what they do.
        self.0.load(Ordering::Relaxed) == NEW
    }

    /// Clears the flag. The caller stands on another stack, and the context is saved.
    #[inline]
    pub(crate) fn clear(&self) {
        // Release: pairs with the acquire of `wait_clear`. The next LWP sees the saved context.
        self.0.store(CLEAR, Ordering::Release);
    }

    /// Does what [`clear`](Self::clear) does, for a thread that was preempted by signal.
    pub(crate) fn clear_preempted(&self) {
        // Release: pairs with the acquire of `is_preempted`.
        self.0.store(PREEMPTED, Ordering::Release);
    }

    /// Returns `true` if the context is saved, and the thread must continue with signals blocked.
    pub(crate) fn is_preempted(&self) -> bool {
        // Acquire: see `clear_preempted`.
        self.0.load(Ordering::Acquire) == PREEMPTED
    }

    /// Returns `true` if an LWP stands on the stack at this moment. For code that does not use the stack.
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: the value may change the next moment.
        self.0.load(Ordering::Relaxed) == SET
    }

    /// Returns `true` if no LWP stands on the stack, so that the context is saved. For code that copies the
    /// stack, and asks before and after.
    pub(crate) fn is_saved(&self) -> bool {
        // Acquire: see `clear`.
        self.0.load(Ordering::Acquire) != SET
    }

    /// Returns `true` if the flag is clear.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        // Acquire: see `clear`.
        self.0.load(Ordering::Acquire) == CLEAR
    }

    /// Waits a little for the flag to be clear. Returns `false` if it is not.
    #[inline]
    #[must_use]
    pub(crate) fn wait_clear(&self) -> bool {
        self.is_clear() || self.wait_clear_slowly()
    }

    #[cold]
    fn wait_clear_slowly(&self) -> bool {
        for _ in 0..LOOKS {
            match self.0.load(Ordering::Acquire) {
                CLEAR => return true,
                SET => spin_hint(),
                _ => return false,
            }
        }
        false
    }
}

#[cfg(all(test, loom))]
mod loom_on_cpu;
