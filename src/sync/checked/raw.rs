//! The checked lock without the data: a mutex, and who owns it.
//!
//! **Problem.** A thread that locks what it owns waits for itself, for ever; one that unlocks what another owns lets two in. Both
//! are mistakes of programs whose locking does not follow their scopes, and both can be told at once, if the lock knows its owner.
//!
//! **Rejected.** The hint in the mutex: it says where the owner ran, which others may, too. The address of the owner's core: a
//! foreign thread gives its core back before it has quite ended.
//!
//! **Protocol.** The owner's id stands beside the mutex, from right after the lock to right before the unlock. A thread finds its
//! own there only if it wrote it, and has not unlocked since: ids are never used again.
//!
//! **Cost** in read-modify-writes: as the mutex's. A store and a look more for a lock, and for an unlock.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use lock_api::{RawMutex as _, RawMutexFair as _, RawMutexTimed as _};

use crate::park::current::current;
use crate::park::interrupt::Interrupted;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_new;
use crate::sync::mutex::RawMutex;
use crate::time;

/// Why a checked lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockError {
    /// The running thread owns the lock already, and would wait for itself.
    Deadlock,
    /// The running thread has been interrupted. (Only of waits that are called interruptible.)
    Interrupted,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock => f.pad("the thread owns the lock already, and would wait for itself"),
            Self::Interrupted => Interrupted.fmt(f),
        }
    }
}

impl Error for LockError {}

impl From<Interrupted> for LockError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Why a lock was not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnlockError {
    /// Nobody has locked it.
    NotLocked,
    /// Another thread owns it.
    NotOwner,
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotLocked => "nobody has locked the lock",
            Self::NotOwner => "another thread owns the lock",
        })
    }
}

impl Error for UnlockError {}

/// Who owns a lock.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | the lock is free, or was locked this moment | who has locked it: its id |
/// | a thread's id | that thread owns it | that thread, before it unlocks it: 0 |
#[derive(Debug)]
struct Owner(AtomicU64);

impl Owner {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed, here and below: what a thread must find is only what it wrote itself.
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

/// A lock that knows its owner, and protects nothing by itself: for locking that does not follow scopes, as in C.
///
/// Where it protects a value, [`CheckedMutex`](super::CheckedMutex) is safer.
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
pub struct RawCheckedMutex {
    mutex: RawMutex,
    owner: Owner,
}

impl RawCheckedMutex {
    const_new! {
        /// A free lock.
        #[must_use]
        pub const fn new() -> Self {
            Self { mutex: RawMutex::new(), owner: Owner(AtomicU64::new(0)) }
        }
    }

    /// Where the waiters are.
    pub(in crate::sync) fn key(&self) -> usize {
        self.mutex.key()
    }

    /// Takes it by `take`, which says whether it has.
    #[inline]
    fn lock_by<E: Into<LockError>>(
        &self,
        take: impl FnOnce(&RawMutex) -> Result<bool, E>,
    ) -> Result<bool, LockError> {
        let me = me();
        if self.owner.look() == me {
            return Err(LockError::Deadlock);
        }
        let taken = take(&self.mutex).map_err(Into::into)?;
        if taken {
            self.owner.set(me);
        }
        Ok(taken)
    }

    /// Locks.
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
            Ok::<_, LockError>(true)
        };
        self.lock_by(lock).map(|_| ())
    }

    /// Locks if it is free; `false`: another thread owns it.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    #[inline]
    pub fn try_lock(&self) -> Result<bool, LockError> {
        self.lock_by(|mutex| Ok::<_, LockError>(mutex.try_lock()))
    }

    /// [`lock`](Self::lock), at most for `timeout`; `false`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_for(&self, timeout: Duration) -> Result<bool, LockError> {
        self.lock_by(|mutex| Ok::<_, LockError>(mutex.try_lock_for(timeout)))
    }

    /// [`lock`](Self::lock), at most until `deadline`; `false`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_until(&self, deadline: Instant) -> Result<bool, LockError> {
        self.lock_by(|mutex| Ok::<_, LockError>(mutex.try_lock_until(deadline)))
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`]: the running thread owns it already. [`LockError::Interrupted`]: it was interrupted, and the lock
    /// was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible(&self) -> Result<(), LockError> {
        self.lock_by(|mutex| mutex.acquire_interruptible(None)).map(|_| ())
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`; `false`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_for(&self, timeout: Duration) -> Result<bool, LockError> {
        self.lock_by(|mutex| mutex.acquire_interruptible(time::after(timeout)))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`; `false`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_until(&self, deadline: Instant) -> Result<bool, LockError> {
        self.lock_by(|mutex| mutex.acquire_interruptible(Some(deadline)))
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

    /// Unlocks.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then left as it is.
    #[inline]
    pub fn unlock(&self) -> Result<(), UnlockError> {
        self.check_owner()?;
        // SAFETY: the running thread owns it.
        unsafe { self.release() };
        Ok(())
    }

    /// [`unlock`](Self::unlock), and hands it to the next waiter, if there is one.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then left as it is.
    #[inline]
    pub fn unlock_fair(&self) -> Result<(), UnlockError> {
        self.check_owner()?;
        // SAFETY: the running thread owns it.
        unsafe { self.release_fair() };
        Ok(())
    }

    /// # Safety
    /// The caller has locked it.
    #[inline]
    pub(super) unsafe fn release(&self) {
        self.owner.clear();
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock() };
    }

    /// # Safety
    /// The caller has locked it.
    #[inline]
    pub(super) unsafe fn release_fair(&self) {
        self.owner.clear();
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock_fair() };
    }

    /// Whether somebody owns it, at this moment.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.mutex.is_locked()
    }

    /// Whether the running thread owns it.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.owner.look() == me()
    }
}

impl Default for RawCheckedMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawCheckedMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCheckedMutex").field("locked", &self.is_locked()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_checked.rs"]
mod loom_checked;
