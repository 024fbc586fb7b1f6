//! A condition variable in two words that several processes map.
//!
//! **Protocol.** A waiter counts itself in, reads the number of notifications, unlocks the mutex, and sleeps while
//! that number is the same. A notifier counts a notification and wakes, if anybody is counted in.
//!
//! **Proof.** A notifier that changed the condition with the mutex held, after the waiter unlocked it, sees the waiter
//! counted in, and its notification comes after the number that the waiter has read; the futex compares again. A
//! waiter could sleep through exactly 2^32 notifications between the two; and one that dies stays counted in, which costs
//! a system call for each notification and nothing else.
//!
//! **Rejected.** Moving waiters to the mutex at a broadcast: the kernel can, but each of them then takes the mutex as
//! contended for ever after.

use std::fmt;
use std::time::{Duration, Instant};

use super::mutex::{LONGEST_NAP, soonest};
use super::{Legacy, MutexGuard};
use crate::park::interrupt::{self, Interrupted};
use crate::park::shared_futex;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::const_new;
use crate::sync::RobustError;
use crate::sync::condvar::WaitTimeoutResult;
use crate::time;

/// A condition variable that several processes may share, for a [`shared::Mutex`](super::Mutex).
///
/// # Examples
///
/// ```
/// use selvedge::sync::shared::{Condvar, Mutex};
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
#[repr(C)]
pub struct Condvar {
    /// Notifications so far.
    notified: AtomicU32,
    /// Threads between their wait's begin and end.
    waiting: AtomicU32,
}

impl Condvar {
    const_new! {
        /// A condition variable that nobody waits on; a zeroed one is the same.
        #[must_use]
        pub const fn new() -> Self {
            Self { notified: AtomicU32::new(0), waiting: AtomicU32::new(0) }
        }
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
        // Relaxed, here and below: the mutex orders a waiter's part before that of a notifier who matters to it.
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.notified.fetch_add(1, Ordering::Relaxed);
            shared_futex::wake(&self.notified, n);
        }
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    ///
    /// May also return without a notification; callers look at their condition again.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: meanwhile an owner of the mutex died, and its heir has not mended the value; or the guard's
    /// owner had it to mend, and has not.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> Result<Legacy<'a, T>, RobustError> {
        Ok(self.wait_with(guard, None, false)?.0)
    }

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Result<(Legacy<'a, T>, WaitTimeoutResult), RobustError> {
        let (legacy, ended) = self.wait_with(guard, Some(deadline), false)?;
        Ok((legacy, ended.timed_out()))
    }

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_for<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> Result<(Legacy<'a, T>, WaitTimeoutResult), RobustError> {
        let (legacy, ended) = self.wait_with(guard, time::after(timeout), false)?;
        Ok((legacy, ended.timed_out()))
    }

    /// Waits for as long as `condition` says `true` of the value. If an owner of the mutex dies meanwhile, the news comes at once.
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
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> Result<Legacy<'a, T>, RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut guard) {
            match self.wait(guard)? {
                Legacy::Sound(again) => guard = again,
                news => return Ok(news),
            }
        }
        Ok(Legacy::Sound(guard))
    }

    /// [`wait_while`](Self::wait_while), at most until `deadline`. It timed out if `condition` still says `true` then.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_while_until<'a, T: ?Sized, F>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: F,
        deadline: Instant,
    ) -> Result<(Legacy<'a, T>, WaitTimeoutResult), RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_by(guard, condition, Some(deadline))
    }

    /// [`wait_while`](Self::wait_while), at most for `timeout`. It timed out if `condition` still says `true` then.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::shared::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let guard = ready.lock().unwrap().unwrap();
    /// let (_guard, result) = changed.wait_while_for(guard, |ready| !*ready, Duration::from_millis(1)).unwrap();
    /// assert!(result.timed_out());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_while_for<'a, T: ?Sized, F>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: F,
        timeout: Duration,
    ) -> Result<(Legacy<'a, T>, WaitTimeoutResult), RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_by(guard, condition, time::after(timeout))
    }

    fn wait_while_by<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
        deadline: Option<Instant>,
    ) -> Result<(Legacy<'a, T>, WaitTimeoutResult), RobustError>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut ended = Ended::Notified;
        while condition(&mut guard) {
            if ended == Ended::Expired {
                return Ok((Legacy::Sound(guard), ended.timed_out()));
            }
            match self.wait_with(guard, deadline, false)? {
                (Legacy::Sound(again), now) => (guard, ended) = (again, now),
                (news, now) => return Ok((news, now.timed_out())),
            }
        }
        Ok((Legacy::Sound(guard), Ended::Notified.timed_out()))
    }

    /// [`wait`](Self::wait), unless the running thread is interrupted, which is noticed within a tenth of a second. Either way the mutex
    /// is locked again afterwards.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait). Whether the thread was interrupted is said beside the guard.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_interruptible<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> Result<(Legacy<'a, T>, Result<(), Interrupted>), RobustError> {
        let (legacy, ended) = self.wait_with(guard, None, true)?;
        Ok((legacy, ended.or_interrupted().map(|_| ())))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`wait_interruptible`](Self::wait_interruptible).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_interruptible_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Result<(Legacy<'a, T>, Result<WaitTimeoutResult, Interrupted>), RobustError> {
        let (legacy, ended) = self.wait_with(guard, Some(deadline), true)?;
        Ok((legacy, ended.or_interrupted()))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`wait_interruptible`](Self::wait_interruptible).
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_interruptible_for<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> Result<(Legacy<'a, T>, Result<WaitTimeoutResult, Interrupted>), RobustError> {
        let (legacy, ended) = self.wait_with(guard, time::after(timeout), true)?;
        Ok((legacy, ended.or_interrupted()))
    }

    fn wait_with<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<(Legacy<'a, T>, Ended), RobustError> {
        if interruptible && interrupt::take() {
            return Ok((guard.into_legacy(), Ended::Interrupted));
        }
        let mutex = MutexGuard::mutex(&guard);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let seen = self.notified.load(Ordering::Relaxed);
        drop(guard);
        let woken = || self.notified.load(Ordering::Relaxed) != seen;
        let mut interrupted = false;
        if !shared_futex::wait_awake(woken) {
            while !woken() && !interrupted && !time::has_passed(deadline) {
                // Nobody can wake it for an interrupt.
                let until =
                    if interruptible { soonest(time::after(LONGEST_NAP), deadline) } else { deadline };
                let _ = shared_futex::wait(&self.notified, seen, until);
                interrupted = interruptible && !woken() && interrupt::take();
            }
        }
        let ended = match (woken(), interrupted) {
            (_, true) => Ended::Interrupted,
            (true, _) => Ended::Notified,
            (false, _) => Ended::Expired,
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok((mutex.lock()?, ended))
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Notified,
    Expired,
    Interrupted,
}

impl Ended {
    fn timed_out(self) -> WaitTimeoutResult {
        WaitTimeoutResult::new(self == Self::Expired)
    }

    fn or_interrupted(self) -> Result<WaitTimeoutResult, Interrupted> {
        if self == Self::Interrupted { Err(Interrupted) } else { Ok(self.timed_out()) }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_shared_condvar.rs"]
mod loom_shared_condvar;
