//! A barrier in three words that several processes map.
//!
//! **Protocol.** One word has the number of the round and how many threads have come. The last to come begins
//! the next round, and wakes all. The others sleep until the round has changed. A thread whose wait ends
//! early takes its arrival back, by compare-and-swap, unless the round is over by then.
//!
//! **Proof.** The round and the arrivals change in one step, so an arrival counts for one round, or is taken
//! back. More threads than a round has may use the barrier, and rounds may begin and end while one of them is
//! slow to leave. The arrivals take no more bits than they need. So the slow one would have to sleep through
//! 2^31 arrivals to be fooled.

use crate::park::current::current;
use crate::park::process;
use crate::park::shared_futex::{self, Awaited, How, LONGEST_NAP, Waited};
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::BarrierWaitResult;

/// A point where a number of threads, of several processes, wait for each other, round after round.
///
/// **Not robust.** If a process is killed while a thread of it waits here, that arrival counts. If it is
/// killed before, the others wait for another thread in its place, or until their time is over.
///
/// A zeroed barrier is one for no threads, at which none waits. An interrupt of a thread that sleeps
/// in the kernel is noticed within a tenth of a second.
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::Barrier;
///
/// let barrier = Barrier::new(2);
/// std::thread::scope(|s| {
///     let other = s.spawn(|| barrier.wait().is_leader());
///     assert!(barrier.wait().is_leader() != other.join().unwrap());
/// });
/// ```
#[derive(Default)]
#[repr(C)]
pub struct Barrier {
    threads: AtomicU32,
    state: AtomicU32,
    /// The process of the thread that came last, to an earlier round.
    last: AtomicU32,
}

/// A wait for the end of a round.
struct EndOf<'a>(&'a Barrier, u32);

impl Awaited for EndOf<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.0.state
    }

    fn look(&mut self) -> Option<u32> {
        // Relaxed: only a look.
        let seen = self.0.state.load(Ordering::Relaxed);
        (self.0.round_of(seen) == self.1).then_some(seen)
    }

    fn due(&self) -> usize {
        usize::MAX
    }
}

impl Barrier {
    /// The most threads of a barrier.
    pub const MAX_THREADS: usize = (1 << 20) - 1;

    /// Creates a barrier for `n` threads. With 0 or 1 no thread ever waits, and each is the leader.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_THREADS`](Self::MAX_THREADS).
    #[must_use]
    pub const fn new(n: usize) -> Self {
        assert!(n <= Self::MAX_THREADS, "more threads than a barrier can have");
        Self { threads: AtomicU32::new(n as u32), state: AtomicU32::new(0), last: AtomicU32::new(0) }
    }

    crate::sync::impls::waits_at! { "selvedge::sync::process_shared::Barrier" }

    /// Returns `true` to the last thread of the round.
    fn pass(&self, wait: Wait) -> Result<bool, WaitError> {
        // Relaxed: it does not change.
        let threads = self.threads.load(Ordering::Relaxed);
        if threads <= 1 {
            return Ok(true);
        }
        let id = process::this().id;
        // Relaxed: a hint, read before another could change it.
        let near = self.last.load(Ordering::Relaxed) == id;
        match self.arrive(threads, id) {
            Some(round) => self.wait_for_end(round, wait, near).map(|()| false),
            None => Ok(true),
        }
    }

    /// Returns the lower bits of the state, which are the arrivals. The others are the round.
    fn arrivals(&self) -> u32 {
        // Relaxed: it does not change.
        let most = self.threads.load(Ordering::Relaxed).saturating_sub(1);
        u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0)
    }

    fn round_of(&self, state: u32) -> u32 {
        state & !self.arrivals()
    }

    /// Counts an arrival. Returns the round to wait for, or `None` to the last thread, which ends it.
    fn arrive(&self, threads: u32, id: u32) -> Option<u32> {
        let arrivals = self.arrivals();
        let is_last = |seen: u32| (seen & arrivals) + 1 >= threads;
        let arrive = |seen: u32| {
            let last = is_last(seen);
            if last {
                // Relaxed: a hint for the next round.
                self.last.store(id, Ordering::Relaxed);
            }
            Some(if last { (seen | arrivals).wrapping_add(1) } else { seen + 1 })
        };
        // Acquire and release: the last to come has seen what all others did before, and they see its part.
        let (Ok(seen) | Err(seen)) = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, arrive);
        if is_last(seen) {
            shared_futex::wake(&self.state, u32::MAX);
            return None;
        }
        Some(seen & !arrivals)
    }

    fn wait_for_end(&self, round: u32, wait: Wait, near: bool) -> Result<(), WaitError> {
        if shared_futex::wait_awake(|| self.is_over(round)) {
            return Ok(());
        }
        self.sleep_until_end(round, How { wait, nap: Some(LONGEST_NAP), near })
    }

    fn is_over(&self, round: u32) -> bool {
        // Acquire: pairs with the release of the last to come.
        self.round_of(self.state.load(Ordering::Acquire)) != round
    }

    fn sleep_until_end(&self, round: u32, how: How) -> Result<(), WaitError> {
        let wait = how.wait;
        while !self.is_over(round) {
            if shared_futex::wait(&mut EndOf(self, round), how) == Waited::Woken {
                continue;
            }
            if let Err(why) = wait.go_on() {
                if self.take_back(round) {
                    return Err(why);
                }
                if why == WaitError::Interrupted {
                    // The next wait reports it.
                    current().interrupt();
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes an arrival back. Returns `false` if the round is over.
    fn take_back(&self, round: u32) -> bool {
        let less = |seen| (self.round_of(seen) == round).then(|| seen - 1);
        // Acquire on failure: pairs with the release of the last to come. Relaxed on success: the thread has
        // nothing to show.
        self.state.fetch_update(Ordering::Relaxed, Ordering::Acquire, less).is_ok()
    }
}

crate::shown::debug! { [] Barrier: "Barrier" }

#[cfg(all(test, loom))]
mod loom_shared_barrier;

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than a round has parties use the barrier, and one of them is slow to leave.
    #[test]
    fn a_slow_thread_is_not_taken_for_one_of_a_later_round() {
        let barrier = Barrier::new(2);
        let arrive = || barrier.arrive(2, 1);
        let slow = arrive().expect("the other has yet to come");
        assert_eq!(arrive(), None);
        for later in 1..10_000 {
            assert!(barrier.is_over(slow) && !barrier.take_back(slow), "{later}");
            let mine = arrive().expect("the other has yet to come");
            assert!(mine != slow && !barrier.is_over(mine), "{later}");
            assert_eq!(arrive(), None);
        }
    }
}
