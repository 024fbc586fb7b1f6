//! Threads that do equal work and want one lock, for a time or for a number of turns.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::crew::{Sampler, work_together};
use crate::support::library::{Attributes, Library, Lock};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Steps of computing in a turn, without the lock and with it. A step takes about two nanoseconds.
    pub(crate) outside: u32,
    pub(crate) inside: u32,
    pub(crate) until: Until,
    pub(crate) attributes: Attributes,
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
pub(crate) struct Shares {
    /// Turns of each thread.
    pub(crate) served: Vec<u64>,
    /// Turns counted under the lock.
    pub(crate) counted: u64,
    pub(crate) elapsed: Duration,
}

impl Shares {
    /// The same, after a check.
    ///
    /// # Panics
    /// A turn was not counted, as it happens if two threads have the lock.
    pub(crate) fn exact(self) -> Self {
        assert_eq!(self.counted, self.total(), "the lock did not exclude");
        self
    }

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

/// Lets them work on the calling thread's runtime. `watch` gets something that counts their turns; what
/// it gives is kept until all have ended.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn work<L: Library, W>(plan: Plan, watch: impl FnOnce(Sampler) -> W) -> io::Result<Shares> {
    let shared = Arc::new(Shared::<L> {
        turns: L::Mutex::new(0),
        served: (0..plan.threads).map(|_| Served::default()).collect(),
        over: AtomicBool::new(false),
    });
    let (theirs, seen) = (Arc::clone(&shared), Arc::clone(&shared));
    let worker = move |number| theirs.take_turns(plan, number);
    let mut watching = None;
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || {
        watching = Some(watch(Box::new(move || seen.served().sum())));
        if let Until::Time(time) = plan.until {
            L::sleep(time);
            shared.over.store(true, Ordering::Relaxed);
        }
    })?;
    drop(watching);
    let counted = *shared.turns.lock();
    Ok(Shares { served: shared.served().collect(), counted, elapsed })
}

struct Shared<L: Library> {
    turns: L::Mutex<u64>,
    /// Of each thread.
    served: Box<[Served]>,
    over: AtomicBool,
}

/// Turns of one thread, apart from the others' in memory.
#[derive(Default)]
#[repr(align(128))]
struct Served(AtomicU64);

impl<L: Library> Shared<L> {
    /// Turns of each thread so far.
    fn served(&self) -> impl Iterator<Item = u64> {
        // Relaxed: for progress, about right is right; for the exact number, the caller joins the threads.
        self.served.iter().map(|served| served.0.load(Ordering::Relaxed))
    }

    /// One thread's turns.
    fn take_turns(&self, plan: Plan, number: u32) {
        let served = &self.served[number as usize].0;
        let mut mine = 0;
        loop {
            let over = match plan.until {
                // Relaxed: that it is over is all there is to see.
                Until::Time(_) => self.over.load(Ordering::Relaxed),
                Until::Turns(turns) => mine == turns,
            };
            if over {
                return;
            }
            compute(plan.outside);
            let mut turns = self.turns.lock();
            compute(plan.inside);
            *turns += 1;
            drop(turns);
            mine += 1;
            // Relaxed: nothing goes with it.
            served.store(mine, Ordering::Relaxed);
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
