//! What robust locks without data can do.

use std::time::{Duration, Instant};

use super::{Condition, ConditionWord, RobustError};
use crate::sync::UnlockError;
use crate::time;

/// The few steps that each lock has of its own.
pub trait Steps {
    /// `None`: another thread has owned it until the deadline.
    fn acquire(
        &self,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<Option<Condition>, RobustError>;

    fn try_acquire(&self) -> Result<Option<Condition>, RobustError>;

    /// In what condition its owners left what it protects.
    fn condition(&self) -> &ConditionWord;

    /// By an owner that `unwinds`, or does not.
    fn release(&self, unwinds: bool) -> Result<(), UnlockError>;

    /// By the owner, which has not touched what the lock protects: leaves the news to the next one.
    fn pass_on(&self);
}

/// Robust locks that protect nothing by themselves: [`RawRobustMutex`](super::RawRobustMutex) and
/// [`shared::RawMutex`](crate::sync::shared::RawMutex).
///
/// Whoever locks one is told in what condition what it protects was left. If that is not [`Condition::Sound`], the owner should
/// mend it and say so, by [`mark_sound`](Self::mark_sound): else nobody can lock it after it is unlocked.
pub trait RawRobust: Steps {
    /// Locks.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: an owner has not mended it. [`RobustError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread; the LWP, in a shared lock.
    fn lock(&self) -> Result<Condition, RobustError> {
        self.acquire(None, false).map(|found| found.expect("a wait without a deadline ends with the lock"))
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    fn try_lock(&self) -> Result<Option<Condition>, RobustError> {
        self.try_acquire()
    }

    /// [`lock`](Self::lock), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn try_lock_for(&self, timeout: Duration) -> Result<Option<Condition>, RobustError> {
        self.acquire(time::after(timeout), false)
    }

    /// [`lock`](Self::lock), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn try_lock_until(&self, deadline: Instant) -> Result<Option<Condition>, RobustError> {
        self.acquire(Some(deadline), false)
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and [`RobustError::Interrupted`]: the lock was not taken.
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn lock_interruptible(&self) -> Result<Condition, RobustError> {
        self.acquire(None, true).map(|found| found.expect("a wait without a deadline ends with the lock"))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<Condition>, RobustError> {
        self.acquire(time::after(timeout), true)
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// As [`lock`](Self::lock).
    fn lock_interruptible_until(&self, deadline: Instant) -> Result<Option<Condition>, RobustError> {
        self.acquire(Some(deadline), true)
    }

    /// Unlocks. What an owner before has left, and this one has not [marked as mended](Self::mark_sound), is then lost: nobody can lock
    /// it again.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then left as it is.
    fn unlock(&self) -> Result<(), UnlockError> {
        self.release(false)
    }

    /// By the owner: what it protects is as it should be. `false`: it was already, or the running thread does not own it.
    fn mark_sound(&self) -> bool {
        self.is_owned_by_current_thread() && self.condition().mend()
    }

    /// Whether somebody owns it, at this moment; an owner that has ended counts.
    #[must_use]
    fn is_locked(&self) -> bool;

    /// Whether the running thread owns it.
    #[must_use]
    fn is_owned_by_current_thread(&self) -> bool;

    /// Whether nobody can lock it any more.
    #[must_use]
    fn is_lost(&self) -> bool {
        self.condition().look().is_none()
    }
}
