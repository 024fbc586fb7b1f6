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

use super::{MutexGuard, RawMutex};
use crate::park::shared_futex;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::const_new;
use crate::sync::WaitTimeoutResult;
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
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let mut ready = ready.lock();
///     changed.wait_while(&mut ready, |ready| !*ready);
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
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, None);
    }

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_with(guard, Some(deadline))
    }

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        self.wait_with(guard, time::after(timeout))
    }

    /// Waits for as long as `condition` says `true` of the value.
    ///
    /// # Blocks
    ///
    /// The LWP.
    pub fn wait_while<T: ?Sized, F>(&self, guard: &mut MutexGuard<'_, T>, mut condition: F)
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(guard) {
            self.wait(guard);
        }
    }

    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        // SAFETY: what follows leaves the mutex locked by this guard.
        let mutex: &RawMutex = unsafe { MutexGuard::mutex(guard).raw() };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let seen = self.notified.load(Ordering::Relaxed);
        mutex.release();
        let woken = || self.notified.load(Ordering::Relaxed) != seen;
        if !shared_futex::wait_awake(woken) {
            while !woken() && !time::has_passed(deadline) {
                let _ = shared_futex::wait(&self.notified, seen, deadline);
            }
        }
        let timed_out = !woken();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        mutex.acquire_again();
        WaitTimeoutResult::new(timed_out)
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
