//! A lock of one writer or many readers, for threads of any kind.

mod interruptible;
mod leave;
mod owner;
mod patience;
mod raw;
mod state;
mod turn;
mod upgrade;

use std::time::{Duration, Instant};

use crate::time;

use state::{Share, Wish};

pub use interruptible::{RwLockInterruptible, UpgradeInterruptible};
pub use raw::RawRwLock;

/// A lock that lets many read a value, or one change it, without poisoning.
///
/// It may be shared between threads of any kind, as a [`Mutex`](crate::sync::Mutex) may. It is eight bytes beside the value,
/// needs no initialization and no destructor, and may be moved while nobody uses it. A thread that unwinds with the lock
/// held releases it; the next to come in finds the value as it was left.
///
/// The lock is *adaptive*, as the mutex is. **Neither side starves**: while a writer waits, no new reader joins those that read,
/// and when a writer has left, all readers that wait come in together before the next one. A thread that was woken and is passed by others
/// is handed the lock after about half a millisecond; [`RwLockWriteGuard::unlock_fair`] and its like hand it over at once. Of
/// readers and writers that wait the higher [priority](crate::thread::Priority) goes first, not more than 16 times in a row.
///
/// A thread that reads already must not wait in [`read`](lock_api::RwLock::read), since a writer may wait between, which deadlocks
/// both; [`read_recursive`](lock_api::RwLock::read_recursive) heeds no waiting writer. A thread that writes, and locks again in
/// whatever way, waits for itself for ever; so does one that reads and wants to write, or upgrades while it has another read guard.
///
/// One reader at a time may be *upgradable*: it reads beside others, and can become the writer without giving up the lock in
/// between, when the others have left. A writer can become a reader in the same way (*downgrade*).
///
/// # Examples
///
/// ```
/// use selvedge::sync::RwLock;
///
/// static LIST: RwLock<Vec<u32>> = RwLock::new(Vec::new());
///
/// std::thread::scope(|s| {
///     for n in 0..4 {
///         s.spawn(move || LIST.write().push(n));
///         s.spawn(|| LIST.read().len() <= 4);
///     }
/// });
/// assert_eq!(LIST.read().len(), 4);
/// ```
///
/// Upgrade and downgrade, and a deadline:
///
/// ```
/// use selvedge::sync::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
/// use std::time::Duration;
///
/// let lock = RwLock::new(1);
/// let reader = lock.upgradable_read();
/// assert_eq!(*reader, *lock.read());
/// let mut writer = RwLockUpgradableReadGuard::upgrade(reader);
/// *writer += 1;
/// assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
/// let reader = RwLockWriteGuard::downgrade(writer);
/// assert_eq!((*reader, lock.try_read().map(|value| *value)), (2, Some(2)));
/// ```
///
/// # Misuse
///
/// - *Locked again by one who is in*, it waits for that one, as said above, which is for ever (the timed forms: until their time is over).
/// - *A leaked guard* keeps it locked for ever: a leaked read guard for those who write, and for one who upgrades.
/// - *Unlocked by another thread* than the one that came in, by the `unsafe` [`force_unlock_read`](lock_api::RwLock::force_unlock_read)
///   and its like or the raw lock, it is unlocked.
/// - *Unlocked while nobody is in*, or as by a writer where readers are in, or the other way round, in the same way, or upgraded where nobody has
///   the upgradable share: it panics, and stays as it is. (Where several do so at once, it may be left in any state.)
/// - *Dropped or moved while a thread waits for it*: as a [`Mutex`](crate::sync::Mutex).
///
/// # Panics
///
/// All that come in to read do so if 16,777,215 read guards exist already, as they do where guards are forgotten.
///
/// # Blocks
///
/// `read`, `write`, `upgradable_read`, `upgrade` and the timed forms block the thread: a green thread leaves its LWP to others
/// meanwhile.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`]; leaves it when dropped.
///
/// Like the guards of `lock_api` and parking_lot, it is invariant in `T`: a guard of a `&'static str` cannot
/// be used as a guard of a shorter-lived `&str`. The guards of std and of [`poison`](crate::sync::poison) are
/// covariant.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to the value of a locked [`RwLock`]; leaves it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`] that can become exclusive; leaves it when dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// Shared access to a part of the value of a locked [`RwLock`], made by [`RwLockReadGuard::map`]; leaves it when dropped.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to a part of the value of a locked [`RwLock`], made by [`RwLockWriteGuard::map`]; leaves it when dropped.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;

