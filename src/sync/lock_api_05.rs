//! The locks for programs that use lock_api 0.5 (feature `lock_api_05`, which needs Rust 1.95).
//!
//! The raw locks of [`sync`](super) implement the traits of both versions; the names here are the types that version 0.5 makes of
//! them. They are the same locks, and behave as those do; but guards of one version are not those of the other.
//!
//! # Examples
//!
//! ```
//! use selvedge::sync::lock_api_05::{Condvar, Mutex};
//!
//! let (ready, changed) = (Mutex::new(false), Condvar::new());
//! std::thread::scope(|s| {
//!     s.spawn(|| {
//!         *ready.lock() = true;
//!         changed.notify_one();
//!     });
//!     changed.wait_while(&mut ready.lock(), |ready| !*ready);
//! });
//! assert!(*ready.lock());
//! ```

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use ::lock_api_05::GuardNoSend;

use super::RawThreadId;
use super::condvar::Ended;
use super::mutex::RawMutex;
use super::rwlock::RawRwLock;
use crate::park::reason::WaitReason;
use crate::park::wait_queue::Options;

/// [`sync::Mutex`](super::Mutex), by lock_api 0.5.
pub type Mutex<T> = ::lock_api_05::Mutex<RawMutex, T>;

/// Access to the value of a locked [`Mutex`].
pub type MutexGuard<'a, T> = ::lock_api_05::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`].
pub type MappedMutexGuard<'a, T> = ::lock_api_05::MappedMutexGuard<'a, RawMutex, T>;

/// [`sync::ReentrantMutex`](super::ReentrantMutex), by lock_api 0.5.
pub type ReentrantMutex<T> = ::lock_api_05::ReentrantMutex<RawMutex, RawThreadId, T>;

/// Access to the value of a locked [`ReentrantMutex`].
pub type ReentrantMutexGuard<'a, T> = ::lock_api_05::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// [`sync::Condvar`](super::Condvar), by lock_api 0.5. A wait may end without a notification, so notifiers are not told how many they
/// have woken.
pub type Condvar = ::lock_api_05::Condvar<super::condvar::Condvar>;

/// [`sync::RwLock`](super::RwLock), by lock_api 0.5, which has no `read_recursive`.
pub type RwLock<T> = ::lock_api_05::RwLock<RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`].
pub type RwLockReadGuard<'a, T> = ::lock_api_05::RwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to the value of a locked [`RwLock`].
pub type RwLockWriteGuard<'a, T> = ::lock_api_05::RwLockWriteGuard<'a, RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`] that can become exclusive.
pub type RwLockUpgradableReadGuard<'a, T> = ::lock_api_05::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// Shared access to a part of the value of a locked [`RwLock`].
pub type MappedRwLockReadGuard<'a, T> = ::lock_api_05::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to a part of the value of a locked [`RwLock`].
pub type MappedRwLockWriteGuard<'a, T> = ::lock_api_05::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`MutexGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcMutexGuard<T> = ::lock_api_05::ArcMutexGuard<RawMutex, T>;

/// A [`RwLockReadGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockReadGuard<T> = ::lock_api_05::ArcRwLockReadGuard<RawRwLock, T>;

/// A [`RwLockWriteGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockWriteGuard<T> = ::lock_api_05::ArcRwLockWriteGuard<RawRwLock, T>;

/// A [`RwLockUpgradableReadGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockUpgradableReadGuard<T> = ::lock_api_05::ArcRwLockUpgradableReadGuard<RawRwLock, T>;

// SAFETY: as of lock_api 0.4. A lock that unwinds has not been taken; unlocking does not unwind. Four bytes without a
// destructor, in whose queue nobody is while somebody has it to himself.
unsafe impl ::lock_api_05::RawMutex for RawMutex {
    const INIT: Self = Self::new();

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        lock_api::RawMutex::lock(self);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        lock_api::RawMutex::try_lock(self).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        self.release();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        lock_api::RawMutex::is_locked(self)
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawMutexFair::unlock_fair(self) };
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        lock_api::RawMutexTimed::try_lock_for(self, timeout).then(GuardNoSend::new)
    }

    #[inline]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardNoSend> {
        lock_api::RawMutexTimed::try_lock_until(self, deadline).then(GuardNoSend::new)
    }
}

// SAFETY: an id belongs to one thread.
unsafe impl ::lock_api_05::GetThreadId for RawThreadId {
    const INIT: Self = Self;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        lock_api::GetThreadId::nonzero_thread_id(self)
    }
}

// SAFETY: a wait queues before it unlocks, and locks again before it returns. It panics before it has unlocked, or not at all: what
// would be an endless wait for the mutex is found before.
unsafe impl ::lock_api_05::RawCondvar for super::condvar::Condvar {
    const INIT: Self = Self::new();

    type RawMutex = RawMutex;

    unsafe fn wait(&self, mutex: &RawMutex, _guard: &mut GuardNoSend) {
        self.wait_raw(mutex, &Options::new(WaitReason::Condvar, None));
    }

    fn notify_one(&self) -> bool {
        Self::notify_one(self);
        false
    }

    fn notify_all(&self) -> usize {
        Self::notify_all(self);
        0
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawCondvarTimed for super::condvar::Condvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        crate::time::after(*timeout)
    }

    unsafe fn wait_until(&self, mutex: &RawMutex, _guard: &mut GuardNoSend, deadline: &Instant) -> bool {
        self.wait_raw(mutex, &Options::new(WaitReason::Condvar, Some(*deadline))) == Ended::Expired
    }
}

