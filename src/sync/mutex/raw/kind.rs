//! What kinds of mutexes want of a wait for the lock.
//!
//! **A robust mutex** may be left locked by its owner when that ends. `sync::robust` knows the owner. The
//! wait is the mutex's own, except for two things:
//!
//! - It ends when the owner is found dead. The waiter looks for that with the bucket lock held, before it
//!   sleeps.
//! - A waiter that is told that some owner has died looks again (`park/robust.rs` has the proof).
//!
//! If a thread owns `WOKEN` and finds the owner dead, it gives the bit up. It then takes the lock over,
//! or waits again. In either case an unlock is to come that must wake a waiter.

use super::{Order, RawMutex, Wait, WaitError};
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

/// Returns `true` if the owner of a robust mutex is dead. `None`: the mutex is of another kind.
pub(super) type IsDead<'a> = Option<&'a dyn Fn() -> bool>;

impl RawMutex {
    /// Acquires the lock at once if it is free; otherwise as [`acquire_slow`](Self::acquire_slow) does.
    #[inline]
    pub(super) fn acquire_as(
        &self,
        wait: Wait,
        order: Order,
        owner_is_dead: IsDead<'_>,
    ) -> Result<Got, WaitError> {
        if self.word.is_idle() && self.word.try_take_idle() {
            self.set_owner(owner_hint());
            Ok(Got::Locked)
        } else {
            self.acquire_slow(wait, 0, order, owner_is_dead)
        }
    }

    /// [`acquire`](Self::acquire) in the order of arrival, for a lock whose unlocks are all fair.
    #[inline]
    pub(in crate::sync) fn acquire_in_order(&self) {
        self.acquire_or(|| self.acquire_contended_in_order());
    }

    #[cold]
    fn acquire_contended_in_order(&self) {
        let endless = self.acquire_slow(Wait::forever(), 0, Order::Fifo, None);
        debug_assert_eq!(endless, Ok(Got::Locked));
    }

    /// [`acquire_with`](Self::acquire_with) in the order of arrival.
    #[inline]
    pub(in crate::sync) fn acquire_in_order_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.acquire_as(wait, Order::Fifo, None).map(|_| ())
    }

    /// Does what [`acquire_with`](Self::acquire_with) does, unless the owner is dead.
    #[inline]
    pub(in crate::sync) fn acquire_unless(
        &self,
        owner_is_dead: impl Fn() -> bool,
        wait: Wait,
    ) -> Result<Got, WaitError> {
        self.acquire_as(wait, Order::NearLifo, Some(&owner_is_dead))
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