/// A [`RwLockWriteGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;

/// A [`RwLockUpgradableReadGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockUpgradableReadGuard<T> = lock_api::ArcRwLockUpgradableReadGuard<RawRwLock, T>;

// SAFETY: a writer comes in where nobody is, a reader where no writer is, and both are in until they leave (see `raw.rs`).
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.read();
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_acquire(Wish::Read)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.leave_read();
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.write();
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_acquire(Wish::Write)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.leave_write();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        !self.bits().is_free()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.bits().is_written()
    }
}

// SAFETY: the fair forms pass the share on or give it up.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.leave_read_fair();
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.leave_write_fair();
    }

    #[inline]
    unsafe fn bump_shared(&self) {
        self.bump_read();
    }

    #[inline]
    unsafe fn bump_exclusive(&self) {
        if self.bits().is_waited_for() {
            self.leave_write_fair();
            self.write();
        }
    }
}

// SAFETY: the change leaves no moment in between in which a writer could come in.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade(&self) {
        self.downgrade_to(Share::READ);
    }
}

// SAFETY: as `RawRwLock`; `false` means that it is not in.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.acquire_for(Wish::Read, timeout)
    }

    #[inline]
    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.acquire_until(Wish::Read, Some(deadline))
    }

    #[inline]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.acquire_for(Wish::Write, timeout)
    }

    #[inline]
    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.acquire_until(Wish::Write, Some(deadline))
    }
}

// SAFETY: as `RawRwLock`: one that reads again is kept out by a writer that is in, and by nobody else.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.read_again();
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.try_acquire(Wish::ReadAgain)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    #[inline]
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.acquire_for(Wish::ReadAgain, timeout)
    }

    #[inline]
    fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool {
        self.acquire_until(Wish::ReadAgain, Some(deadline))
    }
}

// SAFETY: one has the upgradable share at a time, and becomes the writer when it is the only reader.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    #[inline]
    fn lock_upgradable(&self) {
        self.upgradable();
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        self.try_acquire(Wish::Upgradable)
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        self.leave_upgradable();
    }

    #[inline]
    unsafe fn upgrade(&self) {
        let upgraded = self.upgrade_until(None);
        debug_assert!(upgraded, "a wait without a deadline ends with the lock");
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        self.try_upgrade_now()
    }
}

// SAFETY: as `RawRwLockFair`.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    #[inline]
    unsafe fn unlock_upgradable_fair(&self) {
        self.leave_upgradable_fair();
    }

    #[inline]
    unsafe fn bump_upgradable(&self) {
        self.bump_upgradable();
    }
}

// SAFETY: as `RawRwLockDowngrade`.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        self.leave_upgrade();
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        self.downgrade_to(Share::UPGRADABLE);
    }
}

// SAFETY: as `RawRwLockUpgrade`; `false` means that it is not in, or still a reader.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    #[inline]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.acquire_for(Wish::Upgradable, timeout)
    }

    #[inline]
    fn try_lock_upgradable_until(&self, deadline: Instant) -> bool {
        self.acquire_until(Wish::Upgradable, Some(deadline))
    }

    #[inline]
    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // The clock is asked only if it must wait.
        self.try_upgrade_now() || self.upgrade_until(time::after(timeout))
    }

    #[inline]
    unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool {
        self.upgrade_until(Some(deadline))
    }
}
