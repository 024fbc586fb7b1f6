//! A condition variable: what programs see of it. `condvar/protocol.rs` says how it works.

pub(crate) mod gate;
mod protocol;

use super::mutex::{MutexGuard, RawMutex};
use crate::park::wait::{Wait, WaitError, timed};

crate::shim::swap! { use protocol::Protocol; use crate::shim::model::condvar::Protocol; }

/// A condition variable: a place to wait for a notification, with a [`Mutex`](super::Mutex) unlocked.
///
/// Green threads, bound threads, 1:1 threads and threads that Selvedge did not start may share it. At any
/// time all its waiters must use the same mutex.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Condvar, Mutex};
///
/// let ready = Mutex::new(false);
/// let changed = Condvar::new();
///
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let mut ready = ready.lock();
///     while !*ready {
///         changed.wait(&mut ready);
///     }
/// });
/// ```
pub struct Condvar {
    protocol: Protocol,
}

/// Tells if a timed wait ended because of its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(super) fn new(timed_out: bool) -> Self {
        Self(timed_out)
    }

    /// Returns `true` if the wait ended without a notification.
    #[inline]
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable without waiters.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { protocol: Protocol::new() }
    }

    /// Wakes one waiter, if there is one. Returns `true` if there was.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.protocol.notify_one()
    }

    /// Wakes all waiters. Returns how many there were.
    ///
    /// If kernel threads are among them, they move to the mutex's queue. There each unlock wakes a few.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.protocol.notify_all()
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    ///
    /// It may also return without a notification, so callers check their condition again.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let endless = self.wait_with(guard, Wait::forever());
        debug_assert!(endless.is_ok());
    }

    timed! {
        wait
        /// # Panics
        ///
        /// If other waiters wait with another mutex.
        #[inline]
        pub fn wait_for, wait_until [T: ?Sized] (&self, guard: &mut MutexGuard<'_, T>) -> WaitTimeoutResult {
            |limit| WaitTimeoutResult(self.wait_with(guard, limit()).is_err())
        }
    }

    /// Waits while `condition` returns `true` for the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{Condvar, Mutex};
    ///
    /// let (queue, arrived) = (Mutex::new(vec![]), Condvar::new());
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         queue.lock().push(7);
    ///         arrived.notify_one();
    ///     });
    ///     let mut queue = queue.lock();
    ///     arrived.wait_while(&mut queue, |queue| queue.is_empty());
    ///     assert_eq!(queue.pop(), Some(7));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex, or if `condition` panics.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait_while<T: ?Sized, F>(&self, guard: &mut MutexGuard<'_, T>, condition: F)
    where
        F: FnMut(&mut T) -> bool,
    {
        let endless = self.wait_while_with(guard, condition, Wait::forever());
        debug_assert!(endless.is_ok());
    }

    timed! {
        wait_while: ". As in std but not in parking_lot, a last call of `condition` after that time decides: \
            if it returns `true`, the wait has timed out"
        /// # Panics
        ///
        /// If other waiters wait with another mutex, or if `condition` panics.
        #[inline]
        pub fn wait_while_for, wait_while_until [T: ?Sized, F]
            (&self, guard: &mut MutexGuard<'_, T>, condition: F) -> WaitTimeoutResult
        where [F: FnMut(&mut T) -> bool]
        {
            |limit| WaitTimeoutResult(self.wait_while_with(guard, condition, limit()).is_err())
        }
    }

    /// [`wait_while`](Self::wait_while) that ends as `wait` says. If it has timed out, a last call of
    /// `condition` decides: if that returns `false`, the wait has succeeded.
    ///
    /// # Errors
    ///
    /// [`WaitError`]. If it is [`TimedOut`](WaitError::TimedOut), `condition` has just returned `true`.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex, or if `condition` panics.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_while_with<T: ?Sized, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        wait: Wait,
    ) -> Result<(), WaitError>
    where
        F: FnMut(&mut T) -> bool,
    {
        wait.begin()?;
        while condition(guard) {
            match self.wait_with(guard, wait) {
                // The condition counts, not the clock.
                Err(WaitError::TimedOut) if !condition(guard) => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// [`wait`](Self::wait) that ends as `wait` says. In any case the mutex is locked again afterwards,
    /// however long that takes.
    ///
    /// If a thread is notified at the moment of an interrupt, it returns `Ok`, or the notification would be
    /// lost. Its next wait gets the interrupt.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{Condvar, Mutex};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// thread::current().interrupt();
    /// let outcome = changed.wait_with(&mut ready.lock(), Wait::forever().interruptible());
    /// assert_eq!(outcome, Err(WaitError::Interrupted));
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`], and there was no notification.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait_with<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, wait: Wait) -> Result<(), WaitError> {
        // SAFETY: what follows leaves the mutex locked by this guard.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        self.wait_raw(mutex, wait)
    }

    /// Waits with `mutex`, which the caller has locked. Returns `true`, too, if the caller has it again. If
    /// not, it is to lock it, and may do something else before.
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    pub(crate) fn wait_apart(&self, mutex: &super::Mutex<()>, wait: Wait) -> (Result<(), WaitError>, bool) {
        if let Err(why) = wait.begin() {
            return (Err(why), true);
        }
        // SAFETY: the caller's, which has locked it.
        let (waited, has_mutex) = self.protocol.wait_apart(unsafe { mutex.raw() }, wait);
        (waited.map_err(WaitError::reported), has_mutex)
    }

    /// Waits with `mutex`. The caller has locked it, and has it again when this returns (or panics).
    #[inline]
    pub(super) fn wait_raw(&self, mutex: &RawMutex, wait: Wait) -> Result<(), WaitError> {
        if wait.is_endless() {
            self.protocol.wait_endlessly(mutex);
            Ok(())
        } else {
            wait.run(|wait| self.protocol.wait(mutex, wait))
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

crate::shown::debug! { [] Condvar: "Condvar" }
