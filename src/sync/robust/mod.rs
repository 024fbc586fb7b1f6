//! A mutual exclusion lock that outlives its owners, and says how they left.
//!
//! **Problem.** What a dead owner has left should be given to the next one, with the news. Where the owner has panicked, that is
//! simple: its guard is gone, and so is everything that was borrowed from it. Where a thread has ended and its guard was *leaked*, it is
//! not: `Box::leak(Box::new(guard))` gives a reference to the value that lives on in other threads, and nobody can tell it from a guard
//! that was forgotten.
//!
//! **Rejected.** *Giving the value all the same*: two threads with access to one value, in safe code. *Access by closures only*, so that there is
//! no guard to be leaked: a thread could then not end with the lock held at all, but locking that does not follow scopes is what
//! the lock is for. *Guards without shared references*: a borrow of the value outlives the guard just as well.
//!
//! So the news of an ended owner comes with an [`Orphan`]: the lock is held, and whether nobody has access to the value is for the
//! caller to say, by an `unsafe` call. [`RawRobustMutex`] has no value, and needs none of that.

mod raw;

use std::cell::UnsafeCell;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use crate::park::interrupt::Interrupted;
pub use raw::{Condition, RawRobustMutex};

/// Why a robust lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RobustError {
    /// An owner died, and its heir has unlocked without saying that it has mended what was left. Nobody can lock it again.
    NotRecoverable,
    /// The running thread owns the lock already, and would wait for itself.
    Deadlock,
    /// The running thread has been interrupted. (Only of waits that are called interruptible.)
    Interrupted,
}

impl fmt::Display for RobustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecoverable => f.pad("an owner of the lock died, and what it left has not been mended"),
            Self::Deadlock => f.pad("the thread owns the lock already, and would wait for itself"),
            Self::Interrupted => Interrupted.fmt(f),
        }
    }
}

impl Error for RobustError {}

/// A lock that protects a value, and says whether the last owner has left well.
///
/// If an owner panics, or its thread ends with the lock held (its guard was leaked), the next one gets the lock with the news: a
/// [`Legacy`]. It mends the value, and [says so](RobustMutexGuard::mark_sound). If it unlocks without saying so, all others get
/// [`RobustError::NotRecoverable`] from then on, those included that wait already. These are the semantics of POSIX's robust
/// mutexes, for threads of all kinds.
///
/// A thread has ended when its thread-locals have been destroyed. (A thread that Selvedge did not start: when it begins to destroy
/// those that it had before it first used a lock.) In the child of a fork, all threads of the parent have ended, but the one that
/// called `fork`.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Legacy, RobustMutex};
///
/// let account = RobustMutex::new((50, 50));
/// std::thread::scope(|s| {
///     let transfer = s.spawn(|| {
///         let mut account = account.lock().unwrap();
///         account.0 -= 10;
///         panic!("in the middle");
///     });
///     transfer.join().unwrap_err();
/// });
/// match account.lock()? {
///     Legacy::Sound(_) => unreachable!("it panicked with the lock held"),
///     Legacy::Panicked(mut account) => {
///         account.1 = 100 - account.0;
///         account.mark_sound();
///     }
///     Legacy::Orphan(_) => unreachable!("it did not leak its guard"),
/// }
/// assert_eq!(*account.lock()?.unwrap(), (40, 60));
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
#[derive(Default)]
pub struct RobustMutex<T: ?Sized> {
    raw: RawRobustMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, which may be another each time; so it must be `Send`.
unsafe impl<T: ?Sized + Send> Sync for RobustMutex<T> {}

/// What an owner of a [`RobustMutex`] gets: the lock, and how the one before has left.
#[must_use = "the lock is unlocked when this is dropped"]
pub enum Legacy<'a, T: ?Sized> {
    /// Well.
    Sound(RobustMutexGuard<'a, T>),
    /// By a panic. The value is to be mended.
    Panicked(RobustMutexGuard<'a, T>),
    /// Not at all: its thread has ended with the lock held. The value is to be mended, if nobody has access to it.
    Orphan(Orphan<'a, T>),
}

impl<T> RobustMutex<T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawRobustMutex::new(), value: UnsafeCell::new(value) }
    }

