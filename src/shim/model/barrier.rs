//! The barrier: the round, and the arrivals in it.

use super::Monitor;
use crate::park::wait::{Wait, WaitError};

/// What a barrier is made of in a model.
pub(crate) struct Protocol {
    round: Monitor<Round>,
    parties: usize,
}

#[derive(Clone)]
struct Round {
    number: usize,
    arrived: usize,
}

impl Protocol {
    pub(crate) const fn new(parties: usize) -> Self {
        Self { round: Monitor::new(Round { number: 0, arrived: 0 }), parties }
    }

    /// Waits until all have come. Returns `true` to the last to come.
    pub(crate) fn pass(&self, wait: Wait) -> Result<bool, WaitError> {
        let joined = self.round.change(|round| {
            round.arrived += 1;
            if round.arrived < self.parties {
                return Some(round.number);
            }
            *round = Round { number: round.number + 1, arrived: 0 };
            None
        });
        let Some(mine) = joined else { return Ok(true) };
        let is_over = |round: &mut Round| (round.number != mine).then_some(false);
        self.round.wait(wait, is_over, |round| round.arrived -= 1)
    }
}
