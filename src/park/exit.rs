//! The end of a thread, and who waits for it.
//!
//! `ThreadCore::exit` is the word:
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | `RUNNING` | the thread runs or will run, nobody waits | `wait_done` to `JOINED`, `finish` to `DONE` |
//! | `JOINED` | the same, and somebody may sleep on the queue of the word's address | `finish` to `DONE` |
//! | `DONE` | all of it has run, its thread-local destructors included | `begin`, of the core's next life |
//!
//! `finish` swaps in `DONE` and looks at what was there: if somebody had announced a wait, it grants the whole queue. A joiner
//! announces itself before it enqueues, and enqueues only if the word still says `JOINED` under the queue's lock. So either
//! the swap sees the announcement, and the grant, which takes the same lock, comes after the enqueueing; or the joiner sees
//! `DONE`. Nobody sleeps past the end.
//!
//! A grant that comes late may find the core in its next life, since cores are type-stable: it wakes that life's joiners too
//! early, and they look again.
//!
//! Cost: one read-modify-write at the end of a thread; a join of an ended thread does none.

use std::time::Instant;

use super::reason::WaitReason;
use super::thread::{DONE, JOINED, RUNNING, ThreadCore};
use super::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::Ordering;

impl ThreadCore {
    fn exit_key(&self) -> usize {
        (&raw const self.exit).addr()
    }

    /// Says that the thread has ended. Called once, by the thread itself or for it, after everything it will ever run; no
    /// queue lock held.
    #[inline]
    pub(crate) fn finish(&self) {
        // Release: pairs with the acquire of `is_done`, so that a joiner sees all that the thread did. Acquire: pairs with the
        // release of a joiner's announcement; what matters is only the order with its enqueueing, which the queue lock gives.
        if self.exit.swap(DONE, Ordering::AcqRel) == JOINED {
            self.wake_joiners();
        }
    }

    #[cold]
    fn wake_joiners(&self) {
        if let Some(waiters) = wait_queue::grant_all(self.exit_key(), Token(0), || true) {
            waiters.wake_all();
        }
    }

    /// Waits until the thread has ended; `false`: the deadline came first.
    pub(crate) fn wait_done(&self, deadline: Option<Instant>) -> bool {
        loop {
            // Acquire: a `DONE` seen here shows all that the thread did. AcqRel on success: see `finish`.
            if self.exit.compare_exchange(RUNNING, JOINED, Ordering::AcqRel, Ordering::Acquire) == Err(DONE) {
                return true;
            }
            // Relaxed: the queue lock orders it with the grant; a stale value only makes us sleep until that grant.
            let still_joined = || self.exit.load(Ordering::Relaxed) == JOINED;
            let options = Options::new(WaitReason::Join, deadline);
            if let Ok(Woken::Expired { .. }) =
                wait_queue::wait(self.exit_key(), &options, still_joined, || ())
            {
                return self.is_done();
            }
        }
    }
}
