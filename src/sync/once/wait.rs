//! Waiting for what another thread does once.

use std::time::{Duration, Instant};

use super::Once;
use crate::park::interrupt::Interrupted;
use crate::time;

impl Once {
    /// Waits until a closure has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    ///
    /// static READY: Once = Once::new();
    ///
    /// let thread = std::thread::spawn(|| READY.wait());
    /// READY.call_once(|| ());
    /// thread.join().unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// If one has panicked, and no other has returned. If the running thread is the one that runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait(&self) {
        if self.is_completed() {
            return;
        }
        let done = self.protocol.wait("Once", false, None);
        debug_assert!(done);
    }

    /// [`wait`](Self::wait) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// If the running thread is the one that runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait_force(&self) {
        if self.is_completed() {
            return;
        }
        let done = self.protocol.wait("Once", true, None);
        debug_assert!(done);
    }

    /// [`wait`](Self::wait), at most for `timeout`: whether a closure has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use std::time::Duration;
    ///
    /// assert!(!Once::new().wait_for(Duration::from_millis(1)));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        self.is_completed() || self.protocol.wait("Once", false, time::after(timeout))
    }

    /// [`wait`](Self::wait), at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.protocol.wait("Once", false, Some(deadline))
    }

    /// [`wait`](Self::wait), unless the running thread is interrupted. A thread that has been interrupted gets the error whether or
    /// not there is anything to wait for; if the closure returns in the same moment, the interrupt is left for the next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use selvedge::thread;
    ///
    /// thread::current().interrupt();
    /// assert!(Once::new().wait_interruptible().is_err());
    /// ```
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_interruptible(&self) -> Result<(), Interrupted> {
        self.protocol.wait_interruptible("Once", false, None).map(|_| ())
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_interruptible_for(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.protocol.wait_interruptible("Once", false, time::after(timeout))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_interruptible_until(&self, deadline: Instant) -> Result<bool, Interrupted> {
        self.protocol.wait_interruptible("Once", false, Some(deadline))
    }

    /// [`wait_force`](Self::wait_force), at most for `timeout`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn wait_force_for(&self, timeout: Duration) -> bool {
        self.is_completed() || self.protocol.wait("Once", true, time::after(timeout))
    }

    /// [`wait_force`](Self::wait_force), at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn wait_force_until(&self, deadline: Instant) -> bool {
        self.is_completed() || self.protocol.wait("Once", true, Some(deadline))
    }

    /// [`wait_interruptible`](Self::wait_interruptible) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_force_interruptible(&self) -> Result<(), Interrupted> {
        self.protocol.wait_interruptible("Once", true, None).map(|_| ())
    }

    /// [`wait_force_interruptible`](Self::wait_force_interruptible), at most for `timeout`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_force_interruptible_for(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.protocol.wait_interruptible("Once", true, time::after(timeout))
    }

    /// [`wait_force_interruptible`](Self::wait_force_interruptible), at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_force_interruptible_until(&self, deadline: Instant) -> Result<bool, Interrupted> {
        self.protocol.wait_interruptible("Once", true, Some(deadline))
    }
}
