//! Waiting for somebody who is through in a moment: who is not preempted by us (I9), but may have been by the kernel.
//!
//! Looks with growing pauses for about as long as some tens of critical sections; then the CPU is given away, because the one who is waited
//! for must have lost its own; then naps, which also let one of lower real-time priority run, as giving the CPU away would not.
//! Naps grow: a thousand who wake up every 50 us would leave no CPU to the one they wait for.

use std::time::Duration;

use crate::shim::{GAP_LIMIT, nap, spin_hint, yield_cpu};

/// Rounds of pauses before the CPU is given away: 1, 2, 4 ... 64 pauses and then 64 each, some 10 us on a processor
/// whose pause takes 11 ns. Range: any; less wastes system calls, more wastes time when the other is preempted.
const SPIN_ROUNDS: u32 = 20;
/// The longest gap between two looks, in pauses.
const MAX_GAP: u32 = GAP_LIMIT;
/// Times the CPU is given away before the naps start.
const YIELDS: u32 = 16;
/// The first nap: the kernel's shortest practical sleep (its timer slack).
const NAP: Duration = Duration::from_micros(50);
/// A nap is twice as long as the one before, so many times: up to 3.2 ms, about what a thread has its CPU for at a time.
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

    /// Between two looks.
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
