//! Which thread takes the signals of a kernel thread.
//!
//! **Problem.** A thread takes its own signals. A sender and the helper take them, too, and send them to it
//! by the kernel. Two at once would take the same signal twice.
//!
//! **Protocol.** A flag says that a thread takes signals. Another that finds it set takes none. If a thread
//! cannot send what it has taken, it adds that again while the flag is set. A sender and the helper look at
//! the signals and the flag at last ([`is_done`](Taking::is_done)). If that is not done, the helper comes
//! again.
//!
//! **Proof** that no signal is forgotten. A sender looks after it has added its signal. If it does not find
//! the signal, another has taken that, and had set the flag. So the sender finds the flag set, or what was
//! added again.
//!
//! **The thread itself** may have to know that the kernel has all that was sent to it before. So it waits
//! for one that takes signals. That one has all signals blocked, and waits for nothing. A thread that ends
//! waits for it, too, and leaves the flag set: the kernel may give its number to another.
//!
//! **In a child** that was forked meanwhile, the flag stays set. If the fork called no handlers, only the
//! process's number tells. Asked at last, after some looks: it costs a system call. Rejected: to give up
//! after a time in any process. On a busy machine, one that takes signals may wait for a CPU for longer.

use std::time::Duration;

use super::Pending;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::{self, LOOKS_AT_TAKING, store_among_swaps};

/// Says if a thread takes signals of the kernel thread that has this.
#[derive(Debug)]
pub(crate) struct Taking(AtomicBool);

/// The pause between two looks if another thread still takes a thread's signals.
const PAUSE: Duration = Duration::from_micros(50);

impl Taking {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Runs `take`, which takes signals, unless another thread does. Called while no handler can run.
    pub(crate) fn unless_taken<R>(&self, take: impl FnOnce() -> R) -> Option<R> {
        // Acquire: pairs with the release of the last one.
        if self.0.swap(true, Ordering::Acquire) {
            return None;
        }
        let taken = take();
        // Release: the next one finds no signal that was taken.
        store_among_swaps!(self.0, false, Ordering::Release);
        Some(taken)
    }

    /// Does so when no other thread does, or never if that `is_lost` in a fork. Called by the thread itself,
    /// while no handler can run.
    pub(crate) fn after_others(&self, is_lost: impl Fn() -> bool, mut take: impl FnMut()) {
        Self::until(|| self.unless_taken(&mut take).is_some(), is_lost);
    }

    /// Lets no thread take signals any more. Called by the thread itself, which ends. `is_lost`: as for
    /// [`after_others`](Self::after_others).
    pub(crate) fn close(&self, is_lost: impl Fn() -> bool) {
        // Acquire: pairs with the release of the last one, which has used the thread's number.
        Self::until(|| !self.0.swap(true, Ordering::Acquire), is_lost);
    }

    /// Waits until `is_over` returns `true`, but not for a thread that `is_lost`.
    fn until(mut is_over: impl FnMut() -> bool, is_lost: impl Fn() -> bool) {
        let mut looks = 0;
        loop {
            if is_over() {
                return;
            }
            looks += 1;
            if looks == LOOKS_AT_TAKING {
                if is_lost() {
                    return;
                }
                looks = 0;
            }
            shim::nap(PAUSE);
        }
    }

    /// Returns `true` if no signal waits, and no thread takes one that it may have to add again.
    pub(crate) fn is_done(&self, pending: &Pending) -> bool {
        // Acquire: what was added again is found by the second look.
        pending.get() == 0 && !self.0.load(Ordering::Acquire) && pending.get() == 0
    }

    /// Forgets that a thread does, in the child of a fork.
    pub(crate) fn forget(&self) {
        // Relaxed: the only thread.
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_taking;
