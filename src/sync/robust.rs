//! A mutual exclusion lock that outlives its owners, and says how they left.
//!
//! **Problem.** What a dead owner has left should go to the next one, with the news. If the owner has
//! panicked, that is simple: its guard is gone, and so is everything that was borrowed from it. If a
//! thread has ended and *leaked* its guard, it is not. `Box::leak(Box::new(guard))` gives a reference to
//! the value that lives on in other threads. It cannot be told from a guard that was forgotten.
//!
//! **Rejected.**
//!
//! - *Giving the value all the same*: two threads would have access to one value, in safe code.
//! - *Access by closures only*, so that no guard can be leaked: a thread could then not end with the lock
//!   held at all. But the lock is for locking that does not follow scopes.
//! - *Guards without shared references*: a borrow of the value outlives the guard just as well.
//!
//! So if the owner has ended, `lock` returns an [`Abandoned`]. The lock is held then. The caller must state,
//! by an `unsafe` call, that no other thread has access to the value. [`RawRobustMutex`] has no value, and
//! needs none of that.
//!
//! What is here serves two kinds of lock: [`RobustMutex`] and
//! [`process_shared::Mutex`](super::process_shared::Mutex).

mod condition;
mod raw;
pub(super) mod traits;

use std::fmt;

use super::lock::{Entered, Guard, Lock, MappedGuard, RawLock};
use crate::park::wait::{Wait, timed};

pub(super) use condition::ConditionWord;
pub use condition::{Condition, RobustError};
pub use raw::RawRobustMutex;
pub use traits::RawRobust;

/// A lock that protects a value, and tells if the last owner has left it sound.
///
/// An owner may panic, or its thread may end with the lock held (its guard was leaked). The next owner then
/// gets the lock with the news: an [`Acquired`]. It mends the value, and [says so](Guard::mark_consistent).
/// If it unlocks without saying so, all others get [`RobustError::NotRecoverable`] from then on, also those
/// that wait already. These are the semantics of POSIX's robust mutexes, for threads of all kinds.
///
/// A thread has ended when its thread-locals have been destroyed. If Selvedge did not start the thread, the
/// values of some pthread keys may be left. In the child of a fork, all threads of the parent have ended
/// except the one that called `fork`.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Acquired, RobustMutex};
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
///     Acquired::Consistent(_) => unreachable!("it panicked with the lock held"),
///     Acquired::OwnerPanicked(mut account) => {
///         account.1 = 100 - account.0;
///         account.mark_consistent();
///     }
///     _ => unreachable!("it did not leak its guard"),
/// }
/// assert_eq!(*account.lock()?.unwrap(), (40, 60));
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
pub type RobustMutex<T> = Lock<RawRobustMutex, T>;

/// Access to the value of a locked [`RobustMutex`]. Dropping it unlocks the mutex.
///
/// If a panic drops it, the next owner must mend the value.
pub type RobustMutexGuard<'a, T> = Guard<'a, RawRobustMutex, T>;

/// Access to a part of the value of a locked [`RobustMutex`], made by [`RobustMutexGuard::map`]. Dropping it
/// unlocks the mutex.
///
/// If a panic drops it, the next owner must mend the value. If the value had to be mended, call
/// [`mark_consistent`](Guard::mark_consistent) before `map`.
pub type MappedRobustMutexGuard<'a, T> = MappedGuard<'a, RawRobustMutex, T>;

impl<R: RawRobust> RawLock for R {
    type State = ();
    type Entry = Entered;

    #[inline]
    fn enter() -> Entered {
        Entered::now()
    }

    #[inline]
    unsafe fn leave(&self, (): &(), entered: Entered) {
        // If the thread was considered ended before its last destructors ran, another thread owns the lock by
        // now, and the release is refused.
        let _ = self.release(entered.has_panicked_since());
    }
}

/// What a new owner of a [`Lock`] gets: the lock, and how the last owner left it.
#[must_use = "the lock is unlocked when this is dropped"]
pub enum Acquired<'a, R: RawRobust, T: ?Sized> {
    /// The last owner unlocked it as usual.
    Consistent(Guard<'a, R, T>),
    /// The last owner panicked. The value is to be mended.
    OwnerPanicked(Guard<'a, R, T>),
    /// The process of the last owner ended. The value is to be mended. (Only of locks that processes
    /// share.)
    ProcessDied(Guard<'a, R, T>),
    /// The thread of the last owner ended with the lock held. If no other thread has access to the value,
    /// it is to be mended.
    OwnerDied(Abandoned<'a, R, T>),
}

impl<T> Lock<RawRobustMutex, T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_raw(RawRobustMutex::new(), value)
    }
}

impl<R: RawRobust, T> Lock<R, T> {
    /// Returns the value, in whatever condition it is.
    pub fn into_inner(self) -> T {
        self.into_parts().1
    }
}

impl<R: RawRobust, T: ?Sized> Lock<R, T> {
    /// Makes what a new owner gets. The running thread holds the lock, and has found this condition.
    #[inline]
    fn acquired(&self, found: Condition) -> Acquired<'_, R, T> {
        // SAFETY: called with what an acquire by the running thread has found.
        unsafe { self.guard() }.with(found)
    }

    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: an owner has not mended the value. [`RobustError::Deadlock`]: the
    /// running thread owns the lock already.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn lock(&self) -> Result<Acquired<'_, R, T>, RobustError> {
        self.raw().lock().map(|found| self.acquired(found))
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn try_lock(&self) -> Result<Option<Acquired<'_, R, T>>, RobustError> {
        self.raw().try_lock().map(|found| found.map(|found| self.acquired(found)))
    }

    timed! {
        lock: "; `None`: another thread has owned it all the time"
        /// # Errors
        ///
        /// As [`lock`](Self::lock).
        pub fn try_lock_for, try_lock_until(&self) -> Result<Option<Acquired<'_, R, T>>, RobustError> {
            |limit| self.raw().acquire_by(limit()).map(|found| found.map(|found| self.acquired(found)))
        }
    }

    /// [`lock`](Self::lock) that ends as `wait` says.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`RobustError::TimedOut`] or [`RobustError::Interrupted`]: the wait has
    /// ended, and the lock was not taken.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{RobustError, RobustMutex};
    /// use selvedge::{Wait, thread};
    ///
    /// let mutex = RobustMutex::new(1);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(mutex.lock_with(wait).unwrap_err(), RobustError::Interrupted);
    /// assert_eq!(*mutex.lock_with(wait)?.unwrap(), 1);
    /// # Ok::<(), RobustError>(())
    /// ```
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_with(&self, wait: Wait) -> Result<Acquired<'_, R, T>, RobustError> {
        self.raw().lock_with(wait).map(|found| self.acquired(found))
    }

    /// Returns the value, in whatever condition it is, without locking: no other thread has access to it.
    pub fn get_mut(&mut self) -> &mut T {
        self.parts_mut().1
    }

    crate::shown::getters! {
        /// Returns `true` if a thread owns it at this moment; an owner that has ended counts.
        fn is_locked(&self) -> bool = self.raw().is_locked();
        /// Returns `true` if the running thread owns it.
        fn is_owned_by_current_thread(&self) -> bool = self.raw().is_owned_by_current_thread();
        /// Returns `true` if no thread can lock it again.
        fn is_not_recoverable(&self) -> bool = self.raw().is_not_recoverable();
    }
}

