//! The barrier: a count under a lock of loom's.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Expiries, Lazy};
use crate::park::wait::{Wait, WaitError};

/// A point where a number of threads wait for each other, round after round.
pub struct Barrier {
    meeting: Lazy<Meeting>,
    expiries: Expiries,
    parties: usize,
}

#[derive(Default)]
struct Meeting {
    round: loom::sync::Mutex<Round>,
    over: loom::sync::Condvar,
}

#[derive(Default)]
struct Round {
    number: usize,
    arrived: usize,
}

/// What [`Barrier::wait`] tells each thread of a round.
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns `true` if this thread was the last to come. That holds for one thread of each round.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for `n` threads. With 0 or 1, no thread ever waits, and each thread is the leader.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self { meeting: Lazy::new(), expiries: Expiries::new(), parties: n }
    }

    /// Does what [`wait`](Self::wait) does, but may time out. Then the arrival is taken back. It is not
    /// interrupted.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`].
    pub fn wait_with(&self, wait: Wait) -> Result<BarrierWaitResult, WaitError> {
        let meeting = self.meeting.get(Meeting::default);
        let mut round = meeting.round.lock().expect("no poison");
        round.arrived += 1;
        if round.arrived >= self.parties {
            *round = Round { number: round.number + 1, arrived: 0 };
            drop(round);
            meeting.over.notify_all();
            return Ok(BarrierWaitResult(true));
        }
        let mine = round.number;
        if wait.deadline.is_some() {
            drop(round);
            round = meeting.round.lock().expect("no poison");
            if round.number == mine {
                round.arrived -= 1;
                drop(round);
                self.expiries.one_more();
                return Err(WaitError::TimedOut);
            }
        }
        while round.number == mine {
            round = meeting.over.wait(round).expect("no poison");
        }
        Ok(BarrierWaitResult(false))
    }

    /// Waits until all threads of this round have come.
    pub fn wait(&self) -> BarrierWaitResult {
        self.wait_with(Wait::forever()).expect("no deadline")
    }

    /// Does what [`wait`](Self::wait) does, but may time out. Then the arrival is taken back.
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_timeout(&self, _: Duration) -> Option<BarrierWaitResult> {
        self.wait_until(Instant::now())
    }

    /// Does the same as [`wait_timeout`](Self::wait_timeout).
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_for(&self, _: Duration) -> Option<BarrierWaitResult> {
        self.wait_until(Instant::now())
    }

    /// Does the same as [`wait_timeout`](Self::wait_timeout).
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_until(&self, deadline: Instant) -> Option<BarrierWaitResult> {
        self.wait_with(Wait::until(deadline)).ok()
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
