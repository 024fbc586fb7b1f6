//! Threads that do equal work and want one lock, for a time or for a number of turns.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    let shared = Arc::new(Shared::<L> {
        gate: L::Mutex::new(Gate::Closed),
        opened: L::Condvar::default(),
        turns: L::Mutex::new(0),
        over: AtomicBool::new(false),
    });
    let mut threads = Vec::new();
    let (tell, served) = std::sync::mpsc::channel();
    let mut failure = None;
    for number in 1..=plan.threads {
        let (shared, tell) = (Arc::clone(&shared), tell.clone());
        let worker = move || {
            if shared.pass_gate() {
                tell.send(shared.turns_of(plan)).expect("somebody counts");
            }
        };
        match L::spawn(Attributes::default(), worker) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let message = format!("cannot start thread {number} of {}: {error}", plan.threads);
                failure = Some(io::Error::new(error.kind(), message));
                break;
            }
        }
    }
    let start = Instant::now();
    *shared.gate.lock() = if failure.is_none() { Gate::Open } else { Gate::CalledOff };
    L::notify_all(&shared.opened);
    if let (None, Until::Time(time)) = (&failure, plan.until) {
        L::sleep(time);
        shared.over.store(true, Ordering::Relaxed);
    }
    threads.into_iter().for_each(L::join);
    let elapsed = start.elapsed();
    drop(tell);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = Outcome { served: served.iter().collect(), elapsed };
    assert_eq!(outcome.served.len(), plan.threads as usize);
    assert_eq!(*shared.turns.lock(), outcome.total(), "the lock did not exclude");
    Ok(outcome)
}

#[derive(Clone, Copy)]
enum Gate {
    Closed,
    Open,
    CalledOff,
}

struct Shared<L: Library> {
    gate: L::Mutex<Gate>,
    opened: L::Condvar,
    turns: L::Mutex<u64>,
    over: AtomicBool,
}

impl<L: Library> Shared<L> {
    /// Waits until all threads exist. `false`: they never will.
    fn pass_gate(&self) -> bool {
        let mut gate = self.gate.lock();
        loop {
            match *gate {
                Gate::Closed => gate = L::wait(&self.opened, gate),
                Gate::Open => return true,
                Gate::CalledOff => return false,
            }
        }
    }

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
