//! A barrier: no thread goes on before all have come.
//!
//! **Problem.** The same barrier is used round after round. A thread that is late to leave one round must
//! not be mistaken for an arrival of the next. A thread must be able to take its arrival back if its
//! timeout has passed, or it was interrupted.
//!
//! **Rejected.**
//!
//! - A mutex and a condition variable (std). Every arrival and every departure goes through one lock, one
//!   by one.
//! - Two counters, for arrivals and departures. The last to leave holds up the next round.
//!
//! **Protocol.** One word holds the round, and the arrivals in it. An arrival is a compare-and-swap that
//! adds one. The last arrival, with the bucket lock held, moves the word to the next round with no
//! arrivals, and takes all waiters off the queue. A waiter queues only if the word still has its round. A
//! timeout or an interrupt subtracts one, if the word still has its round; otherwise the waiter was
//! released after all.
//!
//! **Proof.** The round changes with the bucket lock held, and waiters look at it under that lock. So
//! each sees the next round or is in the queue. If it changed earlier, a thread could see that and come to
//! the next round. It would then be taken off the queue with the waiters of this one. Rounds are counted in
//! 32 bits. To be fooled, a thread would have to sleep through four billion rounds of which it is a party.
//! After its change of the word the last arrival touches the table only, so a thread that sees the change may
//! drop the barrier.
//!
//! **Cost** in read-modify-writes: arrival 1, and 1 for the bucket lock.

use std::mem;

use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::fork;

const RELEASED: Token = Token(0);

/// The protocol of the header.
pub(super) struct Protocol {
    word: Word,
    parties: u32,
}

impl Protocol {
    pub(super) const fn new(n: usize) -> Self {
        // More threads than fit into 32 bits cannot exist, let alone arrive.
        let parties = if n > u32::MAX as usize { u32::MAX } else { n as u32 };
        Self { word: Word::new(), parties }
    }

    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until all have come. Returns `true` to the last to come.
    pub(super) fn pass(&self, wait: Wait) -> Result<bool, WaitError> {
        let key = self.key();
        loop {
            match self.word.arrive(self.parties) {
                Arrival::Waits { round } => {
                    let options = Options::new(WaitReason::Barrier, wait);
                    let arrived = Arrived { word: &self.word, round };
                    let woken = wait_queue::wait_while(key, &options, || self.word.is_in(round));
                    // The barrier may be gone by now.
                    mem::forget(arrived);
                    return match woken {
                        Ok(Woken::Ended { why, .. }) if self.word.withdraw(round) => Err(why),
                        _ => Ok(false),
                    };
                }
                Arrival::Last(full) => {
                    if let Some(all) = wait_queue::grant_all(key, RELEASED, || self.word.next_round(full)) {
                        // The barrier may be gone from here on.
                        all.wake_all();
                        return Ok(true);
                    }
                    // Another thread has withdrawn.
                }
            }
        }
    }
}

/// An arrival that is taken back if the wait cannot begin. That is so only in the child of a fork.
struct Arrived<'a> {
    word: &'a Word,
    round: u32,
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        if fork::is_child() {
            self.word.withdraw(self.round);
        }
    }
}

/// | bits | meaning | changed by |
/// |---|---|---|
/// | 32 to 63 | the round | its last arrival: one more |
/// | 0 to 31 | arrivals in the round | an arrival: + 1, or 0 by the last; a timeout or interrupt: - 1 |
struct Word(AtomicU64);

const ROUND_SHIFT: u32 = 32;

/// The outcome of an arrival.
enum Arrival {
    /// Counted in; others have yet to come.
    Waits { round: u32 },
    /// The last of the word's round, and not counted in yet.
    Last(u64),
}

impl Word {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts the caller in, unless it is the last.
    #[inline]
    fn arrive(&self, parties: u32) -> Arrival {
        // Relaxed: confirmed by the compare-and-swap, here or in `next_round`.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen as u32 + 1 >= parties {
                return Arrival::Last(seen);
            }
            // Release: what each party did before its arrival is visible to the last one, and through it
            // to all. The acquire of the last one reads the whole chain of arrivals. Relaxed on failure:
            // tried again.
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Arrival::Waits { round: (seen >> ROUND_SHIFT) as u32 },
                Err(now) => seen = now,
            }
        }
    }

    /// Begins the next round, for the last arrival. Returns `false` if a thread has withdrawn, so the
    /// caller is not the last. The caller holds the bucket lock.
    #[inline]
    #[must_use]
    fn next_round(&self, full: u64) -> bool {
        let round = ((full >> ROUND_SHIFT) as u32).wrapping_add(1);
        // Acquire: pairs with the release of `arrive`. Release: pairs with the acquires of `is_in` and
        // `withdraw`. Waiters see it by their grant.
        self.0
            .compare_exchange(full, u64::from(round) << ROUND_SHIFT, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns `true` if `round` is not complete yet.
    #[inline]
    fn is_in(&self, round: u32) -> bool {
        // Acquire: pairs with the release of `next_round`, for a thread that comes too late to be queued.
        (self.0.load(Ordering::Acquire) >> ROUND_SHIFT) as u32 == round
    }

    /// Counts the caller out. Returns `false` if its round is complete.
    fn withdraw(&self, round: u32) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while (seen >> ROUND_SHIFT) as u32 == round {
            // Relaxed: it publishes nothing, and a read-modify-write keeps the chain of arrivals whole.
            // Acquire on failure: as in `is_in`.
            match self.0.compare_exchange_weak(seen, seen - 1, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

#[cfg(all(test, loom))]
mod loom_barrier;
