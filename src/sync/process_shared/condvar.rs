//! A condition variable in two words that several processes map.
//!
//! **Protocol.** A waiter counts itself in, reads the count of notifications, unlocks the mutex, and
//! sleeps while that count is the same. If any waiter is counted in, a notifier counts a notification
//! and wakes. If it finds a green thread of its own process in the queue, it need not count.
//!
//! **Proof.** Let a notifier change the condition with the mutex held, after the waiter unlocked it. It
//! sees the waiter counted in, and its notification comes after the count that the waiter has read; the
//! futex compares again. A waiter could sleep through exactly 2^20 notifications of all, or 2^32 of one,
//! between the two. A waiter that dies stays counted in; this costs a system call for each notification, and
//! nothing else.
//!
//! *Green threads.* The count has changed for all that wait when one is notified. So the thread in the seat
//! (`park/shared_futex.rs`) wakes as many others as notifications came since it has looked. Its heir begins
//! with the count that it has found. Some of these may have been for other processes. Then more threads wake
//! than were meant, which a condition variable may do.
//!
//! **Rejected.** Moving waiters to the mutex at a broadcast. The kernel can do it, but each of them then
//! takes the mutex as contended forever after.

use super::{Acquired, MutexGuard};
use crate::park::process;
use crate::park::shared_futex::{self, Awaited, How, Waited};
use crate::park::wait::{Wait, WaitError, timed};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::RobustError;
use crate::sync::condvar::WaitTimeoutResult;

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
    /// The process that has notified last.
    notifier: AtomicU32,
}

/// What a notification of all adds to the count, where one of one thread adds 1.
const BROADCAST: u32 = 1 << 12;

/// A wait for a notification after those in `seen`.
struct Notification<'a> {
    notified: &'a AtomicU32,
    seen: u32,
    found: u32,
}

impl Awaited for Notification<'_> {
    fn word(&self) -> &AtomicU32 {
        self.notified
    }

    fn look(&mut self) -> Option<u32> {
        self.found = self.notified.load(Ordering::Relaxed);
        (self.found == self.seen).then_some(self.seen)
    }

    fn due(&self) -> usize {
        let new = self.found.wrapping_sub(self.seen);
        if new < BROADCAST { new as usize } else { usize::MAX }
    }

    fn found(&self) -> u32 {
        self.found
    }

    fn inherit(&mut self, found: u32) {
        self.seen = found;
    }
}

impl Condvar {
    /// Creates a condition variable without waiters; a zeroed one is the same.
    #[must_use]
    pub const fn new() -> Self {
        Self { notified: AtomicU32::new(0), waiting: AtomicU32::new(0), notifier: AtomicU32::new(0) }
    }

    /// Wakes one waiter, if there is one.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn notify_one(&self) {
        if self.has_waiters() {
            // Relaxed: as in `has_waiters`.
            let count = || _ = self.notified.fetch_add(1, Ordering::Relaxed);
            shared_futex::wake_one_after(&self.notified, count);
        }
    }

    /// Wakes all waiters.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn notify_all(&self) {
        if self.has_waiters() {
            // Relaxed: as in `has_waiters`.
            self.notified.fetch_add(BROADCAST, Ordering::Relaxed);
            shared_futex::wake(&self.notified, u32::MAX);
        }
    }

    /// Returns `true` if a thread may wait. A notifier then says of which process it is.
    #[inline]
    fn has_waiters(&self) -> bool {
        // Relaxed, here and below: if a notification matters to a waiter, the mutex orders the waiter's
        // part before it.
        let waits = self.waiting.load(Ordering::Relaxed) != 0;
        if waits {
            let id = process::this().id;
            // The look comes first so that the cache line stays where it is.
            if self.notifier.load(Ordering::Relaxed) != id {
                self.notifier.store(id, Ordering::Relaxed);
            }
        }
        waits
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
    /// The thread; for one green thread of each process, its LWP too.
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
    /// The thread; for one green thread of each process, its LWP too.
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
                return Ok(timed_out((guard.into_acquired(), waited)));
            }
            match self.wait_with(guard, wait)? {
                (Acquired::Consistent(again), now) => (guard, waited) = (again, now),
                news => return Ok(timed_out(news)),
            }
        }
        Ok(timed_out((guard.into_acquired(), Ok(()))))
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
    /// The thread; for one green thread of each process, its LWP too.
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
        if shared_futex::wait_awake(|| self.notified.load(Ordering::Relaxed) != seen) {
            return Ok(());
        }
        let mut notification = Notification { notified: &self.notified, seen, found: seen };
        loop {
            let near = self.notifier.load(Ordering::Relaxed) == process::this().id;
            if shared_futex::wait(&mut notification, How { wait, nap: None, near }) == Waited::Woken {
                return Ok(());
            }
            wait.go_on()?;
        }
    }
}

/// Converts the outcome of a wait that no interrupt ends.
fn timed_out<A>((acquired, waited): (A, Result<(), WaitError>)) -> (A, WaitTimeoutResult) {
    (acquired, WaitTimeoutResult::new(waited.is_err()))
}

crate::shown::debug! { [] Condvar: "Condvar" }

#[cfg(all(test, loom))]
mod loom_shared_condvar;
