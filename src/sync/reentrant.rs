//! A mutual exclusion lock that its owner may take again and again.
//!
//! **Problem.** `lock_api` has almost all of it: the owner of the lock, how often it has taken the lock,
//! guards and mapped guards. It must be told which thread is running. It has no wait that an interrupt
//! can end, and no place for one, because owner and count are private.
//!
//! **Rejected.**
//!
//! - *The address of a native thread-local* as the name of a thread, as elsewhere. Pinned green threads
//!   share these.
//! - *The address of the thread's core*. A foreign thread gives its core back while its last destructors
//!   run. The next thread to get it would pass for the owner of what they still hold.
//! - *A lock of our own*. It would be the same again, with all the guards.
//!
//! **Protocol.** The name of a thread is its id, which no other thread ever has. For an interruptible
//! wait, the thread first takes the mutex below. It then *reserves* it, in its own name, and asks
//! `lock_api` to try the lock. That finds the mutex taken, and reserved for the thread that asks, which
//! is as good as free.
//!
//! **Proof.** Only a thread that has the mutex reserves it, in its own name. Only a thread of that name
//! can use the reservation up, and it does so at once. Others may read the word at any time, and find a
//! name that is not theirs.
//!
//! **Cost** in read-modify-writes: as the mutex's, and none if the owner locks again.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::impls::forward;
use super::mutex::{LockWith, RawMutex, sealed};
use crate::park::current::current;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicUsize, Ordering};

/// A lock that protects a value, and that its owner may take again.
///
/// The owner has taken it as often as it has guards; when all of them are gone, it is free. Guards give
/// shared access only: to change something, put a [`Cell`](std::cell::Cell) or
/// [`RefCell`](std::cell::RefCell) inside. The owner is a thread of any kind, wherever it runs: green
/// threads keep their locks when they move to another kernel thread.
///
/// A guard that is leaked keeps the lock taken forever, except for its own thread.
///
/// # Examples
///
/// ```
/// use selvedge::sync::ReentrantMutex;
/// use std::cell::Cell;
///
/// static DEPTH: ReentrantMutex<Cell<u32>> = ReentrantMutex::new(Cell::new(0));
///
/// fn descend(to: u32) {
///     let depth = DEPTH.lock();
///     if depth.get() < to {
///         depth.set(depth.get() + 1);
///         descend(to);
///     }
/// }
/// descend(7);
/// assert_eq!(DEPTH.lock().get(), 7);
/// ```
///
/// # Panics
///
/// If it is taken more often than fits into a `usize`.
///
/// # Blocks
///
/// `lock`, the timed forms and [`lock_with`](LockWith::lock_with) block the thread, unless it is the owner.
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawReservableMutex, RawThreadId, T>;

/// Access to the value of a locked [`ReentrantMutex`]; takes back one lock of its owner when dropped.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawReservableMutex, RawThreadId, T>;

/// Access to a part of the value of a locked [`ReentrantMutex`], made by [`ReentrantMutexGuard::map`].
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawReservableMutex, RawThreadId, T>;

/// A [`ReentrantMutexGuard`] that owns a share of its lock.
#[cfg(feature = "arc_lock")]
pub type ArcReentrantMutexGuard<T> = lock_api::ArcReentrantMutexGuard<RawReservableMutex, RawThreadId, T>;

/// Tells threads of all kinds apart, for [`lock_api`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RawThreadId;

// SAFETY: ids are never used again.
unsafe impl lock_api::GetThreadId for RawThreadId {
    const INIT: Self = Self;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        me()
    }
}

/// Returns the name of the running thread. A kernel thread that Selvedge has not met is adopted.
#[inline]
fn me() -> NonZeroUsize {
    // If a word has 32 bits, a program can run out of names; it had better say so.
    NonZeroUsize::try_from(current().id()).expect("a name for each of the threads so far")
}

/// A [`RawMutex`] that its owner can reserve for itself: the base of a [`ReentrantMutex`].
#[derive(Debug, Default)]
pub struct RawReservableMutex {
    mutex: RawMutex,
    reserved: Reserved,
}

/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | not reserved | the owner of the mutex: its name |
/// | a thread's name | that thread has the mutex, and its next attempt is to succeed | that attempt: 0 |
#[derive(Debug, Default)]
struct Reserved(AtomicUsize);

impl Reserved {
    fn set(&self, me: NonZeroUsize) {
        // Relaxed, here and below: of use only to the thread that wrote it.
        self.0.store(me.get(), Ordering::Relaxed);
    }

    #[inline]
    fn take(&self, me: NonZeroUsize) -> bool {
        let mine = self.0.load(Ordering::Relaxed) == me.get();
        if mine {
            self.0.store(0, Ordering::Relaxed);
        }
        mine
    }
}

impl RawReservableMutex {
    /// Creates a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { mutex: RawMutex::new(), reserved: Reserved(AtomicUsize::new(0)) }
    }

    /// Returns the key under which its waiters queue.
    pub(super) fn key(&self) -> usize {
        self.mutex.key()
    }
}

// SAFETY: as the mutex; a thread that finds it reserved for itself has it.
unsafe impl lock_api::RawMutex for RawReservableMutex {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    forward! {
        fn lock(&self) = self.mutex.acquire();
        fn try_lock(&self) -> bool = self.mutex.try_acquire() || self.reserved.take(me());
        fn is_locked(&self) -> bool = self.mutex.is_taken();
        unsafe fn unlock(&self) = self.mutex.release();
    }
}

// SAFETY: as the mutex, which passes the lock on or frees it.
unsafe impl lock_api::RawMutexFair for RawReservableMutex {
    forward! {
        unsafe fn unlock_fair(&self) = self.mutex.release_fair();
        // SAFETY: the caller's promise.
        unsafe fn bump(&self) = unsafe { self.mutex.bump() };
    }
}

// SAFETY: as the mutex; `false` means that it was not taken.
unsafe impl lock_api::RawMutexTimed for RawReservableMutex {
    type Duration = Duration;
    type Instant = Instant;

    forward! {
        fn try_lock_for(&self, timeout: Duration) -> bool = self.mutex.try_lock_for(timeout);
        fn try_lock_until(&self, deadline: Instant) -> bool = self.mutex.try_lock_until(deadline);
    }
}

impl<T: ?Sized> sealed::Sealed for ReentrantMutex<T> {}

/// An owner that has been interrupted gets the error too.
impl<T: ?Sized> LockWith for ReentrantMutex<T> {
    type Guard<'a>
        = ReentrantMutexGuard<'a, T>
    where
        Self: 'a;

    fn lock_with(&self, wait: Wait) -> Result<ReentrantMutexGuard<'_, T>, WaitError> {
        wait.run(|wait| {
            if !self.is_owned_by_current_thread() {
                // SAFETY: it is only taken, and then given to `try_lock`.
                let raw = unsafe { self.raw() };
                raw.mutex.acquire_with(wait)?;
                raw.reserved.set(me());
            }
            Ok(self.try_lock().expect("owned or reserved, so it was to be had"))
        })
    }
}

#[cfg(all(test, loom))]
mod loom_reentrant;
