//! A condition variable in two words that several processes map.
//!
//! **Protocol.** A waiter counts itself in, reads the number of notifications, unlocks the mutex, and
//! sleeps while that number is the same. If any waiter is counted in, a notifier counts a notification
//! and wakes.
//!
//! **Proof.** Let a notifier change the condition with the mutex held, after the waiter unlocked it. It
//! sees the waiter counted in, and its notification comes after the number that the waiter has read; the
//! futex compares again. A waiter could sleep through exactly 2^32 notifications between the two. A
//! waiter that dies stays counted in; this costs a system call for each notification, and nothing else.
//!
//! **Rejected.** Moving waiters to the mutex at a broadcast. The kernel can do it, but each of them then
//! takes the mutex as contended forever after.

use super::mutex::{LONGEST_NAP, soonest};
use super::{Acquired, MutexGuard};
use crate::park::shared_futex::{self, ACROSS_PROCESSES};
use crate::park::wait::{Wait, WaitError, timed};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::RobustError;
use crate::sync::condvar::WaitTimeoutResult;
use crate::time;

/// A condition variable that several processes may share, for a [`process_shared::Mutex`](super::Mutex).
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock().unwrap().unwrap() = true;
///         changed.notify_one();
///     });
///     let ready = ready.lock().unwrap().unwrap();
///     assert!(*changed.wait_while(ready, |ready| !*ready).unwrap().unwrap());
/// });
/// ```
#[derive(Default)]
#[repr(C)]
pub struct Condvar {
    /// The number of notifications so far.
    notified: AtomicU32,
    /// The number of threads between the begin and the end of their wait.
    waiting: AtomicU32,
}

impl Condvar {
    /// Creates a condition variable without waiters; a zeroed one is the same.
    #[must_use]
    pub const fn new() -> Self {
        Self { notified: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Wakes one waiter, if there is one.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all waiters.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    #[inline]
    fn notify(&self, n: u32) {
        // Relaxed, here and below: if a notification matters to a waiter, the mutex orders the waiter's
        // part before it.
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.notified.fetch_add(1, Ordering::Relaxed);
            shared_futex::wake(&self.notified, n);
        }
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    ///
    /// It may also return without a notification, so callers check their condition again.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: meanwhile an owner of the mutex died, and its heir has not mended
    /// the value. Or the caller had the value to mend, and has not.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> Result<Acquired<'a, T>, RobustError> {
        Ok(self.wait_with(guard, Wait::forever())?.0)
    }

    timed! {
        wait
        /// # Errors
        ///
        /// As [`wait`](Self::wait).
        pub fn wait_for, wait_until ['a, T: ?Sized] (&self, guard: MutexGuard<'a, T>)
            -> Result<(Acquired<'a, T>, WaitTimeoutResult), RobustError>
        {
            |limit| self.wait_with(guard, limit()).map(timed_out)
        }
    }

    /// Waits while `condition` returns `true` for the value. If an owner of the mutex dies meanwhile, it
    /// returns at once with that news.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_while<'a, T: ?Sized, F>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: F,
    ) -> Result<Acquired<'a, T>, RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        Ok(self.wait_while_by(guard, condition, Wait::forever())?.0)
    }

    timed! {
        wait_while: ". It timed out if `condition` still returns `true` then"
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::process_shared::{Condvar, Mutex};
        /// use std::time::Duration;
        ///
        /// let (ready, changed) = (Mutex::new(false), Condvar::new());
        /// let guard = ready.lock().unwrap().unwrap();
        /// let limit = Duration::from_millis(1);
        /// let (_guard, result) = changed.wait_while_for(guard, |ready| !*ready, limit).unwrap();
        /// assert!(result.timed_out());
        /// ```
        ///
        /// # Errors
        ///
        /// As [`wait`](Self::wait).
        pub fn wait_while_for, wait_while_until ['a, T: ?Sized, F]
            (&self, guard: MutexGuard<'a, T>, condition: F)
            -> Result<(Acquired<'a, T>, WaitTimeoutResult), RobustError>
        where [F: FnMut(&mut T) -> bool]
        {
            |limit| self.wait_while_by(guard, condition, limit())
        }
    }

    fn wait_while_by<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
        wait: Wait,
    ) -> Result<(Acquired<'a, T>, WaitTimeoutResult), RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut waited = Ok(());
        while condition(&mut guard) {
            if waited.is_err() {
                return Ok(timed_out((Acquired::Consistent(guard), waited)));
            }
            match self.wait_with(guard, wait)? {
                (Acquired::Consistent(again), now) => (guard, waited) = (again, now),
                news => return Ok(timed_out(news)),
            }
        }
        Ok(timed_out((Acquired::Consistent(guard), Ok(()))))
    }

    /// [`wait`](Self::wait) that ends as `wait` says. In any case the mutex is locked again afterwards. An
    /// interrupt is noticed within a tenth of a second.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::process_shared::{Condvar, Mutex};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let guard = ready.lock()?.unwrap();
    /// thread::current().interrupt();
    /// let (_guard, waited) = changed.wait_with(guard, Wait::forever().interruptible())?;
    /// assert_eq!(waited, Err(WaitError::Interrupted));
    /// # Ok::<(), selvedge::sync::RobustError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait). The value beside the guard tells how the wait ended.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_with<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        wait: Wait,
    ) -> Result<(Acquired<'a, T>, Result<(), WaitError>), RobustError> {
        if let Err(why) = wait.begin() {
            return Ok((guard.into_acquired(), Err(why)));
        }
        let mutex = MutexGuard::mutex(&guard);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let seen = self.notified.load(Ordering::Relaxed);
        drop(guard);
        let waited = self.sleep(seen, wait);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok((mutex.lock()?, waited))
    }

    /// Waits for a notification after the first `seen`.
    fn sleep(&self, seen: u32, wait: Wait) -> Result<(), WaitError> {
        let woken = || self.notified.load(Ordering::Relaxed) != seen;
        if shared_futex::wait_awake(woken) {
            return Ok(());
        }
        while !woken() && !time::has_passed(wait.deadline) {
            // An interrupt cannot wake the thread, nor can another process without a futex. So it looks from
            // time to time.
            let looks = wait.interruptible || !ACROSS_PROCESSES;
            let nap = if looks { time::after(LONGEST_NAP) } else { None };
            let _ = shared_futex::wait(&self.notified, seen, soonest(nap, wait.deadline));
            if !woken() {
                wait.begin()?;
            }
        }
        if woken() { Ok(()) } else { Err(WaitError::TimedOut) }
    }
}

/// Converts the outcome of a wait that no interrupt ends.
fn timed_out<A>((acquired, waited): (A, Result<(), WaitError>)) -> (A, WaitTimeoutResult) {
    (acquired, WaitTimeoutResult::new(waited.is_err()))
}

crate::sync::impls::debug! { [] Condvar: "Condvar" }

#[cfg(all(test, loom))]
mod loom_shared_condvar;
