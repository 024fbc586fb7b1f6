//! The condition variable with std's signatures.

use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::mutex::MutexGuard;
use crate::park::wait::{Wait, WaitError, timed};
use crate::sync::condvar::WaitTimeoutResult;
use crate::time;

/// A condition variable for a poisoning [`Mutex`](super::Mutex).
///
/// Like [`std::sync::Condvar`], but for threads of all kinds.
///
/// # Examples
///
/// ```
/// use selvedge::sync::poison::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock().unwrap() = true;
///         changed.notify_one();
///     });
///     let ready = changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*ready);
/// });
/// ```
///
/// # Panics
///
/// A wait panics if others wait on the same condition variable with another mutex.
#[derive(Default)]
pub struct Condvar(crate::sync::condvar::Condvar);

/// The result of a wait: the guard, and something more.
type Waited<'a, T, R> = LockResult<(MutexGuard<'a, T>, R)>;

impl Condvar {
    /// Creates a condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self(crate::sync::condvar::Condvar::new())
    }

    /// Wakes one waiter, if there is one.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    ///
    /// It may also return without a notification, so callers check their condition again.
    ///
    /// # Errors
    ///
    /// The guard within an error, if the mutex is poisoned when it is locked again.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let endless = self.0.wait_raw(guard.raw(), Wait::forever());
        debug_assert!(endless.is_ok());
        guard.judge_again()
    }

    /// Waits while `condition` returns `true` for the value.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    timed! {
        wait
        /// # Errors
        ///
        /// As [`wait`](Self::wait).
        pub fn wait_timeout, wait_until ['a, T] (&self, guard: MutexGuard<'a, T>)
            -> Waited<'a, T, WaitTimeoutResult>
        {
            |limit| self.wait_timed(guard, limit())
        }
    }

    /// [`wait`](Self::wait), at most for `ms` milliseconds. Returns `true` if there was a notification.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[deprecated = "as in std: replaced by `wait_timeout`"]
    pub fn wait_timeout_ms<'a, T>(&self, guard: MutexGuard<'a, T>, ms: u32) -> Waited<'a, T, bool> {
        let waited = self.wait_timeout(guard, Duration::from_millis(ms.into()));
        map(waited, |(guard, result)| (guard, !result.timed_out()))
    }

    /// [`wait_while`](Self::wait_while), at most for `timeout`. It timed out if `condition` still returns
    /// `true` then.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> Waited<'a, T, WaitTimeoutResult>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = time::after(timeout);
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult::new(false)));
            }
            if time::has_passed(deadline) {
                return Ok((guard, WaitTimeoutResult::new(true)));
            }
            guard = self.wait_timed(guard, Wait::by(deadline))?.0;
        }
    }

    /// [`wait`](Self::wait) that ends as `wait` says. In any case the mutex is locked again afterwards.
    ///
    /// # Errors
    ///
    /// The guard within an error, if the mutex is poisoned. The value beside the guard tells how the wait
    /// ended.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_with<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        wait: Wait,
    ) -> Waited<'a, T, Result<(), WaitError>> {
        let waited = self.0.wait_raw(guard.raw(), wait);
        map(guard.judge_again(), |guard| (guard, waited))
    }

    fn wait_timed<'a, T>(&self, guard: MutexGuard<'a, T>, wait: Wait) -> Waited<'a, T, WaitTimeoutResult> {
        map(self.wait_with(guard, wait), |(guard, waited)| (guard, WaitTimeoutResult::new(waited.is_err())))
    }
}

/// Changes what is there, whether it is poisoned or not.
fn map<A, B>(judged: LockResult<A>, change: impl FnOnce(A) -> B) -> LockResult<B> {
    match judged {
        Ok(guard) => Ok(change(guard)),
        Err(poisoned) => Err(PoisonError::new(change(poisoned.into_inner()))),
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
