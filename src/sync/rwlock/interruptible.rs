//! `RwLockInterruptible` and `UpgradeInterruptible`: the waits of a [`RwLock`] in forms that an interrupt can end.
//!
//! Traits, because the lock and its guards are `lock_api`'s types, to which this crate cannot add methods.

use std::time::{Duration, Instant};

use super::state::Wish;
use super::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use crate::park::interrupt::Interrupted;
use crate::time;

mod sealed {
    pub trait Sealed {}
}

impl<T: ?Sized> sealed::Sealed for RwLock<T> {}
impl<T: ?Sized> sealed::Sealed for RwLockUpgradableReadGuard<'_, T> {}

/// Read-write locks that a thread can be kept from waiting for, by [`Thread::interrupt`](crate::thread::Thread::interrupt).
///
/// As [`LockInterruptible`](crate::sync::LockInterruptible): a thread that has been interrupted gets the error whether or not the
/// lock is free; one that is handed the lock in the same moment as it is interrupted is in, and the interrupt is left for its
/// next wait. If a writer gives up, the readers that waited for its sake come in.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{RwLock, RwLockInterruptible};
/// use selvedge::{OneToOne, Runtime};
/// use std::sync::Arc;
///
/// let rt = OneToOne::new()?;
/// let lock = Arc::new(RwLock::new(1));
/// let reader = lock.read();
/// let waiter = rt.spawn({
///     let lock = Arc::clone(&lock);
///     move || lock.write_interruptible().map(|value| *value)
/// });
/// waiter.thread().interrupt();
/// assert!(waiter.join().unwrap().is_err());
/// assert_eq!(*reader, 1);
/// # std::io::Result::Ok(())
/// ```
pub trait RwLockInterruptible: sealed::Sealed {
    /// What the lock protects.
    type Value: ?Sized;

    /// Comes in to read, unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Panics
    ///
    /// If there are too many readers; see [`RwLock`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn read_interruptible(&self) -> Result<RwLockReadGuard<'_, Self::Value>, Interrupted>;

    /// [`read_interruptible`](Self::read_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn read_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<RwLockReadGuard<'_, Self::Value>>, Interrupted>;

    /// [`read_interruptible`](Self::read_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn read_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockReadGuard<'_, Self::Value>>, Interrupted>;

    /// [`read_interruptible`](Self::read_interruptible) by a thread that may read already: it heeds no writer that waits.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in once more.
    ///
    /// # Blocks
    ///
    /// The thread, while a writer is in.
    fn read_recursive_interruptible(&self) -> Result<RwLockReadGuard<'_, Self::Value>, Interrupted>;

    /// [`read_recursive_interruptible`](Self::read_recursive_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in once more.
    ///
    /// # Blocks
    ///
    /// The thread, while a writer is in.
    fn read_recursive_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<RwLockReadGuard<'_, Self::Value>>, Interrupted>;

    /// [`read_recursive_interruptible`](Self::read_recursive_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in once more.
    ///
    /// # Blocks
    ///
    /// The thread, while a writer is in.
    fn read_recursive_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockReadGuard<'_, Self::Value>>, Interrupted>;

    /// Comes in to write, unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn write_interruptible(&self) -> Result<RwLockWriteGuard<'_, Self::Value>, Interrupted>;

    /// [`write_interruptible`](Self::write_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn write_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<RwLockWriteGuard<'_, Self::Value>>, Interrupted>;

    /// [`write_interruptible`](Self::write_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn write_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockWriteGuard<'_, Self::Value>>, Interrupted>;

    /// Comes in to read, and perhaps to write later, unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Panics
    ///
    /// If there are too many readers; see [`RwLock`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgradable_read_interruptible(
        &self,
    ) -> Result<RwLockUpgradableReadGuard<'_, Self::Value>, Interrupted>;

    /// [`upgradable_read_interruptible`](Self::upgradable_read_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgradable_read_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<RwLockUpgradableReadGuard<'_, Self::Value>>, Interrupted>;

    /// [`upgradable_read_interruptible`](Self::upgradable_read_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgradable_read_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockUpgradableReadGuard<'_, Self::Value>>, Interrupted>;
}

/// Makes the three forms of one wait: who waits how is the wish, and what it gets is the guard that `make` makes.
macro_rules! forms {
    ($wish:ident, $guard:ident, $make:ident: $plain:ident, $for:ident, $until:ident) => {
        fn $plain(&self) -> Result<$guard<'_, T>, Interrupted> {
            // SAFETY: only `acquire_interruptible` is called.
            let entered = unsafe { self.raw() }.acquire_interruptible(Wish::$wish, None)?;
            assert!(entered, "a wait without a deadline ends with the lock");
            // SAFETY: this thread has just come in with this wish, and no guard has been made for it.
            Ok(unsafe { self.$make() })
        }

        fn $for(&self, timeout: Duration) -> Result<Option<$guard<'_, T>>, Interrupted> {
            // SAFETY: only `acquire_interruptible` is called.
            let raw = unsafe { self.raw() };
            let entered = raw.acquire_interruptible(Wish::$wish, time::after(timeout))?;
            // SAFETY: as above, if it has.
            Ok(entered.then(|| unsafe { self.$make() }))
        }

        fn $until(&self, deadline: Instant) -> Result<Option<$guard<'_, T>>, Interrupted> {
            // SAFETY: only `acquire_interruptible` is called.
            let entered = unsafe { self.raw() }.acquire_interruptible(Wish::$wish, Some(deadline))?;
            // SAFETY: as above, if it has.
            Ok(entered.then(|| unsafe { self.$make() }))
        }
    };
}

