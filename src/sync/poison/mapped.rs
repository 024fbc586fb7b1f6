//! Guards of a part of the value that a lock protects, as in nightly std.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use lock_api::{RawMutex as _, RawRwLock as _};

use super::flag::{Entered, Flag};
use super::mutex::MutexGuard;
use super::rwlock::{Leave, RwLockReadGuard, RwLockWriteGuard};
use crate::sync::mutex::RawMutex;
use crate::sync::rwlock::RawRwLock;

/// Access to a part of the value of a locked [`Mutex`](super::Mutex). [`MutexGuard::map`] makes it; dropping
/// it unlocks the mutex.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    poison: &'a Flag,
    entered: Entered,
    raw: &'a RawMutex,
    /// The guard can change the value. As in std, it is not `Send`.
    not_send: PhantomData<(&'a mut T, *const ())>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else; here and below.
unsafe impl<T: ?Sized + Sync> Sync for MappedMutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Makes a guard of a part of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::poison::{Mutex, MutexGuard};
    ///
    /// let pair = Mutex::new((1, 2));
    /// let mut second = MutexGuard::map(pair.lock().unwrap(), |pair| &mut pair.1);
    /// *second += 1;
    /// drop(second);
    /// assert_eq!(pair.into_inner().unwrap(), (1, 3));
    /// ```
    pub fn map<U: ?Sized, F>(mut orig: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value = NonNull::from(f(&mut orig));
        orig.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(mut orig: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut orig).map(NonNull::from) {
            Some(value) => Ok(orig.of_part(value)),
            None => Err(orig),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedMutexGuard<'a, U> {
        let (mutex, raw, entered) = (self.mutex, self.raw(), self.entered);
        // The new guard unlocks it.
        mem::forget(self);
        MappedMutexGuard { value, poison: mutex.flag(), entered, raw, not_send: PhantomData }
    }
}

impl<T: ?Sized> Drop for MappedMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.poison.leave(self.entered);
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.raw.unlock() };
    }
}

impl<T: ?Sized> Deref for MappedMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for MappedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Shared access to a part of the value of a locked [`RwLock`](super::RwLock). [`RwLockReadGuard::map`] makes
/// it; dropping it leaves the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedRwLockReadGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    lock: &'a RawRwLock,
}

// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for MappedRwLockReadGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized, F>(orig: Self, f: F) -> MappedRwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let value = NonNull::from(f(&orig));
        orig.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(orig: Self, f: F) -> Result<MappedRwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match f(&orig).map(NonNull::from) {
            Some(value) => Ok(orig.of_part(value)),
            None => Err(orig),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedRwLockReadGuard<'a, U> {
        let lock = self.lock;
        // The new guard leaves it.
        mem::forget(self);
        MappedRwLockReadGuard { value, lock }
    }
}

impl<T: ?Sized> Drop for MappedRwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has a share of the lock, which ends here.
        unsafe { self.lock.unlock_shared() };
    }
}

impl<T: ?Sized> Deref for MappedRwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedRwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedRwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Exclusive access to a part of the value of a locked [`RwLock`](super::RwLock). [`RwLockWriteGuard::map`]
/// makes it; dropping it leaves the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedRwLockWriteGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    /// Stands before `_write`, because fields are dropped in their order.
    _leave: Leave<'a>,
    _write: Write<'a>,
    /// The guard can change the value.
    part: PhantomData<&'a mut T>,
}

/// The writer's share of a lock.
struct Write<'a>(&'a RawRwLock);

impl Drop for Write<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made from a guard, which proves that the lock is held and does not leave it itself.
        unsafe { self.0.unlock_exclusive() };
    }
}

// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for MappedRwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized, F>(mut orig: Self, f: F) -> MappedRwLockWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value = NonNull::from(f(&mut orig));
        orig.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(mut orig: Self, f: F) -> Result<MappedRwLockWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut orig).map(NonNull::from) {
            Some(value) => Ok(orig.of_part(value)),
            None => Err(orig),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedRwLockWriteGuard<'a, U> {
        let Self { leave, inner } = self;
        // SAFETY: the new guard leaves the lock once, instead of `inner`.
        let raw = unsafe { lock_api::RwLockWriteGuard::rwlock(&inner).raw() };
        mem::forget(inner);
        MappedRwLockWriteGuard { value, _leave: leave, _write: Write(raw), part: PhantomData }
    }
}

impl<T: ?Sized> Deref for MappedRwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for MappedRwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedRwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedRwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
