//! Taking permits in a way that an interrupt can end.

use std::time::{Duration, Instant};

use super::{Semaphore, SemaphorePermit};
use crate::park::interrupt::Interrupted;
use crate::time;

impl Semaphore {
    /// [`acquire`](Self::acquire), unless the running thread is interrupted. A thread that has been interrupted gets the error
    /// whether or not there is a permit; one that is given its permit in the same moment as it is interrupted has the permit,
    /// and the interrupt is left for its next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// use selvedge::thread;
    ///
    /// let semaphore = Semaphore::new(1);
    /// thread::current().interrupt();
    /// assert!(semaphore.acquire_interruptible().is_err());
    /// assert!(semaphore.acquire_interruptible().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_interruptible(&self) -> Result<SemaphorePermit<'_>, Interrupted> {
        self.acquire_many_interruptible(1)
    }

    /// [`acquire_interruptible`](Self::acquire_interruptible) that gives up after `timeout`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<SemaphorePermit<'_>>, Interrupted> {
        self.acquire_many_interruptible_for(1, timeout)
    }

    /// [`acquire_interruptible`](Self::acquire_interruptible) that gives up at `deadline`: `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and no permit was taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn acquire_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, Interrupted> {
        self.acquire_many_interruptible_until(1, deadline)
    }

    /// [`acquire_many`](Self::acquire_many), unless the running thread is interrupted.
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
    pub fn acquire_many_interruptible(&self, n: usize) -> Result<SemaphorePermit<'_>, Interrupted> {
        self.protocol.take_interruptible(n, None).map(|_| SemaphorePermit::new(self, n))
    }

    /// [`acquire_many_interruptible`](Self::acquire_many_interruptible) that gives up after `timeout`: `None`.
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
    pub fn acquire_many_interruptible_for(
        &self,
        n: usize,
        timeout: Duration,
    ) -> Result<Option<SemaphorePermit<'_>>, Interrupted> {
        let taken = self.protocol.take_interruptible(n, time::after(timeout))?;
        Ok(taken.then(|| SemaphorePermit::new(self, n)))
    }

    /// [`acquire_many_interruptible`](Self::acquire_many_interruptible) that gives up at `deadline`: `None`.
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
    pub fn acquire_many_interruptible_until(
        &self,
        n: usize,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, Interrupted> {
        let taken = self.protocol.take_interruptible(n, Some(deadline))?;
        Ok(taken.then(|| SemaphorePermit::new(self, n)))
    }
}
