//! A mutual exclusion lock that reports a mistake to a thread that would otherwise wait forever.

mod raw;

use std::fmt;

use super::lock::{Guard, Lock, MappedGuard, RawLock};
use crate::park::wait::{Wait, timed};

pub use raw::{LockError, RawCheckedMutex, UnlockError};

/// A lock that protects a value, and refuses to be locked again by its owner.
///
/// It is for programs that cannot be sure, for instance because they call back into themselves with locks
/// held. [`Mutex`](super::Mutex) would wait forever; this one returns [`LockError::Deadlock`].
/// [`ReentrantMutex`](super::ReentrantMutex) would let the owner in once more, with shared access only;
/// this one keeps it out. It knows threads of every kind, and costs no more than a store or two. There is
/// no poisoning.
///
/// Its guards unlock it, so it cannot be unlocked twice, or by another thread. [`RawCheckedMutex`] is for
/// locking without guards, and checks that. A guard that is leaked keeps the lock taken: the owner gets
/// the error, others wait.
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
pub type CheckedMutex<T> = Lock<RawCheckedMutex, T>;

/// Access to the value of a locked [`CheckedMutex`]. Dropping it unlocks the mutex.
pub type CheckedMutexGuard<'a, T> = Guard<'a, RawCheckedMutex, T>;

/// Access to a part of the value of a locked [`CheckedMutex`], made by [`CheckedMutexGuard::map`]. Dropping
/// it unlocks the mutex.
pub type MappedCheckedMutexGuard<'a, T> = MappedGuard<'a, RawCheckedMutex, T>;

impl RawLock for RawCheckedMutex {
    type State = ();
    type Entry = ();

    #[inline]
    fn enter() {}

    #[inline]
    unsafe fn leave(&self, (): &(), (): ()) {
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.release() };
    }
}

impl<T> CheckedMutex<T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_raw(RawCheckedMutex::new(), value)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.into_parts().1
    }
}

impl<T: ?Sized> CheckedMutex<T> {
    #[inline]
    fn guard_if(&self, locked: bool) -> Option<CheckedMutexGuard<'_, T>> {
        // SAFETY: called with the result of a lock attempt of the running thread.
        locked.then(|| unsafe { self.guard() })
    }

    /// Acquires the lock.
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
        self.raw().lock()?;
        // SAFETY: this thread has just locked it.
        Ok(unsafe { self.guard() })
    }

    /// Acquires the lock if it is free; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    #[inline]
    pub fn try_lock(&self) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
        self.raw().try_lock().map(|locked| self.guard_if(locked))
    }

    timed! {
        lock: "; `None`: another thread has owned it all the time"
        /// # Errors
        ///
        /// [`LockError::Deadlock`]: the running thread owns it already.
        pub fn try_lock_for, try_lock_until(&self) -> Result<Option<CheckedMutexGuard<'_, T>>, LockError> {
            |limit| self.raw().try_lock_by(limit).map(|locked| self.guard_if(locked))
        }
    }

    /// [`lock`](Self::lock) that ends as `wait` says.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already. [`LockError::TimedOut`] or
    /// [`LockError::Interrupted`]: the wait has ended, and the lock was not taken.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{CheckedMutex, LockError};
    /// use selvedge::{Wait, thread};
    ///
    /// let mutex = CheckedMutex::new(1);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(mutex.lock_with(wait).unwrap_err(), LockError::Interrupted);
    /// assert_eq!(*mutex.lock_with(wait)?, 1);
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_with(&self, wait: Wait) -> Result<CheckedMutexGuard<'_, T>, LockError> {
        self.raw().lock_with(wait)?;
        // SAFETY: this thread has just locked it.
        Ok(unsafe { self.guard() })
    }

    /// Returns the value without locking: no other thread has access to it.
    pub fn get_mut(&mut self) -> &mut T {
        self.parts_mut().1
    }

    crate::shown::getters! {
        /// Returns `true` if a thread owns it at this moment.
        fn is_locked(&self) -> bool = self.raw().is_locked();
        /// Returns `true` if the running thread owns it.
        fn is_owned_by_current_thread(&self) -> bool = self.raw().is_owned_by_current_thread();
    }

    /// Releases the lock for a guard that was leaked.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then unchanged.
    ///
    /// # Safety
    ///
    /// No guard of it is used again, nor anything that was borrowed from one.
    pub unsafe fn force_unlock(&self) -> Result<(), UnlockError> {
        self.raw().unlock()
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

impl<T: ?Sized> CheckedMutexGuard<'_, T> {
    /// Releases the lock, and hands it to the next waiter, if there is one.
    pub fn unlock_fair(this: Self) {
        let mutex = Self::mutex(&this);
        std::mem::forget(this);
        // SAFETY: the guard was the proof that it is locked, and is used up.
        unsafe { mutex.raw().release_fair() };
    }
}
