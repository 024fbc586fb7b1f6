//! Permits that keep their semaphore alive.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Semaphore, permit};
use crate::park::interrupt::Interrupted;
use crate::time;

/// [`SemaphorePermit`](super::SemaphorePermit) that shares the ownership of its semaphore, and so may go anywhere.
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

/// Taking [permits that keep the semaphore alive](OwnedSemaphorePermit). Each is its namesake without `_owned` in all else.
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

    /// [`try_acquire_for`](Self::try_acquire_for), of a permit that keeps the semaphore alive.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_owned_for(self: &Arc<Self>, timeout: Duration) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many_owned_for(1, timeout)
    }

    /// [`try_acquire_until`](Self::try_acquire_until), of a permit that keeps the semaphore alive.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_owned_until(self: &Arc<Self>, deadline: Instant) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many_owned_until(1, deadline)
    }

    /// [`acquire_interruptible`](Self::acquire_interruptible), of a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_owned_interruptible(self: &Arc<Self>) -> Result<OwnedSemaphorePermit, Interrupted> {
        self.acquire_many_owned_interruptible(1)
    }

    /// [`acquire_interruptible_for`](Self::acquire_interruptible_for), of a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_owned_interruptible_for(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, Interrupted> {
        self.acquire_many_owned_interruptible_for(1, timeout)
    }

    /// [`acquire_interruptible_until`](Self::acquire_interruptible_until), of a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_owned_interruptible_until(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, Interrupted> {
        self.acquire_many_owned_interruptible_until(1, deadline)
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
        self.protocol.take(n, None);
        OwnedSemaphorePermit::new(self, n)
    }

    /// [`try_acquire_many`](Self::try_acquire_many), of permits that keep the semaphore alive.
    pub fn try_acquire_many_owned(self: &Arc<Self>, n: usize) -> Option<OwnedSemaphorePermit> {
        self.protocol.try_take(n).then(|| OwnedSemaphorePermit::new(self, n))
    }

    /// [`try_acquire_many_for`](Self::try_acquire_many_for), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_many_owned_for(
        self: &Arc<Self>,
        n: usize,
        timeout: Duration,
    ) -> Option<OwnedSemaphorePermit> {
        self.protocol.take_for(n, timeout).then(|| OwnedSemaphorePermit::new(self, n))
    }

    /// [`try_acquire_many_until`](Self::try_acquire_many_until), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_many_owned_until(
        self: &Arc<Self>,
        n: usize,
        deadline: Instant,
    ) -> Option<OwnedSemaphorePermit> {
        self.protocol.take(n, Some(deadline)).then(|| OwnedSemaphorePermit::new(self, n))
    }

    /// [`acquire_many_interruptible`](Self::acquire_many_interruptible), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_many_owned_interruptible(
        self: &Arc<Self>,
        n: usize,
    ) -> Result<OwnedSemaphorePermit, Interrupted> {
        self.protocol.take_interruptible(n, None).map(|_| OwnedSemaphorePermit::new(self, n))
    }

    /// [`acquire_many_interruptible_for`](Self::acquire_many_interruptible_for), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_many_owned_interruptible_for(
        self: &Arc<Self>,
        n: usize,
        timeout: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, Interrupted> {
        let taken = self.protocol.take_interruptible(n, time::after(timeout))?;
        Ok(taken.then(|| OwnedSemaphorePermit::new(self, n)))
    }

    /// [`acquire_many_interruptible_until`](Self::acquire_many_interruptible_until), of permits that keep the semaphore alive.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_many_owned_interruptible_until(
        self: &Arc<Self>,
        n: usize,
        deadline: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, Interrupted> {
        let taken = self.protocol.take_interruptible(n, Some(deadline))?;
        Ok(taken.then(|| OwnedSemaphorePermit::new(self, n)))
    }
}

impl OwnedSemaphorePermit {
    fn new(semaphore: &Arc<Semaphore>, permits: usize) -> Self {
        Self { semaphore: Arc::clone(semaphore), permits }
    }

    /// How many permits these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// The semaphore that they were taken from.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Does not put the permits back. [`Semaphore::add_permits`] makes new ones.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Takes `n` of these permits out, as a value of their own; `None` if there are not so many.
    #[must_use]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self::new(&self.semaphore, n))
    }

    /// Puts the permits of `other` to these.
    ///
    /// # Panics
    ///
    /// If `other` comes from another semaphore. Both are then dropped as usual.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.semaphore, &other.semaphore), "permits of two semaphores");
        self.permits = permit::sum(self.permits, mem::take(&mut other.permits));
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        // None are left of what was forgotten or merged.
        if self.permits != 0 {
            self.semaphore.protocol.give_back(self.permits);
        }
    }
}

impl fmt::Debug for OwnedSemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSemaphorePermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}
