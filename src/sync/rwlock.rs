//! A lock of one writer or many readers, for threads of any kind.

mod leave;
mod next;
mod owner;
mod raw;
mod upgrade;
mod word;

use std::time::{Duration, Instant};

use super::impls::forward;
use crate::park::wait::{Wait, WaitError};

crate::shim::swap! { pub use raw::RawRwLock; pub use crate::shim::model::rwlock::RawRwLock; }
crate::shim::swap! { use word::Wish; use crate::shim::model::rwlock::Wish; }

/// A lock that lets many threads read a value, or one change it, without poisoning.
///
/// Threads of any kind may share it, as they may a [`Mutex`](crate::sync::Mutex). It is eight bytes
/// beside the value, and needs no initialization and no destructor. It may be moved while no thread uses
/// it. A thread that unwinds with the lock held releases it; the next to come in finds the value as it
/// was left.
///
/// The lock is *adaptive*, as the mutex is. **Neither side starves**:
///
/// - While a writer waits, no new reader joins those that read.
/// - When a writer has left, all waiting readers come in together before the next writer.
/// - A thread that was woken and is passed by others is handed the lock after about half a millisecond.
///   [`RwLockWriteGuard::unlock_fair`] and its like hand it over at once.
/// - Of waiting readers and writers the higher [priority](crate::thread::Priority) goes first, not more
///   than 16 times in a row.
///
/// A thread that reads already must not wait in [`read`](lock_api::RwLock::read): a writer may have come
/// to wait in between, and both deadlock. [`read_recursive`](lock_api::RwLock::read_recursive) ignores
/// a waiting writer. A thread waits for itself forever in these cases:
///
/// - It writes, and locks again in any way.
/// - It reads, and wants to write.
/// - It upgrades while it has another read guard.
///
/// One reader at a time may be *upgradable*: it reads beside others. When the others have left, it can
/// become the writer without giving up the lock in between. In the same way, a writer can become a reader
/// (*downgrade*).
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
/// - *Locked again by a thread that is in*: the thread waits for itself, as said above, which is forever
///   (the timed forms: until their time is over).
/// - *A leaked guard*: the lock stays locked forever. A leaked read guard stops writers, and a thread
///   that upgrades.
/// - *Unlocked by a thread other than the one that came in*, by the `unsafe`
///   [`force_unlock_read`](lock_api::RwLock::force_unlock_read) and its like or the raw lock: it is
///   unlocked.
/// - *Unlocked while no thread is in*, in the same way: it panics, and stays as it is. It does so, too, if a
///   writer's unlock comes while readers are in, or the other way round. The same holds if it is *upgraded
///   while no thread has the upgradable share*. If several threads do so at once, it may be left in any
///   state.
/// - *Dropped or moved while a thread waits for it*: as a [`Mutex`](crate::sync::Mutex).
///
/// # Panics
///
/// All methods that come in to read do so if 16,777,215 read guards exist already. That happens if guards
/// are forgotten.
///
/// # Blocks
///
/// `read`, `write`, `upgradable_read`, `upgrade` and the timed forms block the thread. Meanwhile a green
/// thread leaves its LWP to others.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`]; leaves it when dropped.
///
/// Like the guards of `lock_api` and parking_lot, it is invariant in `T`. A guard of a `&'static str` cannot
/// be used as a guard of a shorter-lived `&str`. The guards of std and of [`poison`](crate::sync::poison) are
/// covariant.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to the value of a locked [`RwLock`]; leaves it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// Shared access to the value of a locked [`RwLock`] that can become exclusive; leaves it when dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// Shared access to a part of the value of a locked [`RwLock`], made by [`RwLockReadGuard::map`]; leaves
/// it when dropped.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to a part of the value of a locked [`RwLock`], made by [`RwLockWriteGuard::map`];
/// leaves it when dropped.
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

impl RawRwLock {
    /// Comes in, at most for `timeout`. Returns `true` if it is in. Reads the clock only if it must wait.
    #[inline]
    fn acquire_for(&self, wish: Wish, timeout: Duration) -> bool {
        self.try_acquire(wish) || self.acquire_with(wish, Wait::timeout(timeout)).is_ok()
    }

    #[inline]
    fn acquire_until(&self, wish: Wish, deadline: Instant) -> bool {
        self.acquire_with(wish, Wait::until(deadline)).is_ok()
    }
}

// SAFETY: a writer comes in when no thread is in, a reader when no writer is, and both are in until they
// leave (see `raw.rs`).
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    forward! {
        fn lock_shared(&self) = self.acquire(Wish::Read);
        fn try_lock_shared(&self) -> bool = self.try_acquire(Wish::Read);
        fn lock_exclusive(&self) = self.acquire(Wish::Write);
        fn try_lock_exclusive(&self) -> bool = self.try_acquire(Wish::Write);
        fn is_locked(&self) -> bool = self.is_locked();
        fn is_locked_exclusive(&self) -> bool = self.is_written();
        unsafe fn unlock_shared(&self) = self.release(Wish::Read);
        unsafe fn unlock_exclusive(&self) = self.release(Wish::Write);
    }
}

