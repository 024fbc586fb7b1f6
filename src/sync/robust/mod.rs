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

//!
//! The types here are generic over the raw lock; [`RobustMutex`] and [`shared::Mutex`](super::shared::Mutex) are
//! what one uses.

mod condition;
mod mapped;
mod raw;
mod traits;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

pub(super) use condition::ConditionWord;
pub use condition::{Condition, RobustError};
pub use mapped::MappedGuard;
pub use raw::RawRobustMutex;
pub use traits::RawRobust;
pub(super) use traits::Steps;

/// A lock between the threads of one process. See [`Lock`].
pub type RobustMutex<T> = Lock<RawRobustMutex, T>;

/// Access to the value of a locked [`RobustMutex`]. See [`Guard`].
pub type RobustMutexGuard<'a, T> = Guard<'a, RawRobustMutex, T>;

/// A lock that protects a value, and says whether the last owner has left well.
///
/// If an owner panics, or its thread ends with the lock held (its guard was leaked), the next one gets the lock with the news: a
/// [`Legacy`]. It mends the value, and [says so](Guard::mark_sound). If it unlocks without saying so, all others get
/// [`RobustError::NotRecoverable`] from then on, those included that wait already. These are the semantics of POSIX's robust
/// mutexes, for threads of all kinds.
///
/// A thread has ended when its thread-locals have been destroyed. (If Selvedge did not start the thread, the
/// values of some pthread keys may be left.) In the child of a fork, all threads of the parent have ended
/// except the one that called `fork`.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Legacy, RobustMutex};
///
/// let account = RobustMutex::new((50, 50));
/// std::thread::scope(|s| {
///     let transfer = s.spawn(|| {
///         let mut account = account.lock().unwrap().unwrap();
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
///     _ => unreachable!("it did not leak its guard"),
/// }
/// assert_eq!(*account.lock()?.unwrap(), (40, 60));
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
#[derive(Default)]
#[repr(C)]
pub struct Lock<R, T: ?Sized> {
    raw: R,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, which may be another each time; so it must be `Send`.
unsafe impl<R: Sync, T: ?Sized + Send> Sync for Lock<R, T> {}

/// What an owner of a [`Lock`] gets: the lock, and how the one before has left.
#[must_use = "the lock is unlocked when this is dropped"]
pub enum Legacy<'a, R: RawRobust, T: ?Sized> {
    /// Well.
    Sound(Guard<'a, R, T>),
    /// By a panic. The value is to be mended.
    Panicked(Guard<'a, R, T>),
    /// By the end of its process. The value is to be mended. (Only of locks that processes share.)
    Killed(Guard<'a, R, T>),
    /// Not at all: its thread has ended with the lock held. The value is to be mended, if nobody has access to it.
    Orphan(Orphan<'a, R, T>),
}

impl<T> Lock<RawRobustMutex, T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_raw(RawRobustMutex::new(), value)
    }
}

impl<R, T> Lock<R, T> {
    /// A lock around `value`, by `raw`, which is free.
    #[must_use]
    pub const fn from_raw(raw: R, value: T) -> Self {
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// The value, in whatever condition it is.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RobustMutex<T> {
    /// Where the waiters are.
    pub(super) fn key(&self) -> usize {
        self.raw.key()
    }
}

impl<R: RawRobust, T: ?Sized> Lock<R, T> {
    /// With the lock held by the running thread, which has found this.
    #[inline]
    fn legacy(&self, found: Condition) -> Legacy<'_, R, T> {
        Guard { mutex: self, panicking: std::thread::panicking(), not_send: PhantomData }.with(found)
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
    pub fn lock(&self) -> Result<Legacy<'_, R, T>, RobustError> {
        self.raw.lock().map(|found| self.legacy(found))
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn try_lock(&self) -> Result<Option<Legacy<'_, R, T>>, RobustError> {
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
    pub fn try_lock_for(&self, timeout: Duration) -> Result<Option<Legacy<'_, R, T>>, RobustError> {
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
    pub fn try_lock_until(&self, deadline: Instant) -> Result<Option<Legacy<'_, R, T>>, RobustError> {
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
    pub fn lock_interruptible(&self) -> Result<Legacy<'_, R, T>, RobustError> {
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
    pub fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<Legacy<'_, R, T>>, RobustError> {
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
    pub fn lock_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<Legacy<'_, R, T>>, RobustError> {
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

impl<R: Default, T> From<T> for Lock<R, T> {
    fn from(value: T) -> Self {
        Self::from_raw(R::default(), value)
    }
}

/// Does not lock: that would take a legacy.
impl<R: RawRobust, T: ?Sized> fmt::Debug for Lock<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("locked", &self.is_locked())
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

impl<'a, R: RawRobust, T: ?Sized> Legacy<'a, R, T> {
    /// The guard, of an owner that expects no other.
    ///
    /// # Panics
    ///
    /// If the last owner has not left well. (The news is then for the next one.)
    #[track_caller]
    pub fn unwrap(self) -> Guard<'a, R, T> {
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
            Self::Killed(guard) => (guard, "the process of the last owner of the lock has ended"),
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
            Self::Killed(_) => Condition::OwnerKilled,
            Self::Orphan(_) => Condition::OwnerEnded,
        }
    }
}

impl<R: RawRobust, T: ?Sized> fmt::Debug for Legacy<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Legacy").field(&self.condition()).finish()
    }
}

