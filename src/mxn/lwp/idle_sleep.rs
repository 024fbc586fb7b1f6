//! How an LWP without work sleeps, idle or spare.
//!
//! To sleep, an LWP prepares (ASLEEP), enters a list where others find it (the idle list or the spare list),
//! looks once more, and waits on the word. The thread that takes it off its list wakes it, exactly once.
//!
//! Each state, and the transitions out of it:
//!
//! - AWAKE: it runs, or was woken; or it has no kernel thread.
//!   - `prepare` -> ASLEEP: by the owner.
//! - ASLEEP: it is on a list, or just off it.
//!   - `wake` -> AWAKE: by the thread that took it off the list.
//!   - `cancel` -> AWAKE: by the owner, if it took itself off.
//!   - `retire` -> RETIRED: by the reserve's thread.
//! - RETIRED: its kernel thread is to end.
//!   - `reset` -> AWAKE: by the owner, last of all.
//!   - `wake` -> AWAKE: at the end of the runtime.

use std::time::Instant;

use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const RETIRED: u32 = 2;

/// The word that an LWP sleeps on. See the states in the header.
#[derive(Debug)]
pub(crate) struct IdleSleep(AtomicU32);

impl IdleSleep {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// Marks the LWP as asleep, before it enters a list. Owner only.
    pub(crate) fn prepare(&self) {
        // Relaxed: published by the list's lock.
        self.0.store(ASLEEP, Ordering::Relaxed);
    }

    /// Marks the LWP as awake: it took itself off its list, and does not sleep after all. Owner only.
    pub(crate) fn cancel(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps until woken (`true`) or until `deadline`. Owner only.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        // Acquire: pairs with the release of `wake`.
        while self.0.load(Ordering::Acquire) == ASLEEP {
            if futex::wait(&self.0, ASLEEP, deadline) == futex::Waited::TimedOut {
                return self.0.load(Ordering::Acquire) != ASLEEP;
            }
        }
        true
    }

    /// Wakes an LWP that the caller took off its list.
    pub(crate) fn wake(&self) {
        // Release: what the caller queued, and the slot it gave, are visible to the LWP.
        self.0.store(AWAKE, Ordering::Release);
        futex::wake(&self.0, 1);
    }

    /// Tells the LWP's kernel thread to end. The caller took it off the list of spares.
    pub(crate) fn retire(&self) {
        // Release: as in `wake`.
        self.0.store(RETIRED, Ordering::Release);
        futex::wake(&self.0, 1);
    }

    /// Readies the word for the next kernel thread.
    pub(crate) fn reset(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Returns `true` if the kernel thread is to end. Called by the owner, off the list of spares.
    pub(crate) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RETIRED
    }

    /// Returns `true` if the LWP sleeps, idle or spare, or is about to. For looks from outside.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASLEEP
    }

    /// Returns `true` if the LWP neither sleeps nor is to end, at this moment.
    pub(crate) fn is_awake(&self) -> bool {
        self.0.load(Ordering::Relaxed) == AWAKE
    }
}
