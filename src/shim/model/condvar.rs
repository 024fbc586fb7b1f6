//! The condition variable: a queue of waiters, each with a condition variable of loom's to sleep on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mutex::{MutexGuard, RawMutex};
use super::{Expiries, Lazy};
use crate::park::wait::{Wait, WaitError};

/// A condition variable. (In a model: the first to wait is the first to be notified, and no wake-up is
/// spurious.)
pub struct Condvar {
    queue: Lazy<loom::sync::Mutex<Queue>>,
    expiries: Expiries,
}

#[derive(Default)]
struct Queue {
    waiters: VecDeque<Arc<loom::sync::Condvar>>,
    /// The mutex of the waiters.
    mutex: usize,
}

impl Queue {
    fn has(&self, waiter: &Arc<loom::sync::Condvar>) -> bool {
        self.waiters.iter().any(|other| Arc::ptr_eq(other, waiter))
    }

    /// Takes the waiters that have waited longest, up to `count`.
    fn take(&mut self, count: usize) -> Vec<Arc<loom::sync::Condvar>> {
        let count = count.min(self.waiters.len());
        self.waiters.drain(..count).collect()
    }
}

/// Says if a timed wait ended because of its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn new(timed_out: bool) -> Self {
        Self(timed_out)
    }

    /// Returns `true` if the wait ended without a notification.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: Lazy::new(), expiries: Expiries::new() }
    }

    fn queue(&self) -> loom::sync::MutexGuard<'_, Queue> {
        self.queue.get(Default::default).lock().expect("no poison")
    }

    fn notify(&self, count: usize) -> usize {
        let woken = self.queue().take(count);
        woken.iter().for_each(|waiter| waiter.notify_one());
        woken.len()
    }

    /// Wakes one waiter, if there is one. Returns `true` if there was.
    pub fn notify_one(&self) -> bool {
        self.notify(1) == 1
    }

    /// Wakes all waiters. Returns how many there were.
    pub fn notify_all(&self) -> usize {
        self.notify(usize::MAX)
    }

    fn wait_raw(&self, mutex: &RawMutex, wait: Wait) -> Result<(), WaitError> {
        let me = Arc::new(loom::sync::Condvar::new());
        let mut queue = self.queue();
        let is_other = !queue.waiters.is_empty() && queue.mutex != mutex.key();
        if !is_other {
            queue.mutex = mutex.key();
            queue.waiters.push_back(Arc::clone(&me));
        }
        drop(queue);
        assert!(!is_other, "attempted to use a condition variable with more than one mutex");
        mutex.release();
        let mut queue = self.queue();
        let timed_out = wait.deadline.is_some() && queue.has(&me);
        while wait.deadline.is_none() && queue.has(&me) {
            queue = me.wait(queue).expect("no poison");
        }
        queue.waiters.retain(|waiter| !Arc::ptr_eq(waiter, &me));
        drop(queue);
        if timed_out {
            self.expiries.one_more();
        }
        mutex.acquire();
        if timed_out { Err(WaitError::TimedOut) } else { Ok(()) }
    }

    /// Does what [`wait`](Self::wait) does, but may time out. It is not interrupted.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`].
    pub fn wait_with<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, wait: Wait) -> Result<(), WaitError> {
        // SAFETY: `wait_raw` leaves the mutex locked by this guard.
        self.wait_raw(unsafe { MutexGuard::mutex(guard).raw() }, wait)
    }

    /// Does what [`wait_while`](Self::wait_while) does, but may time out. It is not interrupted.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`].
    pub fn wait_while_with<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        wait: Wait,
    ) -> Result<(), WaitError>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(guard) {
            match self.wait_with(guard, wait) {
                Err(WaitError::TimedOut) if !condition(guard) => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let _ = self.wait_with(guard, Wait::forever());
    }

    /// Does what [`wait`](Self::wait) does, but may time out.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::until(deadline)).is_err())
    }

    /// Does what [`wait`](Self::wait) does, but may time out.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::timeout(timeout)).is_err())
    }

    /// Waits while `condition` returns `true` for the value.
    pub fn wait_while<T: ?Sized, F>(&self, guard: &mut MutexGuard<'_, T>, condition: F)
    where
        F: FnMut(&mut T) -> bool,
    {
        let _ = self.wait_while_with(guard, condition, Wait::forever());
    }

    /// Does what [`wait_while`](Self::wait_while) does, but may time out.
    pub fn wait_while_until<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        deadline: Instant,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        WaitTimeoutResult(self.wait_while_with(guard, condition, Wait::until(deadline)).is_err())
    }

    /// Does what [`wait_while`](Self::wait_while) does, but may time out.
    pub fn wait_while_for<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        WaitTimeoutResult(self.wait_while_with(guard, condition, Wait::timeout(timeout)).is_err())
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar { .. }")
    }
}
