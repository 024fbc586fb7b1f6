//! Waiting until one of several operations is ready, without doing any.

use std::time::{Duration, Instant};

use super::Select;
use crate::channel::error::{ReadyTimeoutError, TryReadyError};
use crate::channel::wait::{Patience, Refusal};
use crate::park::interrupt::{self, Interrupted};
use crate::time;

impl Select<'_> {
    /// The index of an operation that is ready, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.ready_with(Patience::None).map_err(|_| TryReadyError)
    }

    /// The index of an operation that is ready, once there is one. Nothing is done, and it may be ready no more when it is tried: other
    /// threads may have been faster.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    ///
    /// let (s, r) = channel::unbounded();
    /// let mut select = Select::new();
    /// let receives = select.recv(&r);
    /// s.send(1).unwrap();
    /// assert_eq!(select.ready(), receives);
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready(&mut self) -> usize {
        self.check();
        match self.ready_with(Patience::ENDLESS) {
            Ok(index) => index,
            Err(_) => unreachable!("a wait without a deadline ends with an operation"),
        }
    }

    /// [`ready`](Self::ready) that waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If none became ready in time.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.ready_with(Patience::until(time::after(timeout))).map_err(|_| ReadyTimeoutError)
    }

    /// [`ready`](Self::ready) that waits until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// If none became ready in time.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        self.ready_with(Patience::until(Some(deadline))).map_err(|_| ReadyTimeoutError)
    }

    /// [`ready`](Self::ready), unless the running thread is interrupted. If an operation becomes ready in the same moment, the interrupt is
    /// left for the thread's next wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    /// use selvedge::thread;
    ///
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// thread::current().interrupt();
    /// assert!(select.ready_interruptible().is_err());
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations.
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_interruptible(&mut self) -> Result<usize, Interrupted> {
        self.check();
        let ready = self.ready_interruptible_by(None)?;
        Ok(ready.expect("a wait without a deadline ends with an operation"))
    }

    /// [`ready_interruptible`](Self::ready_interruptible) that waits for at most `timeout`, and then gives `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_interruptible_timeout(&mut self, timeout: Duration) -> Result<Option<usize>, Interrupted> {
        self.ready_interruptible_by(time::after(timeout))
    }

    /// [`ready_interruptible`](Self::ready_interruptible) that waits until `deadline` at the latest, and then gives `None`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_interruptible_until(&mut self, deadline: Instant) -> Result<Option<usize>, Interrupted> {
        self.ready_interruptible_by(Some(deadline))
    }

    fn ready_interruptible_by(&self, deadline: Option<Instant>) -> Result<Option<usize>, Interrupted> {
        interrupt::check()?;
        match self.ready_with(Patience::interruptible(deadline)) {
            Ok(index) => Ok(Some(index)),
            Err(Refusal::Interrupted) => Err(Interrupted),
            Err(_) => Ok(None),
        }
    }
}
