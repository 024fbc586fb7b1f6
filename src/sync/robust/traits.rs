//! The operations of robust locks without data.

use super::{Condition, ConditionWord, RobustError};
use crate::park::wait::{Wait, timed};
use crate::sync::UnlockError;

/// The few steps that differ between the locks.
pub trait Steps {
    /// Acquires the lock, and ends as `wait` says.
    fn acquire(&self, wait: Wait) -> Result<Condition, RobustError>;

    fn try_acquire(&self) -> Result<Option<Condition>, RobustError>;

    /// [`acquire`](Self::acquire); `None`: the wait has expired.
    fn acquire_by(&self, wait: Wait) -> Result<Option<Condition>, RobustError> {
        match self.acquire(wait) {
            Err(RobustError::TimedOut) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns the condition in which the owners left what it protects.
    fn condition(&self) -> &ConditionWord;

    /// Releases the lock. `unwinds` tells if its owner unwinds.
    fn release(&self, unwinds: bool) -> Result<(), UnlockError>;

    /// Releases the lock for an owner that has not touched what it protects: the next owner gets the
    /// news.
    fn pass_on(&self);
}

/// Robust locks that protect nothing by themselves: [`RawRobustMutex`](super::RawRobustMutex) and
/// [`process_shared::RawMutex`](crate::sync::process_shared::RawMutex).
///
/// An owner is told the condition in which the protected state was left. If that is not
/// [`Condition::Consistent`], the owner should mend it and say so, by
/// [`mark_consistent`](Self::mark_consistent). If it does not, the lock cannot be locked again after it is
/// unlocked.
pub trait RawRobust: Steps {
    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: an owner has not mended what it protects.
    /// [`RobustError::Deadlock`]: the running thread owns the lock already.
    ///
    /// # Blocks
    ///
    /// The thread; in a process-shared lock, the LWP of one green thread of each process.
    fn lock(&self) -> Result<Condition, RobustError> {
        self.acquire(Wait::forever())
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    fn try_lock(&self) -> Result<Option<Condition>, RobustError> {
        self.try_acquire()
    }

    timed! {
        lock: "; `None`: another thread has owned it all the time"
        /// # Errors
        ///
        /// As [`lock`](Self::lock).
        fn try_lock_for, try_lock_until(&self) -> Result<Option<Condition>, RobustError> {
            |limit| self.acquire_by(limit())
        }
    }

    /// [`lock`](Self::lock) that ends as `wait` says.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`RobustError::TimedOut`] or [`RobustError::Interrupted`]: the wait has
    /// ended, and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn lock_with(&self, wait: Wait) -> Result<Condition, RobustError> {
        self.acquire(wait)
    }

    /// Releases the lock. If an earlier owner did not leave it sound, and this one has not [marked it as
    /// mended](Self::mark_consistent), the lock is lost: it cannot be locked again.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then unchanged.
    fn unlock(&self) -> Result<(), UnlockError> {
        self.release(false)
    }

    /// Notes, for the owner, that what it protects is as it should be. Returns `false` if it was already,
    /// or if the running thread does not own the lock.
    fn mark_consistent(&self) -> bool {
        self.is_owned_by_current_thread() && self.condition().mend()
    }

    /// Returns `true` if a thread owns it at this moment; an owner that has ended counts.
    #[must_use]
    fn is_locked(&self) -> bool;

    /// Returns `true` if the running thread owns it.
    #[must_use]
    fn is_owned_by_current_thread(&self) -> bool;

    /// Returns `true` if the lock cannot be locked again.
    #[must_use]
    fn is_not_recoverable(&self) -> bool {
        self.condition().look().is_none()
    }
}
