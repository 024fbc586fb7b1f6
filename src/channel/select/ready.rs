//! Waiting until one of several operations is ready, without doing any.

use super::Select;
use crate::channel::error::{ReadyTimeoutError, TryReadyError};
use crate::park::wait::{Wait, WaitError, timed};

impl Select<'_> {
    /// Returns the index of an operation that is ready, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.ready_by(None).map_err(|_| TryReadyError)
    }

    /// Returns the index of an operation as soon as it is ready. Does nothing with it. When the caller
    /// tries it, other threads may have been faster.
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
        self.ready_with(Wait::forever()).expect("a wait without a deadline ends with an operation")
    }

    timed! {
        ready
        /// # Errors
        ///
        /// If none became ready in time.
        pub fn ready_timeout, ready_deadline(&mut self) -> Result<usize, ReadyTimeoutError> {
            |limit| self.ready_by(Some(limit())).map_err(|_| ReadyTimeoutError)
        }
    }

    /// [`ready`](Self::ready) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// thread::current().interrupt();
    /// assert_eq!(select.ready_with(Wait::forever().interruptible()), Err(WaitError::Interrupted));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations, and the wait has no deadline.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_with(&mut self, wait: Wait) -> Result<usize, WaitError> {
        self.check(wait);
        wait.run(|wait| self.ready_by(Some(wait)))
    }
}
