//! A condition variable.
//!
//! **Problem.** Between the unlock of the mutex and the sleep no notification may be lost; and a broadcast must not
//! wake a herd of kernel threads that then fights for the one mutex.
//!
//! **Rejected.** Moving the waiter to the mutex at `notify_one` too: the notifier usually unlocks soon, but on two CPUs
//! the moved waiter's wake-up then waits for that unlock (three times slower on 5,000 pairs of kernel threads).
//! A sequence number and a futex (std): every broadcast is a herd. Granting all kernel threads where the mutex is free: a herd too, of threads
//! that find it taken.
//!
//! **Protocol.**
//! - *Wait*: queue on the condition variable's address, then unlock the mutex, then sleep; then lock the mutex. Where a green thread is followed
//!   by one that it has notified, the mutex goes with the switch instead (`park/relay.rs`).
//! - *Notify one*: grant the first waiter.
//! - *Notify all*: grant all. Green threads run a few at a time whatever happens, so a herd of them finds the mutex free as a rule,
//!   while a chain of grants, each waiting for the thread before it to get a turn, keeps all LWPs but one from working (10,000
//!   waiters, two LWPs: 53 ms against 75), and costs each a bucket lock more (a barrier of four: 234 ns against 186).
//! - *The same with kernel threads among them*: move all to the mutex's queue, with both bucket locks held; there an unlock grants a
//!   few of them at a time (`COMPANY` in `mutex/raw.rs`). If the mutex is free, nobody would unlock it, so the notifier takes it for as
//!   long. Its waiters could as well have locked it in that moment, so nobody can tell.
//!
//! **Proof.** A notifier that changed the condition with the mutex held finds the waiter queued: it was queued before it
//! unlocked. the companion is not null while anybody is queued, and changes with the bucket lock held; a notifier that reads
//! null without it reads a value older than the waiter's unlock only if it did not hold the mutex since.
//! The mutex is alive while a waiter is queued here, since that waiter's call borrows it.

mod companion;

use std::fmt;
use std::ptr;
use std::time::{Duration, Instant};

use self::companion::Companion;
use super::mutex::{MutexGuard, RawMutex};
use crate::park::current::is_kernel;
use crate::park::interrupt::{self, Interrupted};
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::{const_new, fork};
use crate::time;

/// A grant by the condition variable itself; other tokens come from the mutex after a move.
const NOTIFIED: Token = Token(0);

/// A condition variable: a place to wait, with a [`Mutex`](super::Mutex) unlocked, for a notification.
///
/// It may be shared between green threads, bound threads, 1:1 threads and threads that Selvedge did not start.
/// At any time all its waiters must use the same mutex.
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

