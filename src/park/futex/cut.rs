//! Sleeps in the kernel that another thread can cut short.
//!
//! **Problem.** A thread that sleeps at a futex wakes when that has changed. A thread that is to end wakes
//! without that.
//!
//! **Rejected.**
//!
//! - *A signal.* The kernel goes on with the sleep if the handler was installed so (`SA_RESTART`), and the
//!   program's other signals may not end it.
//! - *A deadline now and then*: wake-ups for nothing.
//! - *A second futex* (`futex_waitv`): not before Linux 5.16.
//!
//! **Protocol.**
//!
//! 1. *Sleep*: publish where. If a cut was asked for, take that back, and do not sleep. Otherwise sleep, and
//!    then take it back.
//! 2. *Cut*: ask for it. While the thread says that it sleeps, wake all that sleep there, again and again.
//!
//! **Proof.** Both write, and then, behind a fence, read what the other writes. So the sleeper finds the
//! question, or the other finds the sleep. In the second case the sleeper may not sleep yet, and a wake-up is
//! lost. The next one is not: it comes as long as the sleep is published. Others that sleep there are woken
//! for nothing, which a futex allows.
//!
//! A thread that has found the question once finds it always. So the other waits for the end of one sleep, or
//! for the moment between its publication and the look.

use std::ptr;

use crate::shim::atomic::{AtomicBool, AtomicPtr, Ordering, fence};

/// Where a thread sleeps, and whether it may. See the header.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The futex; null: it does not sleep.
    at: AtomicPtr<u32>,
    asked: AtomicBool,
}

impl Cut {
    pub(crate) fn new() -> Self {
        Self { at: AtomicPtr::new(ptr::null_mut()), asked: AtomicBool::new(false) }
    }

    /// Does step 1: sleeps by `sleep`, at `futex`. Returns `None` if it has not slept.
    pub(crate) fn sleep<R>(&self, futex: *const u32, sleep: impl FnOnce() -> R) -> Option<R> {
        // Relaxed: the fence orders it. Acquire: pairs with `cut`.
        self.at.store(futex.cast_mut(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = if self.asked.load(Ordering::Acquire) { None } else { Some(sleep()) };
        self.leave();
        slept
    }

    /// Returns where the calling thread, or the one that a handler of a signal has interrupted, sleeps or is
    /// about to; null: it does not.
    pub(crate) fn place(&self) -> *const u32 {
        // Relaxed: the thread's own.
        self.at.load(Ordering::Relaxed)
    }

    /// Takes back that the calling thread sleeps. It leaves the sleep by unwinding.
    pub(crate) fn leave(&self) {
        // Relaxed: it publishes nothing.
        self.at.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Does step 2. `wake` wakes all that sleep at a futex, and lets another thread run. It may give up, and
    /// returns `false` then.
    pub(crate) fn cut(&self, mut wake: impl FnMut(*const u32) -> bool) {
        // Release: a thread that finds the question finds what the caller wrote before. Relaxed: the fence
        // orders it.
        self.asked.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        loop {
            let at = self.at.load(Ordering::Relaxed);
            if at.is_null() || !wake(at) {
                return;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_cut;
