//! A condition variable.
//!
//! **Problem.** No notification may be lost between the unlock of the mutex and the sleep. And a broadcast
//! must not wake a herd of kernel threads that then fight for one mutex.
//!
//! **Rejected.**
//! - Moving the waiter to the mutex at `notify_one` too. On two CPUs, the moved waiter then waits for the
//!   notifier's unlock (three times slower on 5,000 pairs of kernel threads).
//! - A sequence number and a futex (std): every broadcast is a herd.
//! - Granting all kernel threads if the mutex is free: that is a herd too, which finds it taken.
//!
//! **Protocol.**
//! - *Wait*: queue on the condition variable's address, unlock the mutex, sleep, lock the mutex. If a green
//!   thread is followed by one that it has notified, the mutex goes with the switch
//!   (`park/mutex_handoff.rs`).
//! - *Notify one*: grant the first waiter.
//! - *Notify all*: grant all. Green threads run a few at a time, so even a herd usually finds the mutex
//!   free. In a chain of grants, each waits for a turn of the thread before it. All LWPs but one are idle
//!   (10,000 waiters, two LWPs: 75 ms, not 53). Each costs a bucket lock (a barrier of 4: 234 ns, not 186).
//! - *Notify all with kernel threads*: move all to the mutex's queue, with both bucket locks held. There an
//!   unlock grants a few at a time (`WAKE_BATCH` in `mutex/raw.rs`). If the mutex is free, no unlock would
//!   come, so the notifier takes it meanwhile. (So could a waiter, so this cannot be observed.)
//!
//! **Proof.** If a notifier changed the condition with the mutex held, it finds the waiter, which was queued
//! before it unlocked. While waiters are queued, the companion is not null; it changes with the bucket lock
//! held. A notifier may read null without that lock. The value is older than the waiter's unlock only if the
//! notifier has not held the mutex since. A waiter that is queued here borrows the mutex, so it is alive.

mod companion;

use std::fmt;
use std::ptr;
use std::time::{Duration, Instant};

use self::companion::Companion;
use super::mutex::{MutexGuard, RawMutex};
use crate::park::current::is_kernel;
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::{const_new, fork};

/// A grant by the condition variable itself; other tokens come from the mutex after a move.
const NOTIFIED: Token = Token(0);

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
    waits_with: Companion,
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
    const_new! {
        /// Creates a condition variable without waiters.
        #[inline]
        #[must_use]
        pub const fn new() -> Self {
            Self { waits_with: Companion::new() }
        }
    }

    #[inline]
    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Wakes one waiter, if there is one. Returns `true` if there was.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_one(&self) -> bool {
        !self.waits_with.look().is_empty() && self.notify_one_slow()
    }

    #[cold]
    fn notify_one_slow(&self) -> bool {
        let grant = wait_queue::grant_one(self.key(), |found| {
            if found.is_none_or(|found| !found.more) {
                self.waits_with.clear();
            }
            NOTIFIED
        });
        grant.map(wait_queue::Grant::wake).is_some()
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
        if self.waits_with.look().is_empty() { 0 } else { self.notify_all_slow() }
    }

    #[cold]
    fn notify_all_slow(&self) -> usize {
        if fork::is_child() {
            self.forget_lost();
        }
        loop {
            let seen = self.waits_with.look();
            if seen.has_kernel_threads() {
                return self.notify_herd(seen);
            }
            let grants = wait_queue::grant_all(self.key(), NOTIFIED, || {
                let same = self.waits_with.look() == seen;
                if same {
                    self.waits_with.clear();
                }
                same
            });
            if let Some(grants) = grants {
                return grants.wake_all();
            }
            // Another waiter came, or all have been notified.
        }
    }

    /// Notifies all waiters, if kernel threads may be among them.
    fn notify_herd(&self, seen: companion::Seen) -> usize {
        let mut taken = false;
        let begin = || {
            if self.waits_with.look() != seen {
                // All that waited at the call have been notified.
                return false;
            }
            self.waits_with.clear();
            // SAFETY: not null with the bucket lock held, and the waiters are this process's. So one has not
            // returned from its wait, which borrows the mutex.
            taken = unsafe { &*seen.mutex() }.announce_or_take();
            true
        };
        let moved = wait_queue::requeue(self.key(), seen.mutex().addr(), begin);
        if taken {
            // SAFETY: no thread returns from a wait without the lock, and we have that.
            unsafe { &*seen.mutex() }.release();
        }
        moved
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

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::until(deadline)).is_err())
    }

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::timeout(timeout)).is_err())
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

    /// [`wait_while`](Self::wait_while), at most until `deadline`. As in std but not in parking_lot, a last
    /// call of `condition` after the deadline decides: if it returns `true`, the wait has timed out.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex, or if `condition` panics.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
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

    /// [`wait_while`](Self::wait_while), at most for `timeout`. As in std but not in parking_lot, a last
    /// call of `condition` after the timeout decides: if it returns `true`, the wait has timed out.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex, or if `condition` panics.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
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
        wait.run(|wait| self.wait_raw(mutex, &Options::new(WaitReason::Condvar, wait)))
    }

    /// Waits with `mutex`. The caller has locked it, and has it again when this returns (or panics).
    #[inline]
    pub(super) fn wait_raw(&self, mutex: &RawMutex, options: &Options) -> Result<(), WaitError> {
        let validate = || self.waits_with.join(mutex, is_kernel());
        match wait_queue::wait_with(self.key(), options, validate, mutex) {
            Ok(Woken::Granted(token)) => {
                mutex.acquire_after(token);
                Ok(())
            }
            Ok(Woken::Ended { why, moved }) => self.left_queue(mutex, moved, why),
            Err(_) => self.other_mutex(mutex, options),
        }
    }

    /// Forgets a parent's mutex, or panics. `wait_raw` without this can be inlined: it is not recursive.
    #[cold]
    #[inline(never)]
    fn other_mutex(&self, mutex: &RawMutex, options: &Options) -> Result<(), WaitError> {
        assert!(self.forget_lost(), "attempted to use a condition variable with more than one mutex");
        self.wait_raw(mutex, options)
    }

    /// Forgets, in the child of a fork, the mutex of the parent's waiters. Returns `true` if there was one.
    #[cold]
    fn forget_lost(&self) -> bool {
        let mut lost = false;
        if fork::is_child() {
            wait_queue::if_empty(self.key(), || {
                lost = !self.waits_with.look().is_empty();
                self.waits_with.clear();
            });
        }
        lost
    }

    /// Locks the mutex again for a waiter that left its queue without a grant. Returns how the wait ended.
    fn left_queue(&self, mutex: &RawMutex, moved: bool, why: WaitError) -> Result<(), WaitError> {
        if !moved {
            wait_queue::if_empty(self.key(), || self.waits_with.clear());
        }
        mutex.acquire_after(NOTIFIED);
        // A waiter that has been moved has been notified.
        if moved { Ok(()) } else { Err(why) }
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

#[cfg(all(test, loom))]
mod loom_condvar;
#[cfg(all(test, loom))]
mod loom_mutex_handoff;
