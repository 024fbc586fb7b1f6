//! The mutex with std's signatures: a raw mutex, a flag, and the value.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use lock_api::{RawMutex as _, RawMutexTimed as _};

use super::flag::{Entered, Flag};
use crate::park::interrupt::Interrupted;
use crate::sync::mutex::RawMutex;
use crate::time;

/// A lock that protects a value, and is poisoned when its owner panics.
///
/// As [`std::sync::Mutex`], and between threads of all kinds. See the [module](super).
///
/// Locked again by its owner, it waits for ever, as [`sync::Mutex`](crate::sync::Mutex) does. A guard that is leaked keeps it
/// taken, and does not poison it.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: Flag,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, which may be another each time; so it must be `Send`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// What a panic left half done is poisoned.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawMutex::new(), poison: Flag::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// With the value, if it is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.value.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Returns the flag that says whether the mutex is poisoned.
    pub(super) fn flag(&self) -> &Flag {
        &self.poison
    }

    /// Where the waiters are.
    pub(in crate::sync) fn key(&self) -> usize {
        self.raw.key()
    }

    /// # Safety
    /// The running thread has just locked it.
    #[inline]
    unsafe fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = MutexGuard { mutex: self, entered: Entered::now(), not_send: PhantomData };
        self.poison.judge(guard)
    }

    #[inline]
    fn guard_if(&self, locked: bool) -> TryLockResult<MutexGuard<'_, T>> {
        if locked {
            // SAFETY: called with what a lock has just said.
            Ok(unsafe { self.guard() }?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Locks.
    ///
    /// # Errors
    ///
    /// With the guard, if it is poisoned.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock();
        // SAFETY: locked just now.
        unsafe { self.guard() }
    }

    /// Locks if it is free.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it is not; [`TryLockError::Poisoned`], with the guard, if it is poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.guard_if(self.raw.try_lock())
    }

    /// [`lock`](Self::lock), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_for(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.guard_if(self.raw.try_lock_for(timeout))
    }

    /// [`lock`](Self::lock), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_until(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        self.guard_if(self.raw.try_lock_until(deadline))
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken. (Whether it is poisoned is said by what is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible(&self) -> Result<LockResult<MutexGuard<'_, T>>, Interrupted> {
        let locked = self.raw.acquire_interruptible(None)?;
        debug_assert!(locked, "a wait without a deadline ends with the lock");
        // SAFETY: locked just now.
        Ok(unsafe { self.guard() })
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken. (What `try_lock` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<TryLockResult<MutexGuard<'_, T>>, Interrupted> {
        Ok(self.guard_if(self.raw.acquire_interruptible(time::after(timeout))?))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken. (What `try_lock` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<TryLockResult<MutexGuard<'_, T>>, Interrupted> {
        Ok(self.guard_if(self.raw.acquire_interruptible(Some(deadline))?))
    }

    /// Whether it is poisoned, at this moment.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Says that the value is fine.
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, without locking: nobody else has access to it.
    ///
    /// # Errors
    ///
    /// With the value, if it is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.value.get_mut())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(poisoned)) => debug.field("data", &&**poisoned.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// Access to the value of a locked [`Mutex`]; unlocks it when dropped.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) mutex: &'a Mutex<T>,
    pub(super) entered: Entered,
    /// As in std.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For a condition variable: the mutex that the guard has locked.
    pub(super) fn raw(&self) -> &'a RawMutex {
        &self.mutex.raw
    }

    /// For a condition variable, which has unlocked the mutex and locked it again.
    pub(super) fn judge_again(self) -> LockResult<Self> {
        let mutex = self.mutex;
        mutex.poison.judge(self)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and what this borrows is the guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and there is one guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.leave(self.entered);
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
