//! The waits at a [`OnceLock`] in forms that an interrupt can end.

use std::time::{Duration, Instant};

use super::OnceLock;
use crate::park::interrupt::Interrupted;
use crate::time;

impl<T> OnceLock<T> {
    /// [`wait`](Self::wait), unless the running thread is interrupted. A thread that has been interrupted gets the error whether or
    /// not there is a value; if it is written in the same moment, the interrupt is left for the next wait.
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
    pub fn wait_interruptible(&self) -> Result<&T, Interrupted> {
        self.wait_interruptible_with(None)
            .map(|value| value.expect("a wait without a deadline ends with the value"))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`: then `None`.
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
    pub fn wait_interruptible_for(&self, timeout: Duration) -> Result<Option<&T>, Interrupted> {
        self.wait_interruptible_with(time::after(timeout))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`: then `None`.
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
    pub fn wait_interruptible_until(&self, deadline: Instant) -> Result<Option<&T>, Interrupted> {
        self.wait_interruptible_with(Some(deadline))
    }

    #[track_caller]
    fn wait_interruptible_with(&self, deadline: Option<Instant>) -> Result<Option<&T>, Interrupted> {
        let done = self.once.protocol.wait_interruptible("OnceLock", true, deadline)?;
        // SAFETY: done.
        Ok(done.then(|| unsafe { self.get_done() }))
    }

    /// [`get_or_init`](Self::get_or_init), unless the running thread is interrupted while another makes the value; `f` is not ended. A
    /// thread that has been interrupted gets the error whether or not there is a value; if it is made in the same moment, the interrupt is
    /// left for the next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    /// use selvedge::thread;
    ///
    /// let cell = OnceLock::new();
    /// thread::current().interrupt();
    /// assert!(cell.get_or_init_interruptible(|| 7).is_err());
    /// assert_eq!(cell.get_or_init_interruptible(|| 8), Ok(&8));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_interruptible<F: FnOnce() -> T>(&self, f: F) -> Result<&T, Interrupted> {
        self.init_interruptible(f, None)
            .map(|value| value.expect("a wait without a deadline ends with the value"))
    }

    /// [`get_or_init_interruptible`](Self::get_or_init_interruptible) that waits at most for `timeout`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_interruptible_for<F: FnOnce() -> T>(
        &self,
        f: F,
        timeout: Duration,
    ) -> Result<Option<&T>, Interrupted> {
        self.init_interruptible(f, time::after(timeout))
    }

    /// [`get_or_init_interruptible`](Self::get_or_init_interruptible) that waits at most until `deadline`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_interruptible_until<F: FnOnce() -> T>(
        &self,
        f: F,
        deadline: Instant,
    ) -> Result<Option<&T>, Interrupted> {
        self.init_interruptible(f, Some(deadline))
    }

    #[track_caller]
    fn init_interruptible<F: FnOnce() -> T>(
        &self,
        f: F,
        deadline: Option<Instant>,
    ) -> Result<Option<&T>, Interrupted> {
        let done = self.once.call_interruptible("OnceLock", true, deadline, |_| self.write(f()))?;
        // SAFETY: done.
        Ok(done.then(|| unsafe { self.get_done() }))
    }

    /// [`get_or_try_init`](Self::get_or_try_init), unless the running thread is interrupted, as in
    /// [`get_or_init_interruptible`](Self::get_or_init_interruptible).
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    ///
    /// let cell: OnceLock<u16> = OnceLock::new();
    /// assert!(cell.get_or_try_init_interruptible(|| "many".parse()).unwrap().is_err());
    /// assert_eq!(cell.get_or_try_init_interruptible(|| "80".parse()), Ok(Ok(&80)));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`]. (That of `f` is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_interruptible<F, E>(&self, f: F) -> Result<Result<&T, E>, Interrupted>
    where
        F: FnOnce() -> Result<T, E>,
    {
        let made = self.try_init_interruptible(f, None)?;
        Ok(made.map(|value| value.expect("a wait without a deadline ends with the value or an error")))
    }

    /// [`get_or_try_init_interruptible`](Self::get_or_try_init_interruptible) that waits at most for `timeout`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`]. (That of `f` is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_interruptible_for<F, E>(
        &self,
        f: F,
        timeout: Duration,
    ) -> Result<Result<Option<&T>, E>, Interrupted>
    where
        F: FnOnce() -> Result<T, E>,
    {
        self.try_init_interruptible(f, time::after(timeout))
    }

    /// [`get_or_try_init_interruptible`](Self::get_or_try_init_interruptible) that waits at most until `deadline`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`Interrupted`]. (That of `f` is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_interruptible_until<F, E>(
        &self,
        f: F,
        deadline: Instant,
    ) -> Result<Result<Option<&T>, E>, Interrupted>
    where
        F: FnOnce() -> Result<T, E>,
    {
        self.try_init_interruptible(f, Some(deadline))
    }

    #[track_caller]
    fn try_init_interruptible<F, E>(
        &self,
        f: F,
        deadline: Option<Instant>,
    ) -> Result<Result<Option<&T>, E>, Interrupted>
    where
        F: FnOnce() -> Result<T, E>,
    {
        let mut result = Ok(());
        let made = |state: &_| self.try_write(f, state, &mut result);
        let done = self.once.call_interruptible("OnceLock", true, deadline, made)?;
        // SAFETY: done, unless `f` has failed.
        Ok(result.map(|()| done.then(|| unsafe { self.get_done() })))
    }
}
