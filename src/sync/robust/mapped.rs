//! Guards of a part of the value that a robust lock protects.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{Guard, RawRobust};

/// Access to a part of the value of a locked [`Lock`](super::Lock). [`Guard::map`] makes it; dropping it
/// unlocks the lock.
///
/// If a panic drops it, the next owner must mend the value.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedGuard<'a, R: RawRobust, T: ?Sized> {
    raw: &'a R,
    value: NonNull<T>,
    /// `true` if the thread was unwinding when it acquired the lock.
    panicking: bool,
    /// The guard can change the value, and only its thread owns the lock.
    not_send: PhantomData<(&'a mut T, *const ())>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<R: RawRobust + Sync, T: ?Sized + Sync> Sync for MappedGuard<'_, R, T> {}

impl<'a, R: RawRobust, T: ?Sized> Guard<'a, R, T> {
    /// Makes a guard of a part of the value. If the value had to be mended, call
    /// [`mark_sound`](Guard::mark_sound) first.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{RobustMutex, RobustMutexGuard};
    ///
    /// let pair = RobustMutex::new((1, 2));
    /// let guard = pair.lock().unwrap().unwrap();
    /// let mut second = RobustMutexGuard::map(guard, |pair| &mut pair.1);
    /// *second += 1;
    /// drop(second);
    /// assert_eq!(pair.lock().unwrap().unwrap().1, 3);
    /// ```
    pub fn map<U: ?Sized, F>(mut this: Self, f: F) -> MappedGuard<'a, R, U>
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
    pub fn try_map<U: ?Sized, F>(mut this: Self, f: F) -> Result<MappedGuard<'a, R, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut this).map(NonNull::from) {
            Some(value) => Ok(this.of_part(value)),
            None => Err(this),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedGuard<'a, R, U> {
        let (raw, panicking) = (&self.mutex.raw, self.panicking);
        // The new guard unlocks it.
        mem::forget(self);
        MappedGuard { raw, value, panicking, not_send: PhantomData }
    }
}

impl<R: RawRobust, T: ?Sized> Deref for MappedGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.value.as_ref() }
    }
}

impl<R: RawRobust, T: ?Sized> DerefMut for MappedGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<R: RawRobust, T: ?Sized> Drop for MappedGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // If the thread was considered ended before its last destructors ran, another thread owns the lock by
        // now, and the release is refused.
        let _ = self.raw.release(std::thread::panicking() && !self.panicking);
    }
}

impl<R: RawRobust, T: ?Sized + fmt::Debug> fmt::Debug for MappedGuard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: RawRobust, T: ?Sized + fmt::Display> fmt::Display for MappedGuard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
