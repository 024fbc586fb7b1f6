//! How an LWP without work sleeps, idle or spare.
//!
//! To sleep, an LWP prepares (ASLEEP), goes where others find it (the set of sleepers or the list of spares),
//! looks once more, and waits on the word. The thread that takes it out of there wakes it, exactly once.
//!
//! One LWP of a runtime may sleep in the runtime's set of descriptors instead (`reactor/poller.rs`). Its
//! waker then rings the bell of the set. A waker that is late rings for nothing: the next LWP to sleep in the
//! set wakes up once, and looks at its own word.
//!
//! Each state, and the transitions out of it:
//!
//! - AWAKE: it runs, or was woken; or it has no kernel thread.
//!   - `prepare` -> ASLEEP: by the owner.
//! - ASLEEP: it is there, or was just taken out.
//!   - `wake` -> AWAKE: by the thread that took it out.
//!   - `cancel` -> AWAKE: by the owner, if it took itself out.
//!   - `retire` -> RETIRED: by the reserve's thread.
//!   - `wait_in` -> IN_SET: by the owner.
//!   - `nudge` -> NUDGED: by any thread.
//! - NUDGED: it is where it was, but is to look at something first (`mask`).
//!   - `wait`, `wait_in` -> ASLEEP: by the owner, before it looks.
//!   - `wake`, `cancel`, `retire`: as from ASLEEP.
//! - IN_SET: it sleeps in the set of descriptors, or is about to.
//!   - `wait_in` -> ASLEEP: by the owner, when it has left the set.
//!   - `wake` -> AWAKE: by the thread that took it out, which then rings the bell.
//! - RETIRED: its kernel thread is to end.
//!   - `reset` -> AWAKE: by the owner, last of all.
//!   - `wake` -> AWAKE: at the end of the runtime.

use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;
use crate::shim::poll_set::{Events, PollSet};
use crate::shim::{self, Moment};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const RETIRED: u32 = 2;
const IN_SET: u32 = 3;
const NUDGED: u32 = 4;

/// The word that an LWP sleeps on. See the states in the header.
#[derive(Debug)]
pub(crate) struct IdleSleep(AtomicU32);

impl IdleSleep {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// Marks the LWP as asleep, before others can find it. Owner only.
    pub(crate) fn prepare(&self) {
        // Relaxed: the set, or the lock of the list, publishes it.
        self.0.store(ASLEEP, Ordering::Relaxed);
    }

    /// Marks the LWP as awake: it took itself out, and does not sleep after all. Owner only.
    pub(crate) fn cancel(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps until woken (`true`) or until `deadline`. Calls `look` first, and whenever it was nudged. Owner
    /// only.
    pub(crate) fn wait(&self, deadline: Option<Moment>, look: impl Fn()) -> bool {
        look();
        loop {
            // Acquire: pairs with the release of `wake`.
            match self.0.load(Ordering::Acquire) {
                ASLEEP => {
                    if futex::wait(&self.0, ASLEEP, deadline) == futex::Waited::TimedOut {
                        return !matches!(self.0.load(Ordering::Acquire), ASLEEP | NUDGED);
                    }
                }
                NUDGED => self.take_nudge(&look),
                _ => return true,
            }
        }
    }

    /// Looks, because it was nudged. A later nudge is another.
    #[cold]
    fn take_nudge(&self, look: impl Fn()) {
        // Relaxed: a fence follows in `look`, which pairs with that before `nudge`. The caller loads the word
        // again.
        if self.0.compare_exchange(NUDGED, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            look();
        }
    }

    /// Makes an LWP that sleeps look at what has changed, and then sleep on. An LWP that does not sleep looks
    /// before it does. Returns `true` if the caller must ring the bell of the set for that. After the change,
    /// the caller has made a fence (SeqCst), which pairs with that between `prepare` and the owner's look.
    #[must_use]
    pub(crate) fn nudge(&self) -> bool {
        // Relaxed: the caller's fence orders it, also for `take_nudge`.
        match self.0.compare_exchange(ASLEEP, NUDGED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                futex::wake(&self.0, 1);
                false
            }
            Err(seen) => seen == IN_SET,
        }
    }

    /// Sleeps in `set` until woken (`true`), until `deadline`, or until there are `events`. The second value
    /// is `false` if the program has closed the set. Calls `look` as [`wait`](Self::wait) does. A nudge ends
    /// the sleep. Owner only.
    pub(crate) fn wait_in(
        &self,
        set: &PollSet,
        deadline: Option<Moment>,
        events: &mut Events,
        look: impl Fn(),
    ) -> (bool, bool) {
        look();
        // Release: the waker may ask which kernel thread sleeps in the set. Acquire: pairs with the release
        // of `wake`.
        while let Err(seen) = self.0.compare_exchange(ASLEEP, IN_SET, Ordering::Release, Ordering::Acquire) {
            if seen != NUDGED {
                return (true, true);
            }
            self.take_nudge(&look);
        }
        let timeout = deadline.map(|deadline| deadline - shim::now());
        let there = set.sleep(events, timeout);
        // Relaxed: nothing is published. Acquire: as above.
        let woken = self.0.compare_exchange(IN_SET, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err();
        (woken, there)
    }

    /// Wakes an LWP that the caller took out. Returns `true` if the caller must ring the bell of the
    /// set for that.
    #[must_use]
    pub(crate) fn wake(&self) -> bool {
        // Release: what the caller queued, and the slot it gave, are visible to the LWP.
        let in_set = self.0.swap(AWAKE, Ordering::Release) == IN_SET;
        if !in_set {
            futex::wake(&self.0, 1);
        }
        in_set
    }

    /// Tells the LWP's kernel thread to end. The caller took it off the list of spares.
    pub(crate) fn retire(&self) {
        // Relaxed: an LWP that ends looks at nothing that the caller wrote.
        self.0.store(RETIRED, Ordering::Relaxed);
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
        matches!(self.0.load(Ordering::Relaxed), ASLEEP | NUDGED | IN_SET)
    }

    /// Returns `true` if the LWP neither sleeps nor is to end, at this moment.
    pub(crate) fn is_awake(&self) -> bool {
        self.0.load(Ordering::Relaxed) == AWAKE
    }
}

#[cfg(all(test, loom))]
mod loom_in_set;
#[cfg(all(test, loom))]
mod loom_nudge;
