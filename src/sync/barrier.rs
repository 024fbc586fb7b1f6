//! A barrier: what programs see of it. `barrier/protocol.rs` says how it works.

mod protocol;

use std::fmt;
use std::time::Duration;

use crate::park::wait::{Wait, WaitError, timed};

crate::shim::swap! { use protocol::Protocol; use crate::shim::model::barrier::Protocol; }

/// A point where a number of threads wait for each other, round after round.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Barrier;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let (barrier, arrived) = (Barrier::new(3), AtomicU32::new(0));
/// std::thread::scope(|s| {
///     for _ in 0..3 {
///         s.spawn(|| {
///             arrived.fetch_add(1, Ordering::Relaxed);
///             barrier.wait();
///             assert_eq!(arrived.load(Ordering::Relaxed), 3);
///         });
///     }
/// });
/// ```
pub struct Barrier {
    protocol: Protocol,
}

/// The result of [`Barrier::wait`] for each thread of a round.
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    pub(super) fn new(is_leader: bool) -> Self {
        Self(is_leader)
    }

    /// Returns `true` if this thread was the last to come. One thread of each round is.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for `n` threads. With 0 or 1 no thread ever waits, and each is the leader.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self { protocol: Protocol::new(n) }
    }

    /// Waits until all threads of this round have come. The barrier is then ready for the next round.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn wait(&self) -> BarrierWaitResult {
        BarrierWaitResult(self.protocol.pass(Wait::forever()) == Ok(true))
    }

    timed! {
        wait: "; then the arrival is taken back and `None` is returned"
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::Barrier;
        /// use std::time::Duration;
        ///
        /// let barrier = Barrier::new(2);
        /// assert!(barrier.wait_for(Duration::from_millis(1)).is_none());
        /// ```
        #[must_use = "after a timeout the others have not come"]
        pub fn wait_for, wait_until(&self) -> Option<BarrierWaitResult> {
            |limit| self.protocol.pass(limit()).ok().map(BarrierWaitResult)
        }
    }

    /// [`wait_for`](Self::wait_for), by another name.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<BarrierWaitResult> {
        self.wait_for(timeout)
    }

    /// [`wait`](Self::wait) that ends as `wait` says. If it ends early, the arrival is taken back, and the
    /// others wait for another in its place.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Barrier;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let barrier = Barrier::new(2);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(barrier.wait_with(wait).unwrap_err(), WaitError::Interrupted);
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`], and this thread has not arrived.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_with(&self, wait: Wait) -> Result<BarrierWaitResult, WaitError> {
        wait.run(|wait| self.protocol.pass(wait)).map(BarrierWaitResult)
    }
}

crate::shown::debug! { [] Barrier: "Barrier" }

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
