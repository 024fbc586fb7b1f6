//! Permits that keep their semaphore alive.

use std::mem;
use std::sync::Arc;

use super::{Semaphore, sum};
use crate::park::wait::{Wait, WaitError, timed};

/// A [`SemaphorePermit`](super::SemaphorePermit) that shares the ownership of its semaphore, and so may
/// go anywhere.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Semaphore;
/// use std::sync::Arc;
///
/// let semaphore = Arc::new(Semaphore::new(2));
/// let workers: Vec<_> = (0..4)
///     .map(|n| {
///         let permit = semaphore.acquire_owned();
///         std::thread::spawn(move || {
///             let _permit = permit;
///             n * n
///         })
///     })
///     .collect();
/// let squares: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
/// assert_eq!((squares, semaphore.available_permits()), (14, 2));
/// ```
#[must_use = "the permits go back as soon as it is dropped"]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

/// Methods that take [permits that keep the semaphore alive](OwnedSemaphorePermit). Otherwise each is
/// like the method of its name without `_owned`.
impl Semaphore {
    /// [`acquire`](Self::acquire), of a permit that keeps the semaphore alive.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_owned(self: &Arc<Self>) -> OwnedSemaphorePermit {
        self.acquire_many_owned(1)
    }

    /// [`try_acquire`](Self::try_acquire), of a permit that keeps the semaphore alive.
    pub fn try_acquire_owned(self: &Arc<Self>) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many_owned(1)
    }

    timed! {
        acquire_owned
        pub fn try_acquire_owned_for, try_acquire_owned_until(self: &Arc<Self>)
            -> Option<OwnedSemaphorePermit>
        {
            |limit| self.take_by(1, limit).then(|| OwnedSemaphorePermit::new(self, 1))
        }
    }

    /// [`acquire_with`](Self::acquire_with), of a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_owned_with(self: &Arc<Self>, wait: Wait) -> Result<OwnedSemaphorePermit, WaitError> {
        self.acquire_many_owned_with(1, wait)
    }

    /// [`acquire_many`](Self::acquire_many), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_many_owned(self: &Arc<Self>, n: usize) -> OwnedSemaphorePermit {
        let _ = self.protocol.take(n, Wait::forever());
        OwnedSemaphorePermit::new(self, n)
    }

    /// [`try_acquire_many`](Self::try_acquire_many), of permits that keep the semaphore alive.
    pub fn try_acquire_many_owned(self: &Arc<Self>, n: usize) -> Option<OwnedSemaphorePermit> {
        self.protocol.try_take(n).then(|| OwnedSemaphorePermit::new(self, n))
    }

    timed! {
        acquire_many_owned
        /// # Panics
        ///
        /// As [`acquire_many`](Self::acquire_many).
        pub fn try_acquire_many_owned_for, try_acquire_many_owned_until(self: &Arc<Self>, n: usize)
            -> Option<OwnedSemaphorePermit>
        {
            |limit| self.take_by(n, limit).then(|| OwnedSemaphorePermit::new(self, n))
        }
    }

    /// [`acquire_many_with`](Self::acquire_many_with), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_many_owned_with(
        self: &Arc<Self>,
        n: usize,
        wait: Wait,
    ) -> Result<OwnedSemaphorePermit, WaitError> {
        wait.run(|wait| self.protocol.take(n, wait)).map(|()| OwnedSemaphorePermit::new(self, n))
    }
}

impl OwnedSemaphorePermit {
    fn new(semaphore: &Arc<Semaphore>, permits: usize) -> Self {
        Self { semaphore: Arc::clone(semaphore), permits }
    }

    crate::shown::getters! {
        /// Returns how many permits these are.
        fn num_permits(&self) -> usize = self.permits;
        /// Returns the semaphore that they were taken from.
        fn semaphore(&self) -> &Arc<Semaphore> = &self.semaphore;
    }

    /// Forgets the permits: they are not put back. [`Semaphore::add_permits`] makes new ones.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Splits `n` of these permits off, as a value of their own; `None` if there are not so many.
    #[must_use]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self::new(&self.semaphore, n))
    }

    /// Adds the permits of `other` to these.
    ///
    /// # Panics
    ///
    /// If `other` comes from another semaphore. Both are then dropped as usual.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.semaphore, &other.semaphore), "permits of two semaphores");
        self.permits = sum(self.permits, mem::take(&mut other.permits));
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        // Nothing is left of permits that were forgotten or merged.
        if self.permits != 0 {
            self.semaphore.protocol.give_back(self.permits);
        }
    }
}

crate::shown::debug! {
    [] OwnedSemaphorePermit: "OwnedSemaphorePermit", "permits": |permit| permit.permits
}
