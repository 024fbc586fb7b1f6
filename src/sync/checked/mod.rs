//! A mutual exclusion lock that tells a thread what would be a mistake, instead of waiting for ever.

mod mapped;
mod raw;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

pub use mapped::MappedCheckedMutexGuard;
pub use raw::{LockError, RawCheckedMutex, UnlockError};

/// A lock that protects a value, and refuses to be locked again by its owner.
///
/// It is for programs that cannot be sure: that call back into themselves with locks held, for instance. Where
/// [`Mutex`](super::Mutex) would wait for ever, this one gives [`LockError::Deadlock`]; where
/// [`ReentrantMutex`](super::ReentrantMutex) would let the owner in once more, with shared access only, this one keeps it out.
/// It knows of threads of every kind, and costs no more than a store or two. There is no poisoning.
///
/// Its guards unlock it, so that it cannot be unlocked twice, or by another thread; [`RawCheckedMutex`] is for locking without
/// guards, and checks that. A guard that is leaked keeps the lock taken: the owner gets the error, others wait.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{CheckedMutex, LockError};
///
/// let mutex = CheckedMutex::new(1);
/// let guard = mutex.lock()?;
/// assert_eq!(mutex.lock().unwrap_err(), LockError::Deadlock);
/// drop(guard);
/// *mutex.lock()? += 1;
/// assert_eq!(mutex.into_inner(), 2);
/// # Ok::<(), LockError>(())
/// ```
#[derive(Default)]
pub struct CheckedMutex<T: ?Sized> {
    raw: RawCheckedMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, which may be another each time; so it must be `Send`.
unsafe impl<T: ?Sized + Send> Sync for CheckedMutex<T> {}

impl<T> CheckedMutex<T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawCheckedMutex::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> CheckedMutex<T> {
    /// Where the waiters are.
    pub(super) fn key(&self) -> usize {
        self.raw.key()
    }

    /// # Safety
    /// The running thread has locked it, and has no other guard of it.
    #[inline]
    unsafe fn guard(&self) -> CheckedMutexGuard<'_, T> {
        CheckedMutexGuard { mutex: self, not_send: PhantomData }
    }

    #[inline]
    fn guard_if(&self, locked: bool) -> Option<CheckedMutexGuard<'_, T>> {
        // SAFETY: called with what a lock has just said.
        locked.then(|| unsafe { self.guard() })
    }

    /// Locks.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> Result<CheckedMutexGuard<'_, T>, LockError> {
        self.raw.lock()?;
        // SAFETY: it has just been locked, and not by one who owned it.
        Ok(unsafe { self.guard() })
    }

    /// Locks if it is free; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    #[inline]
    pub fn try_lock(&self) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw.try_lock().map(|locked| self.guard_if(locked))
    }

    /// [`lock`](Self::lock), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_for(&self, timeout: Duration) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw.try_lock_for(timeout).map(|locked| self.guard_if(locked))
    }

    /// [`lock`](Self::lock), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_until(&self, deadline: Instant) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw.try_lock_until(deadline).map(|locked| self.guard_if(locked))
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already. [`LockError::Interrupted`]: it was interrupted, and the lock
    /// was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible(&self) -> Result<CheckedMutexGuard<'_, T>, LockError> {
        self.raw.lock_interruptible()?;
        // SAFETY: as in `lock`.
        Ok(unsafe { self.guard() })
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw.lock_interruptible_for(timeout).map(|locked| self.guard_if(locked))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw.lock_interruptible_until(deadline).map(|locked| self.guard_if(locked))
    }

    /// The value, without locking: nobody else has access to it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Whether somebody owns it, at this moment.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// Whether the running thread owns it.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.raw.is_owned_by_current_thread()
    }

    /// Unlocks it for a guard that was leaked.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then left as it is.
    ///
    /// # Safety
    ///
    /// No guard of it is used again, nor anything that was borrowed from one.
    pub unsafe fn force_unlock(&self) -> Result<(), UnlockError> {
        self.raw.unlock()
    }
}

impl<T> From<T> for CheckedMutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for CheckedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("CheckedMutex");
        match self.try_lock() {
            Ok(Some(guard)) => f.field("data", &&*guard),
            Ok(None) | Err(_) => f.field("data", &format_args!("<locked>")),
        };
        f.finish()
    }
}

/// Access to the value of a locked [`CheckedMutex`]; unlocks it when dropped.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct CheckedMutexGuard<'a, T: ?Sized> {
    mutex: &'a CheckedMutex<T>,
    /// The owner is a thread.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for CheckedMutexGuard<'_, T> {}

impl<'a, T: ?Sized> CheckedMutexGuard<'a, T> {
    /// The lock that it unlocks.
    #[must_use]
    pub fn mutex(this: &Self) -> &'a CheckedMutex<T> {
        this.mutex
    }

    /// Unlocks, and hands the lock to the next waiter, if there is one.
    pub fn unlock_fair(this: Self) {
        let mutex = this.mutex;
        std::mem::forget(this);
        // SAFETY: the guard's, which is used up.
        unsafe { mutex.raw.release_fair() };
    }
}

impl<T: ?Sized> Deref for CheckedMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and what this borrows is the guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for CheckedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and there is one guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for CheckedMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.mutex.raw.release() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for CheckedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for CheckedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
