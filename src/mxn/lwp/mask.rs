//! The signals that an LWP blocks: those of the thread that it runs, or those that no thread wants.
//!
//! **Problem.** The kernel gives a signal for the process to any kernel thread that does not block it. An
//! LWP that runs no thread has the mask of the last one, which may be long gone. If all threads of a program
//! block a signal, to wait for it (`sigwait`), that LWP would handle it, or end the process.
//!
//! **Rejected.**
//!
//! - To change the mask at each switch: a system call, in programs whose threads all block the same.
//! - To block all signals while no thread runs. A signal would wait while all threads that want it sleep,
//!   and each sleep would take two system calls.
//! - A kernel thread for each thread with another mask. If a library starts the first thread, under a mask
//!   of its own, all threads of the program are others.
//!
//! **Shape.** A thread has a mask, and so has its LWP. If they differ when the thread is mounted, the LWP's
//! is changed. An LWP that sleeps, idle or as a spare, has the mask [`IDLE`]: what all threads of the program
//! block (`pthreads/masks.rs`). If a signal is added to that, LWPs that do not block it are nudged. The
//! thread that adds it waits until they do, unless another thread runs there.
//!
//! Nothing of this is compiled without the feature `interpose`: no call that changes a mask is seen there.
//!
//! **No LWP is missed.** [`IDLE`] is changed before LWPs are looked at. An LWP shows what it is about to
//! block before it looks at [`IDLE`] once more, and unblocks nothing if that has changed. A fence stands
//! between the two steps on both sides. So it is seen with too little blocked, or sees the change. An LWP
//! that is about to sleep is nudged (`idle_sleep`, with models).

use super::Lwp;
use crate::interpose::HAS_MASKS;
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::shim::global;
use crate::shim::poll_set::{Events, PollSet};
use crate::sys::preempt::{self, Mask};
use crate::time::Moment;

/// No mask: it is not known, or none was set. (Nothing blocks SIGKILL.)
const NONE: u64 = u64::MAX;

global! {
    // What LWPs block that run no thread; `NONE`: what they happen to.
    static IDLE: AtomicU64 = AtomicU64::new(NONE);
}

/// Makes this the mask of LWPs that sleep. They are to be nudged.
pub(in crate::mxn) fn set_idle(mask: Mask) {
    // Relaxed: the fence comes before a look at what LWPs block, and before nudges. It pairs with those of
    // `adopt_idle_by`.
    IDLE.store(mask.bits(), Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The mask of an LWP's kernel thread. Its owner changes it.
#[derive(Debug)]
pub(crate) struct LwpMask(AtomicU64);

impl LwpMask {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// Returns the mask, or `None` if no thread can run yet.
    #[inline]
    pub(crate) fn get(&self) -> Option<Mask> {
        // Relaxed: the owner's. Other threads only nudge the LWP then.
        let bits = self.0.load(Ordering::Relaxed);
        (bits != NONE).then_some(Mask::from_bits(bits))
    }

    /// Returns `true` if all of these signals are blocked. For looks from outside.
    pub(in crate::mxn) fn blocks(&self, signals: u64) -> bool {
        // Acquire: pairs with `note`.
        signals & !self.0.load(Ordering::Acquire) == 0
    }

    /// Notes what the kernel thread blocks, or will when a thread runs there.
    pub(crate) fn note(&self, mask: Mask) {
        // Release: pairs with `blocks`.
        self.0.store(mask.bits(), Ordering::Release);
    }

    /// Notes that the kernel thread is a new one, which blocks all signals.
    pub(crate) fn begin(&self) {
        self.0.store(NONE, Ordering::Relaxed);
    }

    /// Makes the kernel thread block these signals. Owner only.
    #[cold]
    pub(crate) fn change(&self, mask: Mask) {
        self.announce(mask);
        preempt::set_mask(mask);
        self.note(mask);
    }

    /// Shows, before a change, what is blocked all the time.
    fn announce(&self, mask: Mask) {
        // Relaxed, both: the owner's. A fence follows where another thread must see it.
        self.0.store(self.0.load(Ordering::Relaxed) & mask.bits(), Ordering::Relaxed);
    }

    /// Makes the kernel thread block what LWPs without a thread block, if that is set. Returns `true` then.
    /// Owner only.
    pub(crate) fn adopt_idle(&self) -> bool {
        self.adopt_idle_by(preempt::set_mask)
    }

    /// Does so by `set`.
    pub(super) fn adopt_idle_by(&self, set: impl Fn(Mask)) -> bool {
        loop {
            // Pairs with the fence of `set_idle`. Relaxed, here and below: the fences order it.
            fence(Ordering::SeqCst);
            let idle = IDLE.load(Ordering::Relaxed);
            if idle == NONE || idle == self.0.load(Ordering::Relaxed) {
                return idle != NONE;
            }
            self.announce(Mask::from_bits(idle));
            fence(Ordering::SeqCst);
            // Otherwise it has changed, and the thread that did that may not have seen what is announced.
            if IDLE.load(Ordering::Relaxed) == idle {
                set(Mask::from_bits(idle));
                self.note(Mask::from_bits(idle));
            }
        }
    }
}

impl Lwp {
    /// See [`IdleSleep::wait`](super::idle_sleep::IdleSleep::wait).
    pub(in crate::mxn) fn wait(&self, deadline: Option<Moment>) -> bool {
        self.sleep.wait(deadline, || self.look_at_mask())
    }

    /// See [`IdleSleep::wait_in`](super::idle_sleep::IdleSleep::wait_in).
    pub(in crate::mxn) fn wait_in(
        &self,
        set: &PollSet,
        deadline: Option<Moment>,
        events: &mut Events,
    ) -> (bool, bool) {
        self.sleep.wait_in(set, deadline, events, || self.look_at_mask())
    }

    fn look_at_mask(&self) {
        if HAS_MASKS {
            self.mask.adopt_idle();
        }
    }
}

#[cfg(all(test, loom))]
pub(super) mod loom_mask;