// SAFETY: the fair forms pass the share on or give it up.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    forward! {
        unsafe fn unlock_shared_fair(&self) = self.release_fair(Wish::Read);
        unsafe fn unlock_exclusive_fair(&self) = self.release_fair(Wish::Write);
        unsafe fn bump_shared(&self) = self.bump(Wish::Read);
        unsafe fn bump_exclusive(&self) = self.bump(Wish::Write);
    }
}

// SAFETY: the change leaves no moment in between in which a writer could come in.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade(&self) {
        self.downgrade_to(Wish::Read);
    }
}

// SAFETY: as `RawRwLock`: writers are alone. `false` means that the thread is not in.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    forward! {
        fn try_lock_shared_for(&self, timeout: Duration) -> bool = self.acquire_for(Wish::Read, timeout);
        fn try_lock_shared_until(&self, deadline: Instant) -> bool = self.acquire_until(Wish::Read, deadline);
        fn try_lock_exclusive_for(&self, timeout: Duration) -> bool = self.acquire_for(Wish::Write, timeout);
        fn try_lock_exclusive_until(&self, deadline: Instant) -> bool =
            self.acquire_until(Wish::Write, deadline);
    }
}

// SAFETY: as `RawRwLock`: a writer that is in keeps out a thread that reads again. Nothing else does.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    forward! {
        fn lock_shared_recursive(&self) = self.acquire(Wish::ReadAgain);
        fn try_lock_shared_recursive(&self) -> bool = self.try_acquire(Wish::ReadAgain);
    }
}

// SAFETY: as `RawRwLockRecursive`; `false` means that the thread is not in.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    forward! {
        fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool =
            self.acquire_for(Wish::ReadAgain, timeout);
        fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool =
            self.acquire_until(Wish::ReadAgain, deadline);
    }
}

// SAFETY: one thread at a time has the upgradable share, and it becomes the writer when it is the only
// reader.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    forward! {
        fn lock_upgradable(&self) = self.acquire(Wish::Upgradable);
        fn try_lock_upgradable(&self) -> bool = self.try_acquire(Wish::Upgradable);
        unsafe fn unlock_upgradable(&self) = self.release(Wish::Upgradable);
        unsafe fn try_upgrade(&self) -> bool = self.try_upgrade();
    }

    #[inline]
    unsafe fn upgrade(&self) {
        let endless = self.upgrade_with(Wait::forever());
        debug_assert!(endless.is_ok());
    }
}

// SAFETY: as `RawRwLockFair`: the share is passed on or given up.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    forward! {
        unsafe fn unlock_upgradable_fair(&self) = self.release_fair(Wish::Upgradable);
        unsafe fn bump_upgradable(&self) = self.bump(Wish::Upgradable);
    }
}

// SAFETY: as `RawRwLockDowngrade`: no writer can come in between.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    forward! {
        unsafe fn downgrade_upgradable(&self) = self.leave_upgrade();
        unsafe fn downgrade_to_upgradable(&self) = self.downgrade_to(Wish::Upgradable);
    }
}

// SAFETY: as `RawRwLockUpgrade`; `false` means that the thread is not in, or still a reader.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    forward! {
        fn try_lock_upgradable_for(&self, timeout: Duration) -> bool =
            self.acquire_for(Wish::Upgradable, timeout);
        fn try_lock_upgradable_until(&self, deadline: Instant) -> bool =
            self.acquire_until(Wish::Upgradable, deadline);
        unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool =
            self.upgrade_with(Wait::until(deadline)).is_ok();
    }

    #[inline]
    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // The clock is read only if the thread must wait.
        self.try_upgrade() || self.upgrade_with(Wait::timeout(timeout)).is_ok()
    }
}

// The waits that end as a `Wait` says are traits, because the lock and its guards are `lock_api`'s types, to
// which this crate cannot add methods.
mod sealed {
    pub trait Sealed {}
}

impl<T: ?Sized> sealed::Sealed for RwLock<T> {}
impl<T: ?Sized> sealed::Sealed for RwLockUpgradableReadGuard<'_, T> {}

/// Read-write locks on which a thread waits as a [`Wait`] says: with a deadline, until an
/// [interrupt](crate::thread::Thread::interrupt), or both.
///
/// If a writer gives up, the readers that waited only because of it come in.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{RwLock, RwLockWith};
/// use selvedge::{OneToOne, Runtime, Wait, WaitError};
/// use std::sync::Arc;
///
/// let rt = OneToOne::new()?;
/// let lock = Arc::new(RwLock::new(1));
/// let reader = lock.read();
/// let waiter = rt.spawn({
///     let lock = Arc::clone(&lock);
///     move || lock.write_with(Wait::forever().interruptible()).map(|value| *value)
/// });
/// waiter.thread().interrupt();
/// assert_eq!(waiter.join().unwrap(), Err(WaitError::Interrupted));
/// assert_eq!(*reader, 1);
/// # std::io::Result::Ok(())
/// ```
pub trait RwLockWith: sealed::Sealed {
    /// The value that the lock protects.
    type Value: ?Sized;