/// Whether a timed wait ended because of its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(super) fn new(timed_out: bool) -> Self {
        Self(timed_out)
    }

    /// Whether the wait ended without a notification.
    #[inline]
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    const_new! {
        /// A condition variable that nobody waits on.
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

    /// Wakes one waiter, if there is one, and says whether there was.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_one(&self) -> bool {
        !self.waits_with.look().is_nobody() && self.notify_one_slow()
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

    /// Wakes all waiters, and says how many there were.
    ///
    /// If kernel threads are among them, they are moved to the mutex's queue, and wake some at a time, as it is unlocked.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.waits_with.look().is_nobody() { 0 } else { self.notify_all_slow() }
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
            // Somebody came, or all have been notified.
        }
    }

    /// Notifies all, who may be kernel threads.
    fn notify_herd(&self, seen: companion::Seen) -> usize {
        let mut taken = false;
        let begin = || {
            if self.waits_with.look() != seen {
                // All that waited when we were called have been notified.
                return false;
            }
            self.waits_with.clear();
            // SAFETY: not null with the bucket lock held, and the waiters are this process's, so one has not returned from its
            // wait, which borrows it.
            taken = unsafe { &*seen.mutex() }.announce_or_take();
            true
        };
        let moved = wait_queue::requeue(self.key(), seen.mutex().addr(), begin);
        if taken {
            // SAFETY: nobody returns from a wait without the lock, and we have that.
            unsafe { &*seen.mutex() }.release();
        }
        moved
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks it again.
    ///
    /// May also return without a notification; callers look at their condition again.
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
        self.wait_with(guard, None);
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
        self.wait_with(guard, Some(deadline))
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
        self.wait_with(guard, time::after(timeout))
    }

    /// Waits for as long as `condition` says `true` of the value.
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
        let never_out = self.wait_while_with(guard, condition, None);
        debug_assert!(!never_out.timed_out());
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
        self.wait_while_with(guard, condition, Some(deadline))
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
        self.wait_while_with(guard, condition, time::after(timeout))
    }

    fn wait_while_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(guard) {
            result = self.wait_with(guard, deadline);
        }
        // A last look: the condition counts, not the clock.
        WaitTimeoutResult(result.timed_out() && condition(guard))
    }

    /// [`wait`](Self::wait), unless the running thread is interrupted. Either way the mutex is locked again afterwards, however long
    /// that takes.
    ///
    /// A thread that has been notified in the same moment as it is interrupted returns `Ok`, so that the notification is not
    /// lost, and the interrupt is left for its next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{Condvar, Mutex};
    /// use selvedge::thread;
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// thread::current().interrupt();
    /// assert!(changed.wait_interruptible(&mut ready.lock()).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and there was no notification.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Interrupted> {
        self.wait_interruptible_with(guard, None).map(|_| ())
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and there was no notification.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        self.wait_interruptible_with(guard, Some(deadline))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and there was no notification.
    ///
    /// # Panics
    ///
    /// If other waiters wait with another mutex.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        self.wait_interruptible_with(guard, time::after(timeout))
    }

    fn wait_interruptible_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> Result<WaitTimeoutResult, Interrupted> {
        interrupt::check()?;
        // SAFETY: what follows leaves the mutex locked by this guard.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        match self.wait_raw(mutex, &Options::interruptible(WaitReason::Condvar, deadline)) {
            Ended::Interrupted => Err(interrupt::reported()),
            ended => Ok(WaitTimeoutResult(ended == Ended::Expired)),
        }
    }

    #[inline]
    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        // SAFETY: what follows leaves the mutex locked by this guard.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        let ended = self.wait_raw(mutex, &Options::new(WaitReason::Condvar, deadline));
        WaitTimeoutResult(ended == Ended::Expired)
    }

    /// Waits with `mutex`, which the caller has locked, and has again when this returns (or panics).
    pub(super) fn wait_raw(&self, mutex: &RawMutex, options: &Options) -> Ended {
        let validate = || self.waits_with.join(mutex, is_kernel());
        match wait_queue::wait_with(self.key(), options, validate, mutex) {
            Ok(Woken::Granted(token)) => {
                mutex.acquire_after(token);
                Ended::Notified
            }
            Ok(Woken::Expired { moved }) => self.left_queue(mutex, moved, Ended::Expired),
            Ok(Woken::Interrupted { moved }) => self.left_queue(mutex, moved, Ended::Interrupted),
            Err(_) => self.other_mutex(mutex, options),
        }
    }

    /// Others wait with another mutex, or did in the parent process. (Out of the way: `wait_raw` itself does not recur, so that it can
    /// become a part of its callers.)
    #[cold]
    #[inline(never)]
    fn other_mutex(&self, mutex: &RawMutex, options: &Options) -> Ended {
        assert!(self.forget_lost(), "attempted to use a condition variable with more than one mutex");
        self.wait_raw(mutex, options)
    }

    /// In the child of a fork: forgets the mutex of the parent's waiters, which wait no more and may be gone. Whether there was one.
    #[cold]
    fn forget_lost(&self) -> bool {
        let mut lost = false;
        if fork::is_child() {
            wait_queue::if_empty(self.key(), || {
                lost = !self.waits_with.look().is_nobody();
                self.waits_with.clear();
            });
        }
        lost
    }

    /// A waiter has left its queue without a grant: locks the mutex again, and says how the wait ended.
    fn left_queue(&self, mutex: &RawMutex, moved: bool, why: Ended) -> Ended {
        if !moved {
            wait_queue::if_empty(self.key(), || self.waits_with.clear());
        }
        mutex.acquire_after(NOTIFIED);
        // One that has been moved has been notified.
        if moved { Ended::Notified } else { why }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Notified,
    Expired,
    /// The flag is still set.
    Interrupted,
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
#[path = "tests/loom_condvar.rs"]
mod loom_condvar;
#[cfg(all(test, loom))]
#[path = "tests/loom_relay.rs"]
mod loom_relay;
