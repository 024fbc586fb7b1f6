//! Guards of a part of the value that a lock protects.

use std::marker::PhantomData;
use std::mem;
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

crate::sync::impls::guard! {
    [R: RawLock,] MappedGuard<'_, R, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.part.as_ref() },
    // SAFETY: as above, and the guard is borrowed exclusively.
    mut |guard| unsafe { guard.part.as_mut() }
}

impl<R: RawLock, T: ?Sized> Drop for MappedGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard ends.
        unsafe { self.raw.leave(self.state, self.entry) };
    }
}
