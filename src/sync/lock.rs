//! The mutexes with a `lock` that tells more than that the lock is held.
//!
//! A [checked](super::CheckedMutex), a [robust](super::RobustMutex), a [poisoning](super::poison::Mutex) and
//! a [process-shared](super::process_shared::Mutex) mutex differ in their raw lock, and in what a thread that
//! locks is told. The rest is the same, and is here: the value, the guards that give access to it, the
//! unlock.
//!
//! [`Mutex`](super::Mutex) is `lock_api`'s type instead. Its `lock` returns a guard and nothing else, and its
//! guards do not know if a panic has begun while they lived.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;

pub(super) use raw::{Entered, RawLock};

mod raw {
    /// What a guard remembers in order to know later if a panic has begun: `true` if its thread was unwinding
    /// when it locked.
    ///
    /// A thread may also lock while it unwinds, in a destructor. Such a lock is as good as any.
    #[derive(Clone, Copy, Debug)]
    pub struct Entered(bool);

    impl Entered {
        /// Called right after the lock.
        #[inline]
        pub(in crate::sync) fn now() -> Self {
            Self(std::thread::panicking())
        }

        /// Returns `true` if a panic has begun since the lock. Called before the unlock.
        #[inline]
        pub(in crate::sync) fn has_panicked_since(self) -> bool {
            std::thread::panicking() && !self.0
        }
    }

    /// What the guards of a lock need of it.
    pub trait RawLock {
        /// What a lock of this kind knows beside its raw lock. It lies between the raw lock and the value, so
        /// that it takes no padding of its own.
        type State: Default + Send + Sync;

        /// What a guard remembers of the moment of the lock.
        type Entry: Copy;

        /// Returns what is to be remembered. Called right after the lock.
        fn enter() -> Self::Entry;

        /// Releases the lock, when a guard is dropped.
        ///
        /// # Safety
        /// A guard of the running thread ends here.
        unsafe fn leave(&self, state: &Self::State, entry: Self::Entry);
    }
}

/// A raw lock, and a value that it protects.
///
/// [`CheckedMutex`](super::CheckedMutex), [`RobustMutex`](super::RobustMutex),
/// [`poison::Mutex`](super::poison::Mutex) and [`process_shared::Mutex`](super::process_shared::Mutex) are
/// locks of this type. The methods that acquire it depend on the raw lock.
#[repr(C)]
pub struct Lock<R: RawLock, T: ?Sized> {
    raw: R,
    state: R::State,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value, each time perhaps another; so the value must be `Send`.
unsafe impl<R: RawLock + Sync, T: ?Sized + Send> Sync for Lock<R, T> {}

impl<R: RawLock<State = ()>, T> Lock<R, T> {
    /// Creates a lock around `value`. `raw` must be free.
    #[must_use]
    pub const fn from_raw(raw: R, value: T) -> Self {
        Self::from_parts(raw, (), value)
    }
}

impl<R: RawLock, T> Lock<R, T> {
    pub(super) const fn from_parts(raw: R, state: R::State, value: T) -> Self {
        Self { raw, state, value: UnsafeCell::new(value) }
    }

    pub(super) fn into_parts(self) -> (R::State, T) {
        (self.state, self.value.into_inner())
    }
}

impl<R: RawLock, T: ?Sized> Lock<R, T> {
    #[inline]
    pub(super) fn raw(&self) -> &R {
        &self.raw
    }

    #[inline]
    pub(super) fn state(&self) -> &R::State {
        &self.state
    }

    /// Returns the parts without locking: no other thread has access to them.
    pub(super) fn parts_mut(&mut self) -> (&R::State, &mut T) {
        (&self.state, self.value.get_mut())
    }

    /// Makes a guard.
    ///
    /// # Safety
    /// The running thread has just locked the raw lock.
    #[inline]
    pub(super) unsafe fn guard(&self) -> Guard<'_, R, T> {
        Guard { mutex: self, entry: R::enter(), not_send: PhantomData }
    }
}

impl<R: RawLock + Default, T> From<T> for Lock<R, T> {
    fn from(value: T) -> Self {
        Self::from_parts(R::default(), R::State::default(), value)
    }
}

impl<R: RawLock + Default, T: Default> Default for Lock<R, T> {
    fn default() -> Self {
        Self::from(T::default())
    }
}

/// Access to the value of a locked [`Lock`]. Dropping it unlocks the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct Guard<'a, R: RawLock, T: ?Sized> {
    mutex: &'a Lock<R, T>,
    entry: R::Entry,
    /// Only its thread owns the lock.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<R: RawLock + Sync, T: ?Sized + Sync> Sync for Guard<'_, R, T> {}

impl<'a, R: RawLock, T: ?Sized> Guard<'a, R, T> {
    /// Returns the lock that it unlocks.
    #[must_use]
    pub fn mutex(this: &Self) -> &'a Lock<R, T> {
        this.mutex
    }

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
    pub fn map<U: ?Sized, F>(mut this: Self, f: F) -> MappedGuard<'a, R, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let part = f(&mut this).into();
        // SAFETY: the part lies in the value.
        unsafe { MappedGuard::new(this, part) }
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
        match f(&mut this).map(Into::into) {
            // SAFETY: the part lies in the value.
            Some(part) => Ok(unsafe { MappedGuard::new(this, part) }),
            None => Err(this),
        }
    }
}

super::impls::guard! {
    [R: RawLock,] Guard<'_, R, T>:
    // SAFETY: the lock is held, and the result borrows the guard.
    |guard| unsafe { &*guard.mutex.value.get() },
    // SAFETY: the lock is held, there is one guard, and it is borrowed exclusively.
    mut |guard| unsafe { &mut *guard.mutex.value.get() }
}

impl<R: RawLock, T: ?Sized> Drop for Guard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard ends.
        unsafe { self.mutex.raw.leave(&self.mutex.state, self.entry) };
    }
}

/// Access to a part of the value of a locked [`Lock`]. [`Guard::map`] makes it; dropping it
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

super::impls::guard! {
    [R: RawLock,] MappedGuard<'_, R, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.part.as_ref() },
    // SAFETY: the part lies in the value of a lock that is held, and the guard is borrowed exclusively.
    mut |guard| unsafe { guard.part.as_mut() }
}

impl<R: RawLock, T: ?Sized> Drop for MappedGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard ends.
        unsafe { self.raw.leave(self.state, self.entry) };
    }
}
