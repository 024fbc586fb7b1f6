//! Waiting for what another thread does once.

use std::time::{Duration, Instant};

use super::word::Phase;
use super::{Once, options, poisoned, recursive};
use crate::park::current::current;
use crate::park::interrupt::{self, Interrupted};
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{Options, Woken};
use crate::time;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Ended {
    Done,
    Expired,
    /// The flag is still set.
    Interrupted,
}

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
        let ended = self.wait_with("Once", false, options(None));
        debug_assert_eq!(ended, Ended::Done);
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
        let ended = self.wait_with("Once", true, options(None));
        debug_assert_eq!(ended, Ended::Done);
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
        self.is_completed() || self.wait_with("Once", false, options(time::after(timeout))) == Ended::Done
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
        self.wait_with("Once", false, options(Some(deadline))) == Ended::Done
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
        self.wait_interruptible_with("Once", false, None).map(|_| ())
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
        self.wait_interruptible_with("Once", false, time::after(timeout))
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
        self.wait_interruptible_with("Once", false, Some(deadline))
    }

    /// Waits until this is done; panics if it is poisoned, unless that does not matter.
    #[cold]
    #[track_caller]
    pub(super) fn wait_with(&self, what: &str, force: bool, options: Options) -> Ended {
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Ended::Done,
                Phase::Failed if !force => poisoned(what),
                Phase::Runs if seen.is_run_by(current().place()) => recursive(what),
                _ => {}
            }
            let waits = |phase| phase != Phase::Done && (force || phase != Phase::Failed);
            match self.queue(&options, waits) {
                Some(Woken::Expired { .. }) => return Ended::Expired,
                Some(Woken::Interrupted { .. }) => return Ended::Interrupted,
                _ => {}
            }
        }
    }

    /// Whether it is done; `false`: the deadline came first.
    #[track_caller]
    pub(super) fn wait_interruptible_with(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
    ) -> Result<bool, Interrupted> {
        interrupt::check()?;
        match self.wait_with(what, force, Options::interruptible(WaitReason::Once, deadline)) {
            Ended::Done => Ok(true),
            Ended::Expired => Ok(false),
            Ended::Interrupted => Err(interrupt::reported()),
        }
    }
}
