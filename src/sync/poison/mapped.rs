//! Guards of a part of the value that a read-write lock protects, as in nightly std.

use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;

use lock_api::RawRwLock as _;

use super::rwlock::{Leave, RwLockReadGuard, RwLockWriteGuard};
use crate::sync::rwlock::RawRwLock;

/// Shared access to a part of the value of a locked [`RwLock`](super::RwLock). [`RwLockReadGuard::map`] makes
/// it; dropping it leaves the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedRwLockReadGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    lock: &'a RawRwLock,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
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

crate::sync::impls::guard! {
    [] MappedRwLockReadGuard<'_, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.value.as_ref() }
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

// SAFETY: a shared guard gives shared access to the value, and nothing else.
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

crate::sync::impls::guard! {
    [] MappedRwLockWriteGuard<'_, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.value.as_ref() },
    // SAFETY: the part lies in the value of a lock that is held, and the guard is borrowed exclusively.
    mut |guard| unsafe { guard.value.as_mut() }
}
