//! The condition variable: a queue of waiters, each with a condition variable of loom's to sleep on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mutex::{Deadline, MutexGuard, RawMutex};
use super::{Expiries, Lazy};
use crate::park::interrupt::Interrupted;

/// A condition variable. (In a model: the first to wait is the first to be notified, and nobody wakes for nothing.)
pub struct Condvar {
    queue: Lazy<loom::sync::Mutex<Queue>>,
    expiries: Expiries,
}

#[derive(Default)]
struct Queue {
    waiters: VecDeque<Arc<loom::sync::Condvar>>,
    /// The mutex of those.
    mutex: usize,
}

impl Queue {
    fn has(&self, waiter: &Arc<loom::sync::Condvar>) -> bool {
        self.waiters.iter().any(|other| Arc::ptr_eq(other, waiter))
    }

    /// Those who have waited longest.
    fn take(&mut self, count: usize) -> Vec<Arc<loom::sync::Condvar>> {
        let count = count.min(self.waiters.len());
        self.waiters.drain(..count).collect()
    }
}

/// Whether a timed wait ended because of its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn new(timed_out: bool) -> Self {
        Self(timed_out)
    }

    /// Whether the wait ended without a notification.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable that nobody waits on.
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

    /// Wakes one waiter, if there is one, and says whether there was.
    pub fn notify_one(&self) -> bool {
        self.notify(1) == 1
    }

    /// Wakes all waiters, and says how many there were.
    pub fn notify_all(&self) -> usize {
        self.notify(usize::MAX)
    }

    fn wait_raw(&self, mutex: &RawMutex, deadline: Deadline) -> WaitTimeoutResult {
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
        let timed_out = match deadline {
            Deadline::Never => {
                while queue.has(&me) {
                    queue = me.wait(queue).expect("no poison");
                }
                drop(queue);
                false
            }
            Deadline::May => {
                let timed_out = queue.has(&me);
                queue.waiters.retain(|waiter| !Arc::ptr_eq(waiter, &me));
                drop(queue);
                timed_out
            }
        };
        if timed_out {
            self.expiries.one_more();
        }
        mutex.acquire();
        WaitTimeoutResult(timed_out)
    }

    fn wait_with<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Deadline) -> WaitTimeoutResult {
        // SAFETY: `wait_raw` leaves the mutex locked by this guard.
        self.wait_raw(unsafe { MutexGuard::mutex(guard).raw() }, deadline)
    }

    fn wait_while_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Deadline,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(guard) {
            result = self.wait_with(guard, deadline);
        }
        WaitTimeoutResult(result.timed_out() && condition(guard))
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, Deadline::Never);
    }

    /// [`wait`](Self::wait) that may time out.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait_with(guard, Deadline::May)
    }

    /// [`wait`](Self::wait) that may time out.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait_with(guard, Deadline::May)
    }

    /// Waits for as long as `condition` says `true` of the value.
    pub fn wait_while<T: ?Sized, F>(&self, guard: &mut MutexGuard<'_, T>, condition: F)
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_with(guard, condition, Deadline::Never);
    }

    /// [`wait_while`](Self::wait_while) that may time out.
    pub fn wait_while_until<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        _: Instant,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_with(guard, condition, Deadline::May)
    }

    /// [`wait_while`](Self::wait_while) that may time out.
    pub fn wait_while_for<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        _: Duration,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_with(guard, condition, Deadline::May)
    }

    /// [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Interrupted> {
        self.wait(guard);
        Ok(())
    }

    /// [`wait_until`](Self::wait_until).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        Ok(self.wait_until(guard, deadline))
    }

    /// [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        Ok(self.wait_for(guard, timeout))
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
