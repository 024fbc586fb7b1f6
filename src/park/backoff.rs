//! A wait for a thread that is about to be done. Signals do not preempt it (I9), but the kernel may have.
//!
//! First come looks with growing pauses, for about as long as some tens of critical sections. Then the CPU
//! is yielded, because the awaited thread must have lost its own. Then come naps. They also let a thread of
//! lower real-time priority run, which a yield would not. Naps grow: a thousand threads that wake up every
//! 50 us would leave no CPU to the one that they wait for.

use std::time::Duration;

use crate::shim::{GAP_LIMIT, nap, spin_hint, yield_cpu};

/// Rounds of pauses before the CPU is yielded: 1, 2, 4 ... 64 pauses and then 64 each. They take some 10 us
/// on a processor with a pause of 11 ns. Range: any. Less wastes system calls, more wastes time when the
/// other thread is preempted.
const SPIN_ROUNDS: u32 = 20;
/// The longest gap between two looks, in pauses.
const MAX_GAP: u32 = GAP_LIMIT;
/// How often the CPU is yielded before the naps start.
const YIELDS: u32 = 16;
/// The first nap: the kernel's shortest practical sleep (its timer slack).
const NAP: Duration = Duration::from_micros(50);
/// How often a nap is twice as long as the one before. The longest is 3.2 ms, about the time for which a
/// thread has its CPU at a stretch.
const GROWTHS: u32 = 6;

/// One wait.
#[derive(Debug)]
pub(crate) struct Backoff {
    round: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { round: 0 }
    }

    /// Waits between two looks.
    pub(crate) fn pause(&mut self) {
        let round = self.round;
        self.round = round.saturating_add(1);
        if round < SPIN_ROUNDS {
            for _ in 0..MAX_GAP.min(1 << round) {
                spin_hint();
            }
        } else if round < SPIN_ROUNDS + YIELDS {
            yield_cpu();
        } else {
            nap(NAP * (1 << GROWTHS.min(round - SPIN_ROUNDS - YIELDS)));
        }
    }
}
