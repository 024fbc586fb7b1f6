//! `RwLockWith` and `UpgradeWith`: the waits of a [`RwLock`] that end as a [`Wait`] says.
//!
//! They are traits because the lock and its guards are `lock_api`'s types, to which this crate cannot add
//! methods.

use super::Wish;
use super::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use crate::park::wait::{Wait, WaitError};

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
