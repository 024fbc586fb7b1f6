//! Threads that compute, and wait for each other after each round.
//!
//! Each round a thread adds one to every cell of a matrix of its own, a number of times. It then comes to a
//! barrier made of one mutex and one condition variable, where the last to arrive wakes all others.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::crew::{Sampler, work_together};
use crate::support::library::{Attributes, Library, Lock};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Times that each cell is incremented in a round.
    pub(crate) iterations: u32,
    /// Rows, and columns, of a thread's matrix.
    pub(crate) side: usize,
    /// Rounds, each with a barrier at its end.
    pub(crate) rounds: u32,
    pub(crate) attributes: Attributes,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Computed {
    /// From when all threads stood ready to the last barrier.
    pub(crate) elapsed: Duration,
    /// How often all threads have met.
    pub(crate) rounds: u64,
    /// Threads that saw every round, one after the other.
    pub(crate) in_step: u32,
    /// Threads that incremented each cell as often as planned.
    pub(crate) correct: u32,
}

impl Computed {
    /// The time that all rounds of a plan took.
    ///
    /// # Panics
    /// The threads did not meet as planned, or one has not done its work.
    pub(crate) fn all(self, plan: Plan) -> Duration {
        assert_eq!(self.rounds, u64::from(plan.rounds), "a wrong number of barriers was passed");
        assert_eq!(self.in_step, plan.threads, "a thread missed a round");
        assert_eq!(self.correct, plan.threads, "a cell was incremented too often, or not often enough");
        self.elapsed
    }
}

/// Computes as planned on the calling thread's runtime. `watch` gets something that counts rounds; what
/// it gives is kept until all threads have ended.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn compute<L: Library, W>(plan: Plan, watch: impl FnOnce(Sampler) -> W) -> io::Result<Computed> {
    let room = Arc::new(Room {
        barrier: Barrier::<L>::new(u64::from(plan.threads)),
        in_step: AtomicU32::new(0),
        correct: AtomicU32::new(0),
    });
    let (theirs, seen) = (Arc::clone(&room), Arc::clone(&room));
    let mut watching = None;
    let elapsed = work_together::<L>(
        plan.threads,
        plan.attributes,
        move |_| theirs.work(plan),
        || watching = Some(watch(Box::new(move || seen.barrier.rounds()))),
    )?;
    drop(watching);
    // Relaxed: the threads have been joined.
    let count = |threads: &AtomicU32| threads.load(Ordering::Relaxed);
    let (in_step, correct) = (count(&room.in_step), count(&room.correct));
    Ok(Computed { elapsed, rounds: room.barrier.rounds(), in_step, correct })
}

/// Where the threads meet, and what is said of them afterwards.
struct Room<L: Library> {
    barrier: Barrier<L>,
    in_step: AtomicU32,
    correct: AtomicU32,
}

impl<L: Library> Room<L> {
    /// One thread's life.
    fn work(&self, plan: Plan) {
        let mut matrix = vec![0_u32; plan.side * plan.side];
        let mut in_step = true;
        for round in 1..=plan.rounds {
            increment(&mut matrix, plan.iterations);
            // A thread that passes a barrier early, or late, finds another round than its own.
            in_step &= self.barrier.wait() == u64::from(round);
        }
        let total = plan.iterations.wrapping_mul(plan.rounds);
        let correct = matrix.iter().all(|&cell| cell == total);
        self.in_step.fetch_add(in_step.into(), Ordering::Relaxed);
        self.correct.fetch_add(correct.into(), Ordering::Relaxed);
    }
}

/// The work of one round. Not inlined, so that it is the same code for every library.
#[inline(never)]
pub(crate) fn increment(matrix: &mut [u32], iterations: u32) {
    for _ in 0..iterations {
        for cell in &mut *matrix {
            *cell = cell.wrapping_add(1);
        }
        // Keeps the compiler from adding them all at once.
        black_box(&mut *matrix);
    }
}

/// Holds its callers until all parties are there, again and again.
struct Barrier<L: Library> {
    state: L::Mutex<Arrivals>,
    changed: L::Condvar,
    parties: u64,
    /// The rounds of `state`, to be read without the lock.
    rounds: AtomicU64,
}

struct Arrivals {
    count: u64,
    rounds: u64,
}

impl<L: Library> Barrier<L> {
    fn new(parties: u64) -> Self {
        let state = L::Mutex::new(Arrivals { count: 0, rounds: 0 });
        Self { state, changed: L::Condvar::default(), parties, rounds: AtomicU64::new(0) }
    }

    /// Waits for all others. Gives the number of rounds that are over then, this one with them.
    fn wait(&self) -> u64 {
        let mut arrivals = self.state.lock();
        let round = arrivals.rounds;
        arrivals.count += 1;
        if arrivals.count == self.parties {
            arrivals.count = 0;
            arrivals.rounds += 1;
            // Relaxed: nothing goes with it.
            self.rounds.store(round + 1, Ordering::Relaxed);
            L::notify_all(&self.changed);
            return round + 1;
        }
        while arrivals.rounds == round {
            arrivals = L::wait(&self.changed, arrivals);
        }
        arrivals.rounds
    }

    /// How often all parties have met.
    fn rounds(&self) -> u64 {
        // Relaxed: as where it is stored.
        self.rounds.load(Ordering::Relaxed)
    }
}
