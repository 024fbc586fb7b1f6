//! `LockInterruptible`: locking a [`Mutex`] in a way that an interrupt can end.
//!
//! A trait, because the mutex is `lock_api`'s type, to which this crate cannot add methods. It is one trait for all mutexes, that of programs' own
//! models among them: the [`ReentrantMutex`](crate::sync::ReentrantMutex) beside that is the real thing.

use std::time::{Duration, Instant};

use super::{Mutex, MutexGuard};
use crate::park::interrupt::Interrupted;
use crate::time;

pub(in crate::sync) mod sealed {
    pub trait Sealed {}
}

impl<T: ?Sized> sealed::Sealed for Mutex<T> {}

/// Locks that a thread can be kept from waiting for, by [`Thread::interrupt`](crate::thread::Thread::interrupt).
///
/// A thread that has been interrupted gets the error whether or not the lock is free. One that is handed the lock in the same
/// moment as it is interrupted has the lock, and the interrupt is left for its next wait.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{LockInterruptible, Mutex};
/// use selvedge::{OneToOne, Runtime};
/// use std::sync::Arc;
///
/// let rt = OneToOne::new()?;
/// let mutex = Arc::new(Mutex::new(1));
/// let guard = mutex.lock();
/// let waiter = rt.spawn({
///     let mutex = Arc::clone(&mutex);
///     move || mutex.lock_interruptible().map(|value| *value)
/// });
/// waiter.thread().interrupt();
/// assert!(waiter.join().unwrap().is_err());
/// assert_eq!(*guard, 1);
/// # std::io::Result::Ok(())
/// ```
pub trait LockInterruptible: sealed::Sealed {
    /// What unlocks it.
    type Guard<'a>
    where
        Self: 'a;

    /// Locks, unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn lock_interruptible(&self) -> Result<Self::Guard<'_>, Interrupted>;

    /// [`lock_interruptible`](Self::lock_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<Self::Guard<'_>>, Interrupted>;

    /// [`lock_interruptible`](Self::lock_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    fn lock_interruptible_until(&self, deadline: Instant) -> Result<Option<Self::Guard<'_>>, Interrupted>;
}

impl<T: ?Sized> LockInterruptible for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;

    #[inline]
    fn lock_interruptible(&self) -> Result<MutexGuard<'_, T>, Interrupted> {
        lock_until(self, None).map(|guard| guard.expect("a wait without a deadline ends with the lock"))
    }

    fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<MutexGuard<'_, T>>, Interrupted> {
        lock_until(self, time::after(timeout))
    }

    fn lock_interruptible_until(&self, deadline: Instant) -> Result<Option<MutexGuard<'_, T>>, Interrupted> {
        lock_until(self, Some(deadline))
    }
}

#[inline]
fn lock_until<T: ?Sized>(
    mutex: &Mutex<T>,
    deadline: Option<Instant>,
) -> Result<Option<MutexGuard<'_, T>>, Interrupted> {
    // SAFETY: only `acquire_interruptible` is called.
    let locked = unsafe { mutex.raw() }.acquire_interruptible(deadline)?;
    // SAFETY: it has just been locked by this thread, which has no other guard of it.
    Ok(locked.then(|| unsafe { mutex.make_guard_unchecked() }))
}

crate::shim::swap! {
    {}
    {
        use crate::shim::model;

        impl<T: ?Sized> sealed::Sealed for model::Mutex<T> {}

        /// Nobody is interrupted.
        impl<T: ?Sized> LockInterruptible for model::Mutex<T> {
            type Guard<'a>
                = model::MutexGuard<'a, T>
            where
                Self: 'a;

            fn lock_interruptible(&self) -> Result<model::MutexGuard<'_, T>, Interrupted> {
                Ok(self.lock())
            }

            fn lock_interruptible_for(
                &self,
                timeout: Duration,
            ) -> Result<Option<model::MutexGuard<'_, T>>, Interrupted> {
                Ok(self.try_lock_for(timeout))
            }

            fn lock_interruptible_until(
                &self,
                deadline: Instant,
            ) -> Result<Option<model::MutexGuard<'_, T>>, Interrupted> {
                Ok(self.try_lock_until(deadline))
            }
        }
    }
}
