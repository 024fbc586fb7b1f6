//! A mutual exclusion lock that is always passed on to the next waiter.
//!
//! It is the adaptive lock of `mutex/raw.rs`, but each unlock is fair, and waiters queue in the order of
//! their arrival. If threads wait, the lock stays locked and is handed to the first of them. So no thread
//! barges in, and each contended critical section costs a context switch, to the thread with the coldest
//! caches.

use std::time::{Duration, Instant};

use super::impls::forward;
use super::mutex::{LockWith, RawMutex, sealed};
use crate::park::wait::{Wait, WaitError};

/// A [`Mutex`](super::Mutex) that each unlock hands to a waiter, if there is one.
///
/// A `Mutex` lets a running thread acquire the lock before a waiter that still has to wake up. Under
/// contention that is several times faster. Only a waiter that has been passed over for half a millisecond is
/// handed the lock. Of several waiters, the last to come is mostly the next. Use a `FairMutex` if no thread
/// may pass a waiter: the first to come is the next. (A waiter of a higher
/// [priority](crate::thread::Priority) goes first, as everywhere.)
///
/// # Examples
///
/// ```
/// use selvedge::sync::FairMutex;
///
/// let total = FairMutex::new(0);
/// std::thread::scope(|s| {
///     for n in 1..=3 {
///         let total = &total;
///         s.spawn(move || *total.lock() += n);
///     }
/// });
/// assert_eq!(total.into_inner(), 6);
/// ```
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;

/// Access to the value of a locked [`FairMutex`]; unlocks it when dropped.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;

/// Access to a part of the value of a locked [`FairMutex`]. [`FairMutexGuard::map`] makes it; dropping it
/// unlocks the mutex.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// A [`FairMutexGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcFairMutexGuard<T> = lock_api::ArcMutexGuard<RawFairMutex, T>;

/// Returns a free [`FairMutex`] around `value`: parking_lot's name for [`FairMutex::new`].
#[must_use]
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::new(value)
}

/// The algorithm, without the data: see [`FairMutex`].
#[derive(Default)]
pub struct RawFairMutex(pub(super) RawMutex);

impl RawFairMutex {
    /// Returns a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(RawMutex::new())
    }
}

// SAFETY: `RawMutex` is a lock, and this one differs only in which thread is next.
unsafe impl lock_api::RawMutex for RawFairMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    forward! {
        fn lock(&self) = self.0.acquire_in_order();
        fn try_lock(&self) -> bool = self.0.try_acquire();
        fn is_locked(&self) -> bool = self.0.is_taken();
        unsafe fn unlock(&self) = self.0.release_fair();
    }
}

// SAFETY: as `RawMutex`, which passes the lock on or frees it.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.0.release_fair();
    }

    #[inline]
    unsafe fn bump(&self) {
        if self.0.has_waiters() {
            self.0.release_fair();
            self.0.acquire_in_order();
        }
    }
}

// SAFETY: as `RawMutex`; `false` means that it was not taken.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    forward! {
        fn try_lock_for(&self, timeout: Duration) -> bool =
            self.0.try_acquire() || self.0.acquire_in_order_with(Wait::timeout(timeout)).is_ok();
        fn try_lock_until(&self, deadline: Instant) -> bool =
            self.0.acquire_in_order_with(Wait::until(deadline)).is_ok();
    }
}

impl<T: ?Sized> sealed::Sealed for FairMutex<T> {}

impl<T: ?Sized> LockWith for FairMutex<T> {
    type Guard<'a>
        = FairMutexGuard<'a, T>
    where
        Self: 'a;

    #[inline]
    fn lock_with(&self, wait: Wait) -> Result<FairMutexGuard<'_, T>, WaitError> {
        // SAFETY: only `acquire_in_order_with` is called.
        let raw = unsafe { self.raw() };
        wait.run(|wait| raw.0.acquire_in_order_with(wait))?;
        // SAFETY: it has just been locked by this thread, which has no other guard of it.
        Ok(unsafe { self.make_guard_unchecked() })
    }
}

crate::shown::debug! { [] RawFairMutex: "RawFairMutex", "locked": |lock| lock.0.is_taken() }