/// Calls of lock_api 0.4 with the guards of 0.5, which say nothing.
macro_rules! guarded {
    ($(fn $lock:ident($($arg:ident: $ty:ty)?) = $old:path;)*) => {$(
        #[inline]
        fn $lock(&self $(, $arg: $ty)?) -> GuardNoSend {
            $old(self $(, $arg)?);
            GuardNoSend::new()
        }
    )*};
    ($(try fn $lock:ident($($arg:ident: $ty:ty)?) = $old:path;)*) => {$(
        #[inline]
        fn $lock(&self $(, $arg: $ty)?) -> Option<GuardNoSend> {
            $old(self $(, $arg)?).then(GuardNoSend::new)
        }
    )*};
    ($(unsafe fn $unlock:ident() = $old:path;)*) => {$(
        #[inline]
        unsafe fn $unlock(&self, _guard: GuardNoSend) {
            // SAFETY: the caller's promise.
            unsafe { $old(self) };
        }
    )*};
    ($(change fn $change:ident() = $old:path;)*) => {$(
        #[inline]
        unsafe fn $change(&self, guard: GuardNoSend) -> GuardNoSend {
            // SAFETY: the caller's promise.
            unsafe { $old(self) };
            guard
        }
    )*};
    ($(try change fn $change:ident($($arg:ident: $ty:ty)?) = $old:path;)*) => {$(
        #[inline]
        unsafe fn $change(&self, guard: GuardNoSend $(, $arg: $ty)?) -> Result<GuardNoSend, GuardNoSend> {
            // SAFETY: the caller's promise.
            if unsafe { $old(self $(, $arg)?) } { Ok(guard) } else { Err(guard) }
        }
    )*};
}

// SAFETY: as of lock_api 0.4; and as for the mutex.
unsafe impl ::lock_api_05::RawRwLock for RawRwLock {
    const INIT: Self = Self::new();

    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    guarded! {
        fn lock_shared() = lock_api::RawRwLock::lock_shared;
        fn lock_exclusive() = lock_api::RawRwLock::lock_exclusive;
    }
    guarded! {
        try fn try_lock_shared() = lock_api::RawRwLock::try_lock_shared;
        try fn try_lock_exclusive() = lock_api::RawRwLock::try_lock_exclusive;
    }
    guarded! {
        unsafe fn unlock_shared() = lock_api::RawRwLock::unlock_shared;
        unsafe fn unlock_exclusive() = lock_api::RawRwLock::unlock_exclusive;
    }

    #[inline]
    fn is_locked(&self) -> bool {
        lock_api::RawRwLock::is_locked(self)
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        lock_api::RawRwLock::is_locked_exclusive(self)
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockFair for RawRwLock {
    guarded! {
        unsafe fn unlock_shared_fair() = lock_api::RawRwLockFair::unlock_shared_fair;
        unsafe fn unlock_exclusive_fair() = lock_api::RawRwLockFair::unlock_exclusive_fair;
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockDowngrade for RawRwLock {
    guarded! {
        change fn downgrade() = lock_api::RawRwLockDowngrade::downgrade;
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    guarded! {
        try fn try_lock_shared_for(timeout: Duration) = lock_api::RawRwLockTimed::try_lock_shared_for;
        try fn try_lock_shared_until(deadline: Instant) = lock_api::RawRwLockTimed::try_lock_shared_until;
        try fn try_lock_exclusive_for(timeout: Duration) = lock_api::RawRwLockTimed::try_lock_exclusive_for;
        try fn try_lock_exclusive_until(deadline: Instant) = lock_api::RawRwLockTimed::try_lock_exclusive_until;
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockUpgrade for RawRwLock {
    type UpgradableGuard = GuardNoSend;

    guarded! {
        fn lock_upgradable() = lock_api::RawRwLockUpgrade::lock_upgradable;
    }
    guarded! {
        try fn try_lock_upgradable() = lock_api::RawRwLockUpgrade::try_lock_upgradable;
    }
    guarded! {
        unsafe fn unlock_upgradable() = lock_api::RawRwLockUpgrade::unlock_upgradable;
    }
    guarded! {
        change fn upgrade() = lock_api::RawRwLockUpgrade::upgrade;
    }
    guarded! {
        try change fn try_upgrade() = lock_api::RawRwLockUpgrade::try_upgrade;
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockUpgradeFair for RawRwLock {
    guarded! {
        unsafe fn unlock_upgradable_fair() = lock_api::RawRwLockUpgradeFair::unlock_upgradable_fair;
    }
}

// SAFETY: as above; leaving exclusive access releases, whatever is kept.
unsafe impl ::lock_api_05::RawRwLockUpgradeDowngrade for RawRwLock {
    guarded! {
        change fn downgrade_upgradable() = lock_api::RawRwLockUpgradeDowngrade::downgrade_upgradable;
        change fn downgrade_to_upgradable() = lock_api::RawRwLockUpgradeDowngrade::downgrade_to_upgradable;
    }
}

// SAFETY: as above.
unsafe impl ::lock_api_05::RawRwLockUpgradeTimed for RawRwLock {
    guarded! {
        try fn try_lock_upgradable_for(timeout: Duration) = lock_api::RawRwLockUpgradeTimed::try_lock_upgradable_for;
        try fn try_lock_upgradable_until(deadline: Instant) = lock_api::RawRwLockUpgradeTimed::try_lock_upgradable_until;
    }
    guarded! {
        try change fn try_upgrade_for(timeout: Duration) = lock_api::RawRwLockUpgradeTimed::try_upgrade_for;
        try change fn try_upgrade_until(deadline: Instant) = lock_api::RawRwLockUpgradeTimed::try_upgrade_until;
    }
}
