//! Waiting for what another thread does once.

use super::Once;
use crate::park::wait::{Wait, WaitError, timed};

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
    /// If a closure has panicked, and no other has returned. If the running thread runs the closure.
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
        let done = self.protocol.wait("Once", false, Wait::forever());
        debug_assert!(done.is_ok());
    }

    /// [`wait`](Self::wait) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// If the running thread runs the closure.
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
        let done = self.protocol.wait("Once", true, Wait::forever());
        debug_assert!(done.is_ok());
    }

    timed! {
        wait: ". Returns `true` if a closure has returned"
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
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn wait_for, wait_until(&self) -> bool {
            |limit| self.is_completed() || self.protocol.wait("Once", false, limit()).is_ok()
        }
    }

    /// [`wait`](Self::wait) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(Once::new().wait_with(wait), Err(WaitError::Interrupted));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_with(&self, wait: Wait) -> Result<(), WaitError> {
        wait.begin()?;
        self.protocol.wait("Once", false, wait).map_err(WaitError::reported)
    }

    timed! {
        wait_force: ". Returns `true` if a closure has returned"
        /// # Panics
        ///
        /// As [`wait_force`](Self::wait_force).
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn wait_force_for, wait_force_until(&self) -> bool {
            |limit| self.is_completed() || self.protocol.wait("Once", true, limit()).is_ok()
        }
    }

    /// [`wait_with`](Self::wait_with) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_force_with(&self, wait: Wait) -> Result<(), WaitError> {
        wait.begin()?;
        self.protocol.wait("Once", true, wait).map_err(WaitError::reported)
    }
}