/// A locked [`Lock`] whose last owner has ended with the lock held. Dropped, it is lost.
#[must_use = "the lock is lost when this is dropped"]
pub struct Orphan<'a, R: RawRobust, T: ?Sized>(Guard<'a, R, T>);

impl<'a, R: RawRobust, T: ?Sized> Orphan<'a, R, T> {
    /// Access to the value, which is to be mended.
    ///
    /// # Safety
    ///
    /// Nobody has access to the value by the guard of an owner that has ended: not by what was borrowed from one that was leaked, nor by one
    /// in a thread-local that is yet to be destroyed. (A guard that was forgotten, by [`mem::forget`](std::mem::forget), gives access
    /// to nobody.)
    pub unsafe fn adopt(self) -> Guard<'a, R, T> {
        self.0
    }

    /// The lock.
    #[must_use]
    pub fn mutex(&self) -> &'a Lock<R, T> {
        self.0.mutex
    }
}

impl<R: RawRobust, T: ?Sized> fmt::Debug for Orphan<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphan").finish_non_exhaustive()
    }
}

/// Access to the value of a locked [`Lock`]; unlocks it when dropped.
///
/// Dropped by a panic, it leaves the value to be mended by the next owner.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct Guard<'a, R: RawRobust, T: ?Sized> {
    mutex: &'a Lock<R, T>,
    /// Its thread was unwinding when it locked.
    panicking: bool,
    /// The owner is a thread.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<R: RawRobust + Sync, T: ?Sized + Sync> Sync for Guard<'_, R, T> {}

impl<'a, R: RawRobust, T: ?Sized> Guard<'a, R, T> {
    /// Says that the value is as it should be; `false`: it was already.
    pub fn mark_sound(&mut self) -> bool {
        self.mutex.raw.mark_sound()
    }

    #[inline]
    fn with(self, found: Condition) -> Legacy<'a, R, T> {
        match found {
            Condition::Sound => Legacy::Sound(self),
            Condition::OwnerPanicked => Legacy::Panicked(self),
            Condition::OwnerKilled => Legacy::Killed(self),
            Condition::OwnerEnded => Legacy::Orphan(Orphan(self)),
        }
    }

    /// The guard, and the news that it came with, if its owner has not mended the value.
    pub(super) fn into_legacy(self) -> Legacy<'a, R, T> {
        let found = self.mutex.raw.condition().look().expect("what is lost has no owner");
        self.with(found)
    }

    /// The lock that it unlocks.
    #[must_use]
    pub fn mutex(this: &Self) -> &'a Lock<R, T> {
        this.mutex
    }
}

impl<R: RawRobust, T: ?Sized> Deref for Guard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and what this borrows is the guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<R: RawRobust, T: ?Sized> DerefMut for Guard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and there is one guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<R: RawRobust, T: ?Sized> Drop for Guard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // It is refused where the thread has been taken for ended before its last destructors: there is an heir by then.
        let _ = self.mutex.raw.release(std::thread::panicking() && !self.panicking);
    }
}

impl<R: RawRobust, T: ?Sized + fmt::Debug> fmt::Debug for Guard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: RawRobust, T: ?Sized + fmt::Display> fmt::Display for Guard<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