// Shown without being locked, which would take the news.
crate::shown::debug! {
    [R: RawRobust, T: ?Sized] Lock<R, T>: "Lock",
    "locked": |lock| lock.is_locked(),
    "not_recoverable": |lock| lock.is_not_recoverable()
}

impl<'a, R: RawRobust, T: ?Sized> Acquired<'a, R, T> {
    /// Returns the guard, if the last owner has left the lock sound.
    ///
    /// # Panics
    ///
    /// If it has not. The news is then for the next owner.
    #[track_caller]
    pub fn unwrap(self) -> Guard<'a, R, T> {
        match self {
            Self::Consistent(guard) => guard,
            acquired => panic!("{}", acquired.refuse()),
        }
    }

    /// Unlocks, and leaves the value and the news to the next owner. Returns the news in words.
    pub fn refuse(self) -> &'static str {
        let (guard, news) = match self {
            Self::Consistent(guard) => (guard, "the last owner of the lock has left well"),
            Self::OwnerPanicked(guard) => (guard, "the last owner of the lock has panicked"),
            Self::ProcessDied(guard) => (guard, "the process of the last owner of the lock has ended"),
            Self::OwnerDied(Abandoned(guard)) => (guard, "the last owner of the lock has ended with it"),
        };
        let mutex = Guard::mutex(&guard);
        std::mem::forget(guard);
        mutex.raw().pass_on();
        news
    }

    /// Returns the condition of the value.
    pub fn condition(&self) -> Condition {
        match self {
            Self::Consistent(_) => Condition::Consistent,
            Self::OwnerPanicked(_) => Condition::OwnerPanicked,
            Self::ProcessDied(_) => Condition::ProcessDied,
            Self::OwnerDied(_) => Condition::OwnerDied,
        }
    }
}

impl<R: RawRobust, T: ?Sized> fmt::Debug for Acquired<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acquired").field(&self.condition()).finish()
    }
}

/// A locked [`Lock`]; its last owner has ended with the lock held. If this is dropped, the lock is lost.
#[must_use = "the lock is lost when this is dropped"]
pub struct Abandoned<'a, R: RawRobust, T: ?Sized>(Guard<'a, R, T>);

impl<'a, R: RawRobust, T: ?Sized> Abandoned<'a, R, T> {
    /// Returns a guard of the value, which is to be mended.
    ///
    /// # Safety
    ///
    /// No thread has access to the value by the guard of an owner that has ended. Such access could be a
    /// borrow from a guard that was leaked, or a guard in a thread-local that is yet to be destroyed. (A
    /// guard that was forgotten, by [`mem::forget`](std::mem::forget), gives no access.)
    pub unsafe fn adopt(self) -> Guard<'a, R, T> {
        self.0
    }

    /// Returns the lock.
    #[must_use]
    pub fn mutex(&self) -> &'a Lock<R, T> {
        Guard::mutex(&self.0)
    }
}

crate::shown::debug! { [R: RawRobust, T: ?Sized] Abandoned<'_, R, T>: "Abandoned" }

impl<'a, R: RawRobust, T: ?Sized> Guard<'a, R, T> {
    /// Notes that the value is as it should be. Returns `false` if it was already.
    pub fn mark_consistent(&mut self) -> bool {
        Self::mutex(self).raw().mark_consistent()
    }

    #[inline]
    fn with(self, found: Condition) -> Acquired<'a, R, T> {
        match found {
            Condition::Consistent => Acquired::Consistent(self),
            Condition::OwnerPanicked => Acquired::OwnerPanicked(self),
            Condition::ProcessDied => Acquired::ProcessDied(self),
            Condition::OwnerDied => Acquired::OwnerDied(Abandoned(self)),
        }
    }

    /// Returns the guard with the news that it came with, unless its owner has mended the value.
    pub(super) fn into_acquired(self) -> Acquired<'a, R, T> {
        let found = Self::mutex(&self).raw().condition().look().expect("what is lost has no owner");
        self.with(found)
    }
}
