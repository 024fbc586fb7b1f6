//! The barrier: a count under a lock of loom's.

use std::fmt;
use std::time::{Duration, Instant};

use super::mutex::Deadline;
use super::{Expiries, Lazy};
use crate::park::interrupt::Interrupted;

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
    /// Whether this thread was the last to come, which one thread of each round is.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// A barrier for `n` threads. With 0 or 1 nobody ever waits, and everybody is the leader.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self { meeting: Lazy::new(), expiries: Expiries::new(), parties: n }
    }

    fn wait_with(&self, deadline: Deadline) -> Option<BarrierWaitResult> {
        let meeting = self.meeting.get(Meeting::default);
        let mut round = meeting.round.lock().expect("no poison");
        round.arrived += 1;
        if round.arrived >= self.parties {
            *round = Round { number: round.number + 1, arrived: 0 };
            drop(round);
            meeting.over.notify_all();
            return Some(BarrierWaitResult(true));
        }
        let mine = round.number;
        if let Deadline::May = deadline {
            drop(round);
            round = meeting.round.lock().expect("no poison");
            if round.number == mine {
                round.arrived -= 1;
                drop(round);
                self.expiries.one_more();
                return None;
            }
        }
        while round.number == mine {
            round = meeting.over.wait(round).expect("no poison");
        }
        Some(BarrierWaitResult(false))
    }

    /// Waits until all threads of this round have come.
    pub fn wait(&self) -> BarrierWaitResult {
        self.wait_with(Deadline::Never).expect("no deadline")
    }

    /// [`wait`](Self::wait) that may time out: then the arrival is taken back.
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_timeout(&self, _: Duration) -> Option<BarrierWaitResult> {
        self.wait_with(Deadline::May)
    }

    /// [`wait_timeout`](Self::wait_timeout).
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_for(&self, _: Duration) -> Option<BarrierWaitResult> {
        self.wait_with(Deadline::May)
    }

    /// [`wait_timeout`](Self::wait_timeout).
    #[must_use = "after a timeout the others have not come"]
    pub fn wait_until(&self, _: Instant) -> Option<BarrierWaitResult> {
        self.wait_with(Deadline::May)
    }

    /// [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible(&self) -> Result<BarrierWaitResult, Interrupted> {
        Ok(self.wait())
    }

    /// [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<Option<BarrierWaitResult>, Interrupted> {
        Ok(self.wait_for(timeout))
    }

    /// [`wait_until`](Self::wait_until).
    ///
    /// # Errors
    ///
    /// None in a model.
    pub fn wait_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<Option<BarrierWaitResult>, Interrupted> {
        Ok(self.wait_until(deadline))
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
