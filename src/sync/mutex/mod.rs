//! A mutual exclusion lock for threads of any kind.

pub(super) mod interruptible;
pub(super) mod raw;

use std::time::{Duration, Instant};

use crate::time;

pub use interruptible::LockInterruptible;
pub use raw::RawMutex;

/// A lock that protects a value, without poisoning.
///
/// It may be shared between green threads, bound threads, 1:1 threads and threads that Selvedge did not start, of
/// several runtimes. It is four bytes beside the value, needs no initialization and no destructor, and may be moved
/// while nobody uses it. A thread that unwinds with the lock held releases it; the next owner finds the value as it
/// was left.
///
/// The lock is *adaptive*: a thread that finds it taken waits awake while the owner runs on another CPU, and sleeps
/// otherwise. It is not fair, but nobody waits for more than about half a millisecond while others pass by;
/// [`MutexGuard::unlock_fair`] hands it to the next waiter at once.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Mutex;
///
/// static TOTAL: Mutex<u32> = Mutex::new(0);
///
/// std::thread::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| *TOTAL.lock() += 10);
///     }
/// });
/// assert_eq!(*TOTAL.lock(), 40);
/// ```
///
/// With a deadline:
///
/// ```
/// use selvedge::sync::Mutex;
/// use std::time::Duration;
///
/// let mutex = Mutex::new(());
/// let guard = mutex.lock();
/// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
/// drop(guard);
/// assert!(mutex.try_lock().is_some());
/// ```
///
/// # Misuse
///
/// - *Locked again by its owner*, it waits for ever (the timed forms: until their time is over). [`CheckedMutex`](super::CheckedMutex)
///   refuses, [`ReentrantMutex`](super::ReentrantMutex) lets it in.
/// - *A leaked guard* keeps it locked for ever. [`RobustMutex`](super::RobustMutex) passes it on when the owner has ended.
/// - *Unlocked by another thread* than its owner, by the `unsafe` [`force_unlock`](lock_api::Mutex::force_unlock) or the raw lock, it is
///   unlocked: a semaphore of one.
/// - *Unlocked while it is free*, in the same way: it panics, and stays free.
/// - *Dropped or moved while a thread waits for it*: the waiter borrows it, so only `unsafe` code can do that. The waiter then sleeps on
///   at that address, where nobody unlocks anything, or a lock that comes to lie there wakes it.
///
/// ```compile_fail,E0505
/// let mutex = selvedge::sync::Mutex::new(());
/// std::thread::scope(|s| {
///     s.spawn(|| drop(mutex.lock()));
///     drop(mutex);
/// });
/// ```
///
/// # Blocks
///
/// `lock` and the timed forms block the thread: a green thread leaves its LWP to others meanwhile.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]; unlocks it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`], made by [`MutexGuard::map`]; unlocks it when dropped.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

// SAFETY: `acquire` and `try_acquire` give the lock to one caller at a time, until `release` (see `raw.rs`).
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.acquire();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_acquire()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.release();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_taken()
    }
}

// SAFETY: `release_fair` passes the lock on or frees it.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.release_fair();
    }

    #[inline]
    unsafe fn bump(&self) {
        if self.has_waiters() {
            self.release_fair();
            self.acquire();
        }
    }
}

// SAFETY: as `RawMutex`; `false` means that the lock was not taken.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.try_acquire() || self.acquire_until(time::after(timeout))
    }

    #[inline]
    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.acquire_until(Some(deadline))
    }
}
