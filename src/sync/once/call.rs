//! The calls of a [`Once`] that do not wait for another thread's closure as long as that takes.

use std::time::{Duration, Instant};

use super::{Once, OnceState};
use crate::park::interrupt::Interrupted;
use crate::time;

impl Once {
    /// [`call_once_force`](Self::call_once_force) that waits for another thread's closure at most for `timeout`: whether a closure has
    /// returned.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_force_for<F: FnOnce(&OnceState)>(&self, f: F, timeout: Duration) -> bool {
        self.is_completed() || self.call("Once", true, time::after(timeout), f)
    }

    /// [`call_once_force`](Self::call_once_force) that waits for another thread's closure at most until `deadline`: whether a closure has
    /// returned.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_force_until<F: FnOnce(&OnceState)>(&self, f: F, deadline: Instant) -> bool {
        self.is_completed() || self.call("Once", true, Some(deadline), f)
    }

    /// [`call_once`](Self::call_once), unless the running thread is interrupted while another runs its closure; its own closure is not
    /// ended. A thread that has been interrupted gets the error whether or not there is anything to do; if the other closure returns in the
    /// same moment, the interrupt is left for the next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use selvedge::thread;
    ///
    /// let once = Once::new();
    /// thread::current().interrupt();
    /// assert!(once.call_once_interruptible(|| unreachable!()).is_err());
    /// assert!(once.call_once_interruptible(|| ()).is_ok() && once.is_completed());
    /// ```
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_interruptible<F: FnOnce()>(&self, f: F) -> Result<(), Interrupted> {
        self.call_interruptible("Once", false, None, |_| f()).map(|_| ())
    }

    /// [`call_once_interruptible`](Self::call_once_interruptible) that waits at most for `timeout`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_interruptible_for<F: FnOnce()>(
        &self,
        f: F,
        timeout: Duration,
    ) -> Result<bool, Interrupted> {
        self.call_interruptible("Once", false, time::after(timeout), |_| f())
    }

    /// [`call_once_interruptible`](Self::call_once_interruptible) that waits at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_interruptible_until<F: FnOnce()>(
        &self,
        f: F,
        deadline: Instant,
    ) -> Result<bool, Interrupted> {
        self.call_interruptible("Once", false, Some(deadline), |_| f())
    }

    /// [`call_once_force`](Self::call_once_force), unless the running thread is interrupted while another runs its closure; its own closure is not
    /// ended. A thread that has been interrupted gets the error whether or not there is anything to do; if the other closure returns in the
    /// same moment, the interrupt is left for the next wait.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_force_interruptible<F: FnOnce(&OnceState)>(&self, f: F) -> Result<(), Interrupted> {
        self.call_interruptible("Once", true, None, f).map(|_| ())
    }

    /// [`call_once_force_interruptible`](Self::call_once_force_interruptible) that waits at most for `timeout`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_force_interruptible_for<F: FnOnce(&OnceState)>(
        &self,
        f: F,
        timeout: Duration,
    ) -> Result<bool, Interrupted> {
        self.call_interruptible("Once", true, time::after(timeout), f)
    }

    /// [`call_once_force_interruptible`](Self::call_once_force_interruptible) that waits at most until `deadline`: whether a closure has returned.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_force_interruptible_until<F: FnOnce(&OnceState)>(
        &self,
        f: F,
        deadline: Instant,
    ) -> Result<bool, Interrupted> {
        self.call_interruptible("Once", true, Some(deadline), f)
    }
}
