//! The condition variable with std's signatures.

use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use crate::park::interrupt::{self, Interrupted};
use crate::park::reason::WaitReason;
use crate::park::wait_queue::Options;
use crate::sync::condvar::{Ended, WaitTimeoutResult};
use crate::time;

/// A condition variable for a poisoning [`Mutex`](super::Mutex).
///
/// As [`std::sync::Condvar`], and between threads of all kinds.
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

/// What a wait gives: the guard, and something more.
type Waited<'a, T, R> = LockResult<(MutexGuard<'a, T>, R)>;

impl Condvar {
    /// A condition variable that nobody waits on.
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
    /// May also return without a notification; callers look at their condition again.
    ///
    /// # Errors
    ///
    /// With the guard, if the mutex is poisoned when it is locked again.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait_raw(guard.raw(), &Options::new(WaitReason::Condvar, None));
        guard.judge_again()
    }

    /// Waits for as long as `condition` says `true` of the value.
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

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> Waited<'a, T, WaitTimeoutResult> {
        self.wait_to(guard, time::after(timeout))
    }

    /// [`wait`](Self::wait), at most for `ms` milliseconds; whether there was a notification.
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
        match self.wait_timeout(guard, Duration::from_millis(ms.into())) {
            Ok((guard, result)) => Ok((guard, !result.timed_out())),
            Err(poisoned) => {
                let (guard, result) = poisoned.into_inner();
                Err(PoisonError::new((guard, !result.timed_out())))
            }
        }
    }

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Waited<'a, T, WaitTimeoutResult> {
        self.wait_to(guard, Some(deadline))
    }

    /// [`wait_while`](Self::wait_while), at most for `timeout`: timed out if the condition still says `true`.
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
            guard = self.wait_to(guard, deadline)?.0;
        }
    }

    /// [`wait`](Self::wait), unless the running thread is interrupted. Either way the mutex is locked again afterwards.
    ///
    /// # Errors
    ///
    /// With the guard, if the mutex is poisoned. Whether the thread was interrupted is said beside the guard.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> Waited<'a, T, Result<(), Interrupted>> {
        let waited = self.wait_interruptible_to(&guard, None).map(|_| ());
        with(guard, waited)
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`wait_interruptible`](Self::wait_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> Waited<'a, T, Result<WaitTimeoutResult, Interrupted>> {
        let waited = self.wait_interruptible_to(&guard, time::after(timeout));
        with(guard, waited)
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`wait_interruptible`](Self::wait_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Waited<'a, T, Result<WaitTimeoutResult, Interrupted>> {
        let waited = self.wait_interruptible_to(&guard, Some(deadline));
        with(guard, waited)
    }

    fn wait_to<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> Waited<'a, T, WaitTimeoutResult> {
        let ended = self.0.wait_raw(guard.raw(), &Options::new(WaitReason::Condvar, deadline));
        with(guard, WaitTimeoutResult::new(ended == Ended::Expired))
    }

    fn wait_interruptible_to<T>(
        &self,
        guard: &MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        interrupt::check()?;
        match self.0.wait_raw(guard.raw(), &Options::interruptible(WaitReason::Condvar, deadline)) {
            Ended::Interrupted => Err(interrupt::reported()),
            ended => Ok(WaitTimeoutResult::new(ended == Ended::Expired)),
        }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The guard of a mutex that is locked again, with `result`.
fn with<'a, T, R>(guard: MutexGuard<'a, T>, result: R) -> Waited<'a, T, R> {
    match guard.judge_again() {
        Ok(guard) => Ok((guard, result)),
        Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
    }
}
