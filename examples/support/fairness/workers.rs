//! Threads that do equal work and want one lock, for a time or for a number of turns.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Steps of computing in a turn, without the lock and with it. A step takes about two nanoseconds.
    pub(crate) outside: u32,
    pub(crate) inside: u32,
    pub(crate) until: Until,
}

/// When a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the time is over.
    Time(Duration),
    /// After so many turns of its own.
    Turns(u64),
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Turns of each thread.
    pub(crate) served: Vec<u64>,
    pub(crate) elapsed: Duration,
}

impl Outcome {
    pub(crate) fn most(&self) -> u64 {
        self.served.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn least(&self) -> u64 {
        self.served.iter().copied().min().unwrap_or(0)
    }

    /// Turns of all threads.
    pub(crate) fn total(&self) -> u64 {
        self.served.iter().sum()
    }

    /// By how much the least served falls behind the most served, as a share of what that one got.
    pub(crate) fn gap(&self) -> f64 {
        (self.most() - self.least()) as f64 / self.most().max(1) as f64
    }
}

/// Lets them work on the calling thread's runtime.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn work<L: Library>(plan: Plan) -> io::Result<Outcome> {
    let shared = Arc::new(Shared::<L> { turns: L::Mutex::new(0), over: AtomicBool::new(false) });
    let (tell, served) = std::sync::mpsc::channel();
    let worker = {
        let shared = Arc::clone(&shared);
        move |_| tell.send(shared.turns_of(plan)).expect("somebody counts")
    };
    let elapsed = work_together::<L>(plan.threads, Attributes::default(), worker, || {
        if let Until::Time(time) = plan.until {
            L::sleep(time);
            shared.over.store(true, Ordering::Relaxed);
        }
    })?;
    let outcome = Outcome { served: served.iter().collect(), elapsed };
    assert_eq!(outcome.served.len(), plan.threads as usize);
    assert_eq!(*shared.turns.lock(), outcome.total(), "the lock did not exclude");
    Ok(outcome)
}

struct Shared<L: Library> {
    turns: L::Mutex<u64>,
    over: AtomicBool,
}

impl<L: Library> Shared<L> {
    /// One thread's turns.
    fn turns_of(&self, plan: Plan) -> u64 {
        let mut mine = 0;
        loop {
            let over = match plan.until {
                // Relaxed: that it is over is all there is to see.
                Until::Time(_) => self.over.load(Ordering::Relaxed),
                Until::Turns(turns) => mine == turns,
            };
            if over {
                return mine;
            }
            compute(plan.outside);
            let mut turns = self.turns.lock();
            compute(plan.inside);
            *turns += 1;
            drop(turns);
            mine += 1;
        }
    }
}

/// Computes for some time: steps of which each needs the one before, and which no formula shortens.
#[inline(never)]
pub(crate) fn compute(steps: u32) {
    let mut x = black_box(1_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}