    /// Comes in to read, unless `wait` ends before.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the thread is not in.
    ///
    /// # Panics
    ///
    /// If there are too many readers; see [`RwLock`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn read_with(&self, wait: Wait) -> Result<RwLockReadGuard<'_, Self::Value>, WaitError>;

    /// [`read_with`](Self::read_with) for a thread that may read already: it ignores a waiting writer.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the thread is not in once more.
    ///
    /// # Panics
    ///
    /// If there are too many readers; see [`RwLock`].
    ///
    /// # Blocks
    ///
    /// The thread, while a writer is in.
    fn read_recursive_with(&self, wait: Wait) -> Result<RwLockReadGuard<'_, Self::Value>, WaitError>;

    /// Comes in to write, unless `wait` ends before.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn write_with(&self, wait: Wait) -> Result<RwLockWriteGuard<'_, Self::Value>, WaitError>;

    /// Comes in to read, and perhaps to write later, unless `wait` ends before.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the thread is not in.
    ///
    /// # Panics
    ///
    /// If there are too many readers; see [`RwLock`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgradable_read_with(
        &self,
        wait: Wait,
    ) -> Result<RwLockUpgradableReadGuard<'_, Self::Value>, WaitError>;
}

/// Makes one wait. The wish says what the thread waits for; `make` makes the guard that it gets.
macro_rules! with {
    ($with:ident: $wish:ident, $guard:ident, $make:ident) => {
        fn $with(&self, wait: Wait) -> Result<$guard<'_, T>, WaitError> {
            // SAFETY: only `acquire_with` is called.
            unsafe { self.raw() }.acquire_with(Wish::$wish, wait)?;
            // SAFETY: this thread has just come in with this wish, and no guard has been made for it.
            Ok(unsafe { self.$make() })
        }
    };
}

impl<T: ?Sized> RwLockWith for RwLock<T> {
    type Value = T;

    with! { read_with: Read, RwLockReadGuard, make_read_guard_unchecked }
    with! { read_recursive_with: ReadAgain, RwLockReadGuard, make_read_guard_unchecked }
    with! { write_with: Write, RwLockWriteGuard, make_write_guard_unchecked }
    with! { upgradable_read_with: Upgradable, RwLockUpgradableReadGuard, make_upgradable_guard_unchecked }
}

/// Guards with an upgrade that ends as a [`Wait`] says.
///
/// Like the guard's own functions, it is called by the name of the trait, because a guard has the methods of
/// its value.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{RwLock, UpgradeWith};
/// use selvedge::{Wait, WaitError, thread};
/// use std::time::Duration;
///
/// let lock = RwLock::new(1);
/// let (reader, other) = (lock.upgradable_read(), lock.read());
/// let wait = Wait::timeout(Duration::from_millis(1)).interruptible();
/// let (reader, error) = UpgradeWith::upgrade_with(reader, wait).unwrap_err();
/// assert_eq!(error, WaitError::TimedOut);
/// thread::current().interrupt();
/// let (reader, error) = UpgradeWith::upgrade_with(reader, wait).unwrap_err();
/// assert_eq!((*reader, error), (1, WaitError::Interrupted));
/// drop(other);
/// *UpgradeWith::upgrade_with(reader, wait).unwrap() = 2;
/// ```
pub trait UpgradeWith: Sized + sealed::Sealed {
    /// The writer's guard.
    type Upgraded;

    /// Waits until no other thread reads, and becomes the writer, unless `wait` ends before.
    ///
    /// # Errors
    ///
    /// The guard as it was, and [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread. Meanwhile no new reader comes in, except threads that read already.
    fn upgrade_with(this: Self, wait: Wait) -> Result<Self::Upgraded, (Self, WaitError)>;
}

impl<'a, T: ?Sized> UpgradeWith for RwLockUpgradableReadGuard<'a, T> {
    type Upgraded = RwLockWriteGuard<'a, T>;

    fn upgrade_with(this: Self, wait: Wait) -> Result<Self::Upgraded, (Self, WaitError)> {
        let lock = Self::rwlock(&this);
        // SAFETY: only `upgrade_with` is called, by a thread that has the upgradable share.
        match unsafe { lock.raw() }.upgrade_with(wait) {
            Ok(()) => {
                std::mem::forget(this);
                // SAFETY: the share has become the writer's, and the guard of the upgradable one is no more.
                Ok(unsafe { lock.make_write_guard_unchecked() })
            }
            Err(error) => Err((this, error)),
        }
    }
}
