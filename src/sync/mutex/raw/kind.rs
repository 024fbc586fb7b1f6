//! What kinds of mutexes want of a wait for the lock.

use super::robust::Got;
use super::{RawMutex, Wait, WaitError, WaitReason};
use crate::park::current::owner_hint;
use crate::park::wait_queue::{Options, Order};

/// Returns `true` if the owner of the mutex is dead.
type IsDead<'a> = &'a dyn Fn() -> bool;

/// A kind of mutex.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// A thread with warm caches is next.
    Usual,
    /// The thread that has waited longest is next.
    InOrder,
    /// As usual. The wait also ends when the owner is found dead (`raw/robust.rs`).
    Robust(IsDead<'a>),
}

impl Kind<'_> {
    /// Returns how a thread queues.
    #[inline]
    pub(super) fn options(self, wait: Wait) -> Options {
        let mut options = Options::new(WaitReason::Mutex, wait);
        // The wait queue need not spin: `take_or_spin` has looked at the state before the thread queues.
        options.spin = false;
        match self {
            Self::Usual => {}
            Self::InOrder => options.order = Order::Fifo,
            Self::Robust(_) => options.heir = true,
        }
        options
    }

    /// Returns `true` if the owner is dead, as far as this kind wants to know.
    #[inline]
    pub(super) fn owner_is_dead(self) -> bool {
        matches!(self, Self::Robust(is_dead) if is_dead())
    }
}

impl RawMutex {
    /// Acquires the lock as this kind of it, and ends as `wait` says.
    #[inline]
    pub(super) fn acquire_as(&self, kind: Kind<'_>, wait: Wait) -> Result<Got, WaitError> {
        if self.word.is_idle() && self.word.try_take_idle() {
            self.set_owner(owner_hint());
            Ok(Got::Locked)
        } else {
            self.acquire_slow(wait, 0, kind)
        }
    }

    /// [`acquire`](Self::acquire) in the order of arrival, for a lock whose unlocks are all fair.
    #[inline]
    pub(in crate::sync) fn acquire_in_order(&self) {
        self.acquire_or(|| self.acquire_contended_in_order());
    }

    #[cold]
    fn acquire_contended_in_order(&self) {
        let endless = self.acquire_slow(Wait::forever(), 0, Kind::InOrder);
        debug_assert_eq!(endless, Ok(Got::Locked));
    }

    /// [`acquire_with`](Self::acquire_with) in the order of arrival.
    #[inline]
    pub(in crate::sync) fn acquire_in_order_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.acquire_as(Kind::InOrder, wait).map(|_| ())
    }
}
