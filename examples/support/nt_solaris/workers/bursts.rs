//! Threads that are idle for a while, compute for a while, and begin again.
//!
//! The more of the time each of them computes, the fewer it takes to keep all CPUs busy. When the idle time
//! of a thread is over, it wants a CPU. From then until it has computed is the *turn-around* of its burst.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Tally;
use super::compute::{result_of, steps};
use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Of each thread.
    pub(crate) bursts: u32,
    /// Steps of computing in a burst.
    pub(crate) steps: u64,
    /// Before each burst.
    pub(crate) idle: Duration,
    pub(crate) attributes: Attributes,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    /// Counts the bursts that came to the right result.
    pub(crate) all: Tally,
    /// The sum of all turn-arounds.
    pub(crate) turn_around: Duration,
    pub(crate) worst: Duration,
}

impl Bursts {
    /// Of a burst.
    pub(crate) fn mean_turn_around(&self) -> Duration {
        self.turn_around.div_f64(self.all.counted.max(1) as f64)
    }

    /// Bursts in a second.
    pub(crate) fn throughput(&self) -> f64 {
        self.all.counted as f64 / self.all.elapsed.as_secs_f64()
    }
}

/// Lets them work on the calling thread's runtime.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn burst<L: Library>(plan: Plan) -> io::Result<Bursts> {
    let sum = Arc::new(L::Mutex::new(Sum::default()));
    let worker = {
        let (sum, expected) = (Arc::clone(&sum), result_of(plan.steps));
        move |_| {
            let mut mine = Sum::default();
            for _ in 0..plan.bursts {
                let wanted = Instant::now() + plan.idle;
                L::sleep(plan.idle);
                let right = steps(plan.steps) == expected;
                mine.add(&Sum::of(u64::from(right), wanted.elapsed()));
            }
            sum.lock().add(&mine);
        }
    };
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || ())?;
    let sum = sum.lock();
    let due = u64::from(plan.threads) * u64::from(plan.bursts);
    let all = Tally { elapsed, counted: sum.right, due };
    Ok(Bursts { all, turn_around: sum.turn_around, worst: sum.worst })
}

#[derive(Default)]
struct Sum {
    right: u64,
    turn_around: Duration,
    worst: Duration,
}

impl Sum {
    fn of(right: u64, turn_around: Duration) -> Self {
        Self { right, turn_around, worst: turn_around }
    }

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.turn_around += other.turn_around;
        self.worst = self.worst.max(other.worst);
    }
}