impl<T: ?Sized> RwLockInterruptible for RwLock<T> {
    type Value = T;

    forms! {
        Read, RwLockReadGuard, make_read_guard_unchecked:
        read_interruptible, read_interruptible_for, read_interruptible_until
    }
    forms! {
        ReadAgain, RwLockReadGuard, make_read_guard_unchecked:
        read_recursive_interruptible, read_recursive_interruptible_for, read_recursive_interruptible_until
    }
    forms! {
        Write, RwLockWriteGuard, make_write_guard_unchecked:
        write_interruptible, write_interruptible_for, write_interruptible_until
    }
    forms! {
        Upgradable, RwLockUpgradableReadGuard, make_upgradable_guard_unchecked:
        upgradable_read_interruptible, upgradable_read_interruptible_for, upgradable_read_interruptible_until
    }
}

/// Guards that can be upgraded in a way that an interrupt can end.
///
/// As with the guard's own functions, these are called by the name of the trait, since a guard has the methods of its value.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{RwLock, UpgradeInterruptible};
/// use selvedge::thread;
/// use std::time::Duration;
///
/// let lock = RwLock::new(1);
/// let (reader, other) = (lock.upgradable_read(), lock.read());
/// let timeout = Duration::from_millis(1);
/// let reader = UpgradeInterruptible::upgrade_interruptible_for(reader, timeout).unwrap().unwrap_err();
/// thread::current().interrupt();
/// let (reader, interrupted) = UpgradeInterruptible::upgrade_interruptible(reader).unwrap_err();
/// assert_eq!((*reader, interrupted.to_string()), (1, "the wait was interrupted".to_string()));
/// drop(other);
/// *UpgradeInterruptible::upgrade_interruptible(reader).unwrap() = 2;
/// ```
pub trait UpgradeInterruptible: Sized + sealed::Sealed {
    /// What it becomes.
    type Upgraded;

    /// Waits until nobody else reads, and becomes the writer, unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// The guard as it was, and [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread. No new reader comes in meanwhile, but for those that read already.
    fn upgrade_interruptible(this: Self) -> Result<Self::Upgraded, (Self, Interrupted)>;

    /// [`upgrade_interruptible`](Self::upgrade_interruptible) that gives up after `timeout`, and gives the guard back as it was.
    ///
    /// # Errors
    ///
    /// The guard as it was, and [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgrade_interruptible_for(
        this: Self,
        timeout: Duration,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)>;

    /// [`upgrade_interruptible`](Self::upgrade_interruptible) that gives up at `deadline`, and gives the guard back as it was.
    ///
    /// # Errors
    ///
    /// The guard as it was, and [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    fn upgrade_interruptible_until(
        this: Self,
        deadline: Instant,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)>;
}

impl<'a, T: ?Sized> UpgradeInterruptible for RwLockUpgradableReadGuard<'a, T> {
    type Upgraded = RwLockWriteGuard<'a, T>;

    fn upgrade_interruptible(this: Self) -> Result<Self::Upgraded, (Self, Interrupted)> {
        let upgraded = upgrade_until(this, None)?;
        Ok(upgraded.unwrap_or_else(|_| unreachable!("a wait without a deadline ends with the lock")))
    }

    fn upgrade_interruptible_for(
        this: Self,
        timeout: Duration,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)> {
        upgrade_until(this, time::after(timeout))
    }

    fn upgrade_interruptible_until(
        this: Self,
        deadline: Instant,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)> {
        upgrade_until(this, Some(deadline))
    }
}

type Upgrade<'a, T> = Result<
    Result<RwLockWriteGuard<'a, T>, RwLockUpgradableReadGuard<'a, T>>,
    (RwLockUpgradableReadGuard<'a, T>, Interrupted),
>;

fn upgrade_until<T: ?Sized>(
    reader: RwLockUpgradableReadGuard<'_, T>,
    deadline: Option<Instant>,
) -> Upgrade<'_, T> {
    let lock = RwLockUpgradableReadGuard::rwlock(&reader);
    // SAFETY: only `upgrade_interruptible` is called, by who has the upgradable share.
    match unsafe { lock.raw() }.upgrade_interruptible(deadline) {
        Ok(true) => {
            std::mem::forget(reader);
            // SAFETY: the share has become the writer's, and the guard of the upgradable one is no more.
            Ok(Ok(unsafe { lock.make_write_guard_unchecked() }))
        }
        Ok(false) => Ok(Err(reader)),
        Err(interrupted) => Err((reader, interrupted)),
    }
}
