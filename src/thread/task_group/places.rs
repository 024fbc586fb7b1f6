//! How many threads of a group may run at once.
//!
//! **Protocol.** A word counts the places that are free. To take one is to lower it, unless it is zero. A
//! thread that finds zero queues at the word's address, after a last look with the bucket lock held. A place
//! is given back by raising the word, and then granting one waiter, which tries again.
//!
//! **Proof.** No lost wake-up: the word is raised before the bucket lock is taken. So either the last look
//! sees it, or the waiter is found in the queue. If another thread takes the place first, the waiter queues
//! again, and that thread gives a place back later.

use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicUsize, Ordering};

/// The places of a group.
pub(super) struct Places {
    free: AtomicUsize,
}

impl Places {
    pub(super) fn new(places: usize) -> Self {
        Self { free: AtomicUsize::new(places) }
    }

    fn key(&self) -> usize {
        (&raw const self.free).addr()
    }

    /// Takes a place. Waits for one as `wait` says. If a place is free, an interrupt that came before is left
    /// alone.
    pub(super) fn take(&self, wait: Wait) -> Result<Place<'_>, WaitError> {
        if self.try_take() {
            return Ok(Place(self));
        }
        wait.run(|wait| self.wait(wait)).map(|()| Place(self))
    }

    fn try_take(&self) -> bool {
        // Acquire: pairs with `give_back`, so that the next task of a place comes after the last one.
        self.free.fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| free.checked_sub(1)).is_ok()
    }

    fn wait(&self, wait: Wait) -> Result<(), WaitError> {
        let options = Options::new(WaitReason::Scope, wait);
        while !self.try_take() {
            // Relaxed: `give_back` raises the word before it takes the queue lock, which is held here.
            let none_is_free = || self.free.load(Ordering::Relaxed) == 0;
            if let Ok(Woken::Ended { why, .. }) = wait_queue::wait_while(self.key(), &options, none_is_free) {
                return Err(why);
            }
        }
        Ok(())
    }

    fn give_back(&self) {
        // Release: pairs with `try_take`.
        self.free.fetch_add(1, Ordering::Release);
        if let Some(grant) = wait_queue::grant_one(self.key(), |_| Token(0)) {
            grant.wake();
        }
    }
}

/// A place that is taken. It is given back when this is dropped.
pub(super) struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(all(test, loom))]
mod loom_places;
