//! The mutex with std's signatures: a raw mutex, a flag, and the value.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

use lock_api::RawMutex as _;

use super::flag::Flag;
use crate::park::wait::{Wait, WaitError, timed};
use crate::sync::lock::{Entered, Guard, Lock, MappedGuard, RawLock};
use crate::sync::mutex::RawMutex;

/// A lock that protects a value, and is poisoned when its owner panics.
///
/// Like [`std::sync::Mutex`], but for threads of all kinds. See the [module](super).
///
/// If its owner locks it again, the owner waits forever, as with [`sync::Mutex`](crate::sync::Mutex). A
/// guard that is leaked keeps it taken, and does not poison it.
pub type Mutex<T> = Lock<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]. Dropping it unlocks the mutex.
pub type MutexGuard<'a, T> = Guard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`], made by [`MutexGuard::map`]. Dropping it unlocks the
/// mutex.
pub type MappedMutexGuard<'a, T> = MappedGuard<'a, RawMutex, T>;

impl RawLock for RawMutex {
    type State = Flag;
    type Entry = Entered;

    #[inline]
    fn enter() -> Entered {
        Entered::now()
    }

    #[inline]
    unsafe fn leave(&self, poison: &Flag, entered: Entered) {
        poison.leave(entered);
        // SAFETY: the guard is the proof that it is locked.
        unsafe { self.unlock() };
    }
}

/// The lock is poisoned if a panic leaves the value half changed.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_parts(RawMutex::new(), Flag::new(), value)
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// The value within an error, if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        let (poison, value) = self.into_parts();
        poison.judge(value)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Makes a guard, within an error if the mutex is poisoned.
    ///
    /// # Safety
    /// The running thread has just locked it.
    #[inline]
    unsafe fn judged(&self) -> LockResult<MutexGuard<'_, T>> {
        // SAFETY: the caller's promise.
        self.state().judge(unsafe { self.guard() })
    }

    #[inline]
    fn guard_if(&self, locked: bool) -> TryLockResult<MutexGuard<'_, T>> {
        if locked {
            // SAFETY: called with the result of a lock attempt of the running thread.
            Ok(unsafe { self.judged() }?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// The guard within an error, if the lock is poisoned.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw().lock();
        // SAFETY: this thread has just locked it.
        unsafe { self.judged() }
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it is not; [`TryLockError::Poisoned`], with the guard, if it is
    /// poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.guard_if(self.raw().try_lock())
    }

    timed! {
        lock
        /// # Errors
        ///
        /// As [`try_lock`](Self::try_lock).
        pub fn try_lock_for, try_lock_until(&self) -> TryLockResult<MutexGuard<'_, T>> {
            |limit| self.guard_if(self.raw().try_lock() || self.raw().acquire_with(limit()).is_ok())
        }
    }

    /// [`lock`](Self::lock) that ends as `wait` says.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the lock was not taken. (An error within `Ok` tells that the lock is poisoned.)
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::poison::Mutex;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let mutex = Mutex::new(1);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(mutex.lock_with(wait).unwrap_err(), WaitError::Interrupted);
    /// assert_eq!(*mutex.lock_with(wait)?.unwrap(), 1);
    /// # Ok::<(), WaitError>(())
    /// ```
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_with(&self, wait: Wait) -> Result<LockResult<MutexGuard<'_, T>>, WaitError> {
        wait.run(|wait| self.raw().acquire_with(wait))?;
        // SAFETY: this thread has just locked it.
        Ok(unsafe { self.judged() })
    }

    /// Returns `true` if it is poisoned at this moment.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.state().is_set()
    }

    /// Clears the poison: the value is sound.
    #[inline]
    pub fn clear_poison(&self) {
        self.state().clear();
    }

    /// Returns the value without locking: no other thread has access to it.
    ///
    /// # Errors
    ///
    /// The value within an error, if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let (poison, value) = self.parts_mut();
        poison.judge(value)
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

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the mutex that the guard has locked. For a condition variable.
    pub(super) fn raw(&self) -> &'a RawMutex {
        Self::mutex(self).raw()
    }

    /// Checks the poison again. For a condition variable, which has unlocked the mutex and locked it
    /// again.
    pub(super) fn judge_again(self) -> LockResult<Self> {
        Self::mutex(&self).state().judge(self)
    }

    /// Makes a guard of a part of the value, if `f` returns one: std's name for [`try_map`](Guard::try_map).
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(orig: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        Self::try_map(orig, f)
    }
}