    /// The value, in whatever condition it is.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RobustMutex<T> {
    /// With the lock held by the running thread, which has found this.
    #[inline]
    fn legacy(&self, found: Condition) -> Legacy<'_, T> {
        let guard =
            RobustMutexGuard { mutex: self, panicking: std::thread::panicking(), not_send: PhantomData };
        match found {
            Condition::Sound => Legacy::Sound(guard),
            Condition::OwnerPanicked => Legacy::Panicked(guard),
            Condition::OwnerEnded => Legacy::Orphan(Orphan(guard)),
        }
    }

    /// Locks.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: an owner has not mended the value. [`RobustError::Deadlock`]: the running thread owns it
    /// already.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> Result<Legacy<'_, T>, RobustError> {
        self.raw.lock().map(|found| self.legacy(found))
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn try_lock(&self) -> Result<Option<Legacy<'_, T>>, RobustError> {
        self.raw.try_lock().map(|found| found.map(|found| self.legacy(found)))
    }

    /// [`lock`](Self::lock), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_for(&self, timeout: Duration) -> Result<Option<Legacy<'_, T>>, RobustError> {
        self.raw.try_lock_for(timeout).map(|found| found.map(|found| self.legacy(found)))
    }

    /// [`lock`](Self::lock), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_until(&self, deadline: Instant) -> Result<Option<Legacy<'_, T>>, RobustError> {
        self.raw.try_lock_until(deadline).map(|found| found.map(|found| self.legacy(found)))
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and [`RobustError::Interrupted`]: the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible(&self) -> Result<Legacy<'_, T>, RobustError> {
        self.raw.lock_interruptible().map(|found| self.legacy(found))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<Legacy<'_, T>>, RobustError> {
        self.raw.lock_interruptible_for(timeout).map(|found| found.map(|found| self.legacy(found)))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_until(&self, deadline: Instant) -> Result<Option<Legacy<'_, T>>, RobustError> {
        self.raw.lock_interruptible_until(deadline).map(|found| found.map(|found| self.legacy(found)))
    }

    /// The value, without locking: nobody else has access to it. In whatever condition it is.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Whether somebody owns it, at this moment; an owner that has ended counts.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// Whether the running thread owns it.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.raw.is_owned_by_current_thread()
    }

    /// Whether nobody can lock it any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.raw.is_lost()
    }
}

impl<T> From<T> for RobustMutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// Does not lock: that would take a legacy.
impl<T: ?Sized> fmt::Debug for RobustMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobustMutex")
            .field("locked", &self.is_locked())
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

impl<'a, T: ?Sized> Legacy<'a, T> {
    /// The guard, of an owner that expects no other.
    ///
    /// # Panics
    ///
    /// If the last owner has not left well. (The news is then for the next one.)
    #[track_caller]
    pub fn unwrap(self) -> RobustMutexGuard<'a, T> {
        match self {
            Self::Sound(guard) => guard,
            legacy => panic!("{}", legacy.refuse()),
        }
    }

    /// Unlocks, and leaves the value and the news, which this gives in words, to the next owner.
    pub fn refuse(self) -> &'static str {
        let (guard, news) = match self {
            Self::Sound(guard) => (guard, "the last owner of the lock has left well"),
            Self::Panicked(guard) => (guard, "the last owner of the lock has panicked"),
            Self::Orphan(Orphan(guard)) => (guard, "the last owner of the lock has ended with it"),
        };
        let mutex = guard.mutex;
        std::mem::forget(guard);
        mutex.raw.pass_on();
        news
    }

    /// In what condition the value is.
    pub fn condition(&self) -> Condition {
        match self {
            Self::Sound(_) => Condition::Sound,
            Self::Panicked(_) => Condition::OwnerPanicked,
            Self::Orphan(_) => Condition::OwnerEnded,
        }
    }
}

impl<T: ?Sized> fmt::Debug for Legacy<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Legacy").field(&self.condition()).finish()
    }
}

/// A locked [`RobustMutex`] whose last owner has ended with the lock held. Dropped, it is lost.
#[must_use = "the lock is lost when this is dropped"]
pub struct Orphan<'a, T: ?Sized>(RobustMutexGuard<'a, T>);

impl<'a, T: ?Sized> Orphan<'a, T> {
    /// Access to the value, which is to be mended.
    ///
    /// # Safety
    ///
    /// Nobody has access to the value by the guard of an owner that has ended: not by what was borrowed from one that was leaked, nor by one
    /// in a thread-local that is yet to be destroyed. (A guard that was forgotten, by [`mem::forget`](std::mem::forget), gives access
    /// to nobody.)
    pub unsafe fn adopt(self) -> RobustMutexGuard<'a, T> {
        self.0
    }

    /// The lock.
    #[must_use]
    pub fn mutex(&self) -> &'a RobustMutex<T> {
        self.0.mutex
    }
}

impl<T: ?Sized> fmt::Debug for Orphan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphan").finish_non_exhaustive()
    }
}

/// Access to the value of a locked [`RobustMutex`]; unlocks it when dropped.
///
/// Dropped by a panic, it leaves the value to be mended by the next owner.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct RobustMutexGuard<'a, T: ?Sized> {
    mutex: &'a RobustMutex<T>,
    /// Its thread was unwinding when it locked.
    panicking: bool,
    /// The owner is a thread.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for RobustMutexGuard<'_, T> {}

impl<'a, T: ?Sized> RobustMutexGuard<'a, T> {
    /// Says that the value is as it should be; `false`: it was already.
    pub fn mark_sound(&mut self) -> bool {
        self.mutex.raw.mark_sound()
    }

    /// The lock that it unlocks.
    #[must_use]
    pub fn mutex(this: &Self) -> &'a RobustMutex<T> {
        this.mutex
    }
}

impl<T: ?Sized> Deref for RobustMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and what this borrows is the guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RobustMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and there is one guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for RobustMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // It is refused where the thread has been taken for ended before its last destructors: there is an heir by then.
        let _ = self.mutex.raw.unlock_by(std::thread::panicking() && !self.panicking);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RobustMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RobustMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
