//! Waits for a mutex that its owner may leave locked when it ends. For `sync::robust`, which knows the
//! owner.
//!
//! The wait is the mutex's own, except for two things:
//!
//! - It ends when the owner is found dead. The waiter looks for that with the bucket lock held, before it
//!   sleeps.
//! - A waiter that is told that some owner has died looks again (`park/robust.rs` has the proof).
//!
//! If a thread owns `WOKEN` and finds the owner dead, it gives the bit up. It then takes the lock over,
//! or waits again. In either case an unlock is to come that must wake a waiter.

use super::{Kind, RawMutex, Wait, WaitError};
use crate::park::current::owner_hint;
use crate::shim::atomic::Ordering;

/// How a wait for the mutex has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(in crate::sync) enum Got {
    Locked,
    /// The mutex is still locked, by a thread that has ended.
    OwnerDied,
}

impl RawMutex {
    /// Does what [`acquire_with`](Self::acquire_with) does, unless the owner is dead.
    #[inline]
    pub(in crate::sync) fn acquire_unless(
        &self,
        owner_is_dead: impl Fn() -> bool,
        wait: Wait,
    ) -> Result<Got, WaitError> {
        self.acquire_as(Kind::Robust(&owner_is_dead), wait)
    }

    /// Returns `true` if it is locked at this moment of a model.
    #[cfg(all(test, loom))]
    pub(in crate::sync) fn is_locked_now(&self) -> bool {
        // A read-modify-write sees the last store.
        self.word.0.fetch_and(!0, Ordering::Relaxed) & super::LOCKED != 0
    }

    /// Notes that an heir has taken the lock over from a dead owner.
    #[cold]
    pub(in crate::sync) fn taken_over(&self) {
        self.set_owner(owner_hint());
    }

    /// Gives up `WOKEN`, if `mine` is that, for a thread that does not take the lock.
    #[cold]
    pub(super) fn end_way(&self, mine: u8) {
        // Relaxed: it publishes nothing; it is one read-modify-write among others.
        self.word.0.fetch_and(!mine, Ordering::Relaxed);
    }
}
