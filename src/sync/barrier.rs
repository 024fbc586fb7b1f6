//! A barrier: what programs see of it. `barrier/protocol.rs` says how it works.

mod protocol;

use std::fmt;
use std::time::Duration;

use crate::park::wait::{Wait, WaitError};

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

    super::impls::waits_at! { "selvedge::sync::Barrier" }

    /// [`wait_for`](Self::wait_for), by another name.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<BarrierWaitResult> {
        self.wait_for(timeout)
    }

    #[inline]
    fn pass(&self, wait: Wait) -> Result<bool, WaitError> {
        self.protocol.pass(wait)
    }
}

crate::shown::debug! { [] Barrier: "Barrier" }

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
