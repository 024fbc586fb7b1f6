//! Guards of a part of the value that a lock protects.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{Guard, RawLock};

/// Access to a part of the value of a locked [`Lock`](super::Lock). [`Guard::map`] makes it; dropping it
/// unlocks the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedGuard<'a, R: RawLock, T: ?Sized> {
    raw: &'a R,
    state: &'a R::State,
    part: NonNull<T>,
    entry: R::Entry,
    /// The guard can change the value, and only its thread owns the lock.
    not_send: PhantomData<(&'a mut T, *const ())>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<R: RawLock + Sync, T: ?Sized + Sync> Sync for MappedGuard<'_, R, T> {}

impl<'a, R: RawLock, T: ?Sized> MappedGuard<'a, R, T> {
    /// Makes a guard of a part, in place of the guard of the value.
    ///
    /// # Safety
    /// The part lies in the value, and nothing else refers to it.
    pub(super) unsafe fn new<V: ?Sized>(guard: Guard<'a, R, V>, part: NonNull<T>) -> Self {
        let (raw, state, entry) = (guard.mutex.raw(), guard.mutex.state(), guard.entry);
        // The new guard unlocks it.
        mem::forget(guard);
        Self { raw, state, part, entry, not_send: PhantomData }
    }
}

impl<R: RawLock, T: ?Sized> Deref for MappedGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part lies in the value of a lock that is held.
        unsafe { self.part.as_ref() }
    }
}

impl<R: RawLock, T: ?Sized> DerefMut for MappedGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the part lies in the value of a lock that is held; the guard is borrowed exclusively.
        unsafe { self.part.as_mut() }
    }
}

impl<R: RawLock, T: ?Sized> Drop for MappedGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard ends.
        unsafe { self.raw.leave(self.state, self.entry) };
    }
}

impl<R: RawLock, T: ?Sized + fmt::Debug> fmt::Debug for MappedGuard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: RawLock, T: ?Sized + fmt::Display> fmt::Display for MappedGuard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
