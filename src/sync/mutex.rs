//! A mutual exclusion lock for threads of any kind.

pub(super) mod raw;

use std::time::{Duration, Instant};

use super::impls::forward;
use crate::park::wait::{Wait, WaitError};

crate::shim::swap! { pub use raw::RawMutex; pub use crate::shim::model::mutex::RawMutex; }

/// A lock that protects a value, without poisoning.
///
/// Threads of several runtimes may share it: green threads, bound threads, 1:1 threads, and threads that
/// Selvedge did not start. It is four bytes beside the value, and needs no initialization and no
/// destructor. It may be moved while no thread uses it. A thread that unwinds with the lock held releases
/// it; the next owner finds the value as it was left.
///
/// The lock is *adaptive*: if the owner runs on another CPU, a thread that finds the lock taken waits
/// awake; otherwise it sleeps. The lock is not fair, but no thread waits for more than about half a
/// millisecond while others pass by. [`MutexGuard::unlock_fair`] hands it to the next waiter at once.
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
/// - *Locked again by its owner*: the owner waits forever (the timed forms: until their time is over).
///   [`CheckedMutex`](super::CheckedMutex) refuses; [`ReentrantMutex`](super::ReentrantMutex) lets it in.
/// - *A leaked guard*: the mutex stays locked forever. [`RobustMutex`](super::RobustMutex) passes it on
///   when the owner has ended.
/// - *Unlocked by a thread other than its owner*, by the `unsafe`
///   [`force_unlock`](lock_api::Mutex::force_unlock) or the raw lock: it is unlocked. It is a semaphore
///   of one.
/// - *Unlocked while it is free*, in the same way: it panics, and stays free.
/// - *Dropped or moved while a thread waits for it*: the waiter borrows it, so only `unsafe` code can do
///   that. The waiter then sleeps on at that address, where no thread unlocks anything. A lock that comes
///   to lie there may wake it.
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
/// `lock`, the timed forms and [`lock_with`](LockWith::lock_with) block the thread. Meanwhile a green thread
/// leaves its LWP to others.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]; unlocks it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`], made by [`MutexGuard::map`]; unlocks it when
/// dropped.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

// SAFETY: `acquire` and `try_acquire` give the lock to one caller at a time, until `release` (see `raw.rs`).
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    forward! {
        fn lock(&self) = self.acquire();
        fn try_lock(&self) -> bool = self.try_acquire();
        fn is_locked(&self) -> bool = self.is_taken();
        unsafe fn unlock(&self) = self.release();
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

// SAFETY: as `RawMutex`: one caller at a time gets the lock. `false` means that it was not taken.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    forward! {
        fn try_lock_for(&self, timeout: Duration) -> bool =
            self.try_acquire() || self.acquire_with(Wait::timeout(timeout)).is_ok();
        fn try_lock_until(&self, deadline: Instant) -> bool =
            self.acquire_with(Wait::until(deadline)).is_ok();
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Locks for which a deadline or an interrupt can end a thread's wait.
///
/// It is a trait because [`Mutex`] is `lock_api`'s type, to which this crate cannot add methods. All mutexes
/// have the same trait.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{LockWith, Mutex};
/// use selvedge::{OneToOne, Runtime, Wait, WaitError};
/// use std::sync::Arc;
///
/// let rt = OneToOne::new()?;
/// let mutex = Arc::new(Mutex::new(1));
/// let guard = mutex.lock();
/// let waiter = rt.spawn({
///     let mutex = Arc::clone(&mutex);
///     move || mutex.lock_with(Wait::forever().interruptible()).map(|value| *value)
/// });
/// waiter.thread().interrupt();
/// assert_eq!(waiter.join().unwrap(), Err(WaitError::Interrupted));
/// assert_eq!(*guard, 1);
/// # std::io::Result::Ok(())
/// ```
pub trait LockWith: sealed::Sealed {
    /// The guard, which unlocks the lock when dropped.
    type Guard<'a>
    where
        Self: 'a;

    /// Acquires the lock, and ends as `wait` says.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn lock_with(&self, wait: Wait) -> Result<Self::Guard<'_>, WaitError>;
}

impl<T: ?Sized> sealed::Sealed for Mutex<T> {}

impl<T: ?Sized> LockWith for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;

    #[inline]
    fn lock_with(&self, wait: Wait) -> Result<MutexGuard<'_, T>, WaitError> {
        // SAFETY: only `acquire_with` is called.
        let raw = unsafe { self.raw() };
        wait.run(|wait| raw.acquire_with(wait))?;
        // SAFETY: it has just been locked by this thread, which has no other guard of it.
        Ok(unsafe { self.make_guard_unchecked() })
    }
}
