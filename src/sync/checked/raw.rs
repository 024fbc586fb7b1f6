//! The checked lock without the data: a mutex, and its owner.
//!
//! **Problem.** A thread that locks what it owns waits for itself, forever. A thread that unlocks what
//! another owns lets two in. Both are mistakes of programs in which locking does not follow scopes. If
//! the lock knows its owner, both can be reported at once.
//!
//! **Rejected.**
//!
//! - The hint in the mutex. It says where the owner ran, and other threads may run there too.
//! - The address of the owner's core. A foreign thread gives its core back before it has quite ended.
//!
//! **Protocol.** The owner's id is stored beside the mutex, from right after the lock to right before the
//! unlock. If a thread finds its own id there, it has written it, and has not unlocked since: ids are
//! never used again.
//!
//! **Cost** in read-modify-writes: as the mutex's. A lock and an unlock take one more store and one more
//! look each.

use std::error::Error;
use std::fmt;

use lock_api::{RawMutex as _, RawMutexFair as _};

use crate::park::current::current;
use crate::park::wait::{Wait, WaitError, timed};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::sync::mutex::RawMutex;

/// The reason why a checked lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockError {
    /// The running thread owns the lock already, and would wait for itself.
    Deadlock,
    /// Another thread has owned the lock until the deadline. (Only of `lock_with`.)
    TimedOut,
    /// The running thread has been interrupted. (Only of `lock_with`.)
    Interrupted,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock => f.pad("the thread owns the lock already, and would wait for itself"),
            Self::TimedOut => WaitError::TimedOut.fmt(f),
            Self::Interrupted => WaitError::Interrupted.fmt(f),
        }
    }
}

impl Error for LockError {}

impl From<WaitError> for LockError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => Self::TimedOut,
            WaitError::Interrupted => Self::Interrupted,
        }
    }
}

/// The reason why a lock was not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnlockError {
    /// No thread has locked it.
    NotLocked,
    /// Another thread owns it.
    NotOwner,
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotLocked => "the lock is not locked",
            Self::NotOwner => "another thread owns the lock",
        })
    }
}

impl Error for UnlockError {}

/// The owner of a lock.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | the lock is free, or has just been locked | the thread that has locked it: its id |
/// | a thread's id | that thread owns it | that thread, before it unlocks it: 0 |
#[derive(Debug, Default)]
struct Owner(AtomicU64);

impl Owner {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed, here and below: a thread must find only what it wrote itself.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, id: u64) {
        self.0.store(id, Ordering::Relaxed);
    }

    #[inline]
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[inline]
fn me() -> u64 {
    current().id().get()
}

/// A lock that knows its owner, and protects nothing by itself. It is for locking that does not follow
/// scopes, as in C.
///
/// If it is to protect a value, [`CheckedMutex`](super::CheckedMutex) is safer.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{LockError, RawCheckedMutex, UnlockError};
///
/// static LOCK: RawCheckedMutex = RawCheckedMutex::new();
///
/// assert_eq!(LOCK.unlock(), Err(UnlockError::NotLocked));
/// LOCK.lock()?;
/// assert_eq!(LOCK.lock(), Err(LockError::Deadlock));
/// std::thread::spawn(|| assert_eq!(LOCK.unlock(), Err(UnlockError::NotOwner))).join().unwrap();
/// LOCK.unlock()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct RawCheckedMutex {
    mutex: RawMutex,
    owner: Owner,
}

impl RawCheckedMutex {
    /// Creates a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { mutex: RawMutex::new(), owner: Owner(AtomicU64::new(0)) }
    }

    /// Returns the key under which its waiters queue.
    pub(in crate::sync) fn key(&self) -> usize {
        self.mutex.key()
    }

    /// Acquires the lock by `take`, which returns `true` if it has.
    #[inline]
    fn lock_by(&self, take: impl FnOnce(&RawMutex) -> Result<bool, WaitError>) -> Result<bool, LockError> {
        let me = me();
        if self.owner.look() == me {
            return Err(LockError::Deadlock);
        }
        let taken = take(&self.mutex)?;
        if taken {
            self.owner.set(me);
        }
        Ok(taken)
    }

    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> Result<(), LockError> {
        let lock = |mutex: &RawMutex| {
            mutex.lock();
            Ok(true)
        };
        self.lock_by(lock).map(|_| ())
    }

    /// Acquires the lock if it is free; `false`: another thread owns it.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    #[inline]
    pub fn try_lock(&self) -> Result<bool, LockError> {
        self.lock_by(|mutex| Ok(mutex.try_lock()))
    }

    timed! {
        lock: "; `false`: another thread has owned it all the time"
        /// # Errors
        ///
        /// [`LockError::Deadlock`]: the running thread owns it already.
        pub fn try_lock_for, try_lock_until(&self) -> Result<bool, LockError> {
            |limit| self.try_lock_by(limit)
        }
    }

    /// Acquires the lock if it is free, or becomes free before the wait ends.
    pub(super) fn try_lock_by(&self, limit: impl FnOnce() -> Wait) -> Result<bool, LockError> {
        self.lock_by(|mutex| Ok(mutex.try_lock() || mutex.acquire_with(limit()).is_ok()))
    }

    /// [`lock`](Self::lock) that ends as `wait` says.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already. [`LockError::TimedOut`] or
    /// [`LockError::Interrupted`]: the wait has ended, and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_with(&self, wait: Wait) -> Result<(), LockError> {
        self.lock_by(|mutex| wait.run(|wait| mutex.acquire_with(wait)).map(|()| true)).map(|_| ())
    }

    #[inline]
    fn check_owner(&self) -> Result<(), UnlockError> {
        if self.owner.look() == me() {
            Ok(())
        } else if self.mutex.is_locked() {
            Err(UnlockError::NotOwner)
        } else {
            Err(UnlockError::NotLocked)
        }
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then unchanged.
    #[inline]
    pub fn unlock(&self) -> Result<(), UnlockError> {
        self.check_owner()?;
        // SAFETY: the running thread owns it.
        unsafe { self.release() };
        Ok(())
    }

    /// [`unlock`](Self::unlock) that hands the lock to the next waiter, if there is one.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then unchanged.
    #[inline]
    pub fn unlock_fair(&self) -> Result<(), UnlockError> {
        self.check_owner()?;
        // SAFETY: the running thread owns it.
        unsafe { self.release_fair() };
        Ok(())
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller has locked it.
    #[inline]
    pub(super) unsafe fn release(&self) {
        self.owner.clear();
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock() };
    }

    /// Releases the lock, and hands it to the next waiter, if there is one.
    ///
    /// # Safety
    /// The caller has locked it.
    #[inline]
    pub(super) unsafe fn release_fair(&self) {
        self.owner.clear();
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock_fair() };
    }

    crate::shown::getters! {
        /// Returns `true` if a thread owns it at this moment.
        fn is_locked(&self) -> bool = self.mutex.is_locked();
        /// Returns `true` if the running thread owns it.
        fn is_owned_by_current_thread(&self) -> bool = self.owner.look() == me();
    }
}

crate::shown::debug! { [] RawCheckedMutex: "RawCheckedMutex", "locked": |lock| lock.is_locked() }

#[cfg(all(test, loom))]
mod loom_checked;
