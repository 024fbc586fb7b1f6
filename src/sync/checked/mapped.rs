//! Guards of a part of the value that a checked mutex protects.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{CheckedMutexGuard, RawCheckedMutex};

/// Access to a part of the value of a locked [`CheckedMutex`](super::CheckedMutex).
/// [`CheckedMutexGuard::map`] makes it; dropping it unlocks the mutex.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedCheckedMutexGuard<'a, T: ?Sized> {
    raw: &'a RawCheckedMutex,
    value: NonNull<T>,
    /// The guard can change the value, and only its thread owns the lock.
    not_send: PhantomData<(&'a mut T, *const ())>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MappedCheckedMutexGuard<'_, T> {}

impl<'a, T: ?Sized> CheckedMutexGuard<'a, T> {
    /// Makes a guard of a part of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{CheckedMutex, CheckedMutexGuard};
    ///
    /// let pair = CheckedMutex::new((1, 2));
    /// let mut second = CheckedMutexGuard::map(pair.lock().unwrap(), |pair| &mut pair.1);
    /// *second += 1;
    /// drop(second);
    /// assert_eq!(pair.into_inner(), (1, 3));
    /// ```
    pub fn map<U: ?Sized, F>(mut this: Self, f: F) -> MappedCheckedMutexGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value = NonNull::from(f(&mut this));
        this.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn try_map<U: ?Sized, F>(mut this: Self, f: F) -> Result<MappedCheckedMutexGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut this).map(NonNull::from) {
            Some(value) => Ok(this.of_part(value)),
            None => Err(this),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedCheckedMutexGuard<'a, U> {
        let raw = &self.mutex.raw;
        // The new guard unlocks it.
        mem::forget(self);
        MappedCheckedMutexGuard { raw, value, not_send: PhantomData }
    }
}

impl<T: ?Sized> Deref for MappedCheckedMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for MappedCheckedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for MappedCheckedMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.raw.release() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedCheckedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedCheckedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
