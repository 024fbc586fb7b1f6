//! Threads that compute, and wait for each other after each round.
//!
//! Each round a thread adds one to every cell of a matrix of its own, a number of times, and then comes to a barrier made
//! of one mutex and one condition variable, where the last to arrive wakes all others.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::support::crew::work_together;
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

/// Computes as planned on the calling thread's runtime. Gives the time from when all threads stand ready to the last
/// barrier.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn compute<L: Library>(plan: Plan) -> io::Result<Duration> {
    let barrier = Arc::new(Barrier::<L>::new(u64::from(plan.threads)));
    let shared = Arc::clone(&barrier);
    let elapsed = work_together::<L>(plan.threads, plan.attributes, move |_| work(plan, &shared), || ())?;
    assert_eq!(barrier.rounds(), u64::from(plan.rounds), "a wrong number of barriers was passed");
    Ok(elapsed)
}

/// One thread's life.
fn work<L: Library>(plan: Plan, barrier: &Barrier<L>) {
    let mut matrix = vec![0_u32; plan.side * plan.side];
    for round in 1..=plan.rounds {
        increment(&mut matrix, plan.iterations);
        barrier.wait();
        // Who passes a barrier early finds others behind, or a count that is not its own.
        debug_assert!(barrier.rounds() >= u64::from(round));
    }
    let total = plan.iterations.wrapping_mul(plan.rounds);
    assert!(matrix.iter().all(|&cell| cell == total), "a cell was not incremented {total} times");
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
}

struct Arrivals {
    count: u64,
    rounds: u64,
}

impl<L: Library> Barrier<L> {
    fn new(parties: u64) -> Self {
        let state = L::Mutex::new(Arrivals { count: 0, rounds: 0 });
        Self { state, changed: L::Condvar::default(), parties }
    }

    /// Waits for all others.
    fn wait(&self) {
        let mut arrivals = self.state.lock();
        let round = arrivals.rounds;
        arrivals.count += 1;
        if arrivals.count == self.parties {
            arrivals.count = 0;
            arrivals.rounds += 1;
            L::notify_all(&self.changed);
            return;
        }
        while arrivals.rounds == round {
            arrivals = L::wait(&self.changed, arrivals);
        }
    }

    /// How often all parties have met.
    fn rounds(&self) -> u64 {
        self.state.lock().rounds
    }
}
