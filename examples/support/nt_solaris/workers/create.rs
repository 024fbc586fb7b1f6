//! One thread that makes many, which do nothing; among others that leave no CPU idle, or not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::compute::steps;
use super::{Tally, cannot_start};
use crate::support::library::{Attributes, Library, Lock};

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Threads that compute meanwhile.
    pub(crate) busy: u32,
    pub(crate) attributes: Attributes,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Created {
    /// Until all were made.
    pub(crate) making: Duration,
    /// Until all had ended; counts those that ran.
    pub(crate) all: Tally,
}

/// Makes them on the calling thread's runtime.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn create<L: Library>(plan: Plan) -> io::Result<Created> {
    let busy = Busy::<L>::start(plan.busy, plan.attributes)?;
    let created = create_all::<L>(plan);
    busy.stop();
    created
}

fn create_all<L: Library>(plan: Plan) -> io::Result<Created> {
    let ran = Arc::new(AtomicU64::new(0));
    let mut crew = Vec::with_capacity(plan.threads as usize);
    let start = Instant::now();
    for number in 0..plan.threads {
        let ran = Arc::clone(&ran);
        // Relaxed: the joins order it.
        let body = move || {
            ran.fetch_add(1, Ordering::Relaxed);
        };
        match L::spawn(plan.attributes, body) {
            Ok(thread) => crew.push(thread),
            Err(error) => {
                crew.into_iter().for_each(L::join);
                return Err(cannot_start(&error, number, plan.threads));
            }
        }
    }
    let making = start.elapsed();
    crew.into_iter().for_each(L::join);
    let elapsed = start.elapsed();
    let all = Tally { elapsed, counted: ran.load(Ordering::Relaxed), due: plan.threads.into() };
    Ok(Created { making, all })
}

/// Threads that compute until they are stopped.
struct Busy<L: Library> {
    threads: Vec<L::Thread>,
    over: Arc<AtomicBool>,
}

impl<L: Library> Busy<L> {
    /// Starts them, and waits until all have begun.
    fn start(count: u32, attributes: Attributes) -> io::Result<Self> {
        let begun = Arc::new((L::Mutex::new(0), L::Condvar::default()));
        let mut busy = Self { threads: Vec::new(), over: Arc::default() };
        for number in 0..count {
            let (over, begun) = (Arc::clone(&busy.over), Arc::clone(&begun));
            let spawned = L::spawn(attributes, move || {
                *begun.0.lock() += 1;
                L::notify_one(&begun.1);
                // Relaxed: that it is over is all there is to see.
                while !over.load(Ordering::Relaxed) {
                    steps(1_000);
                }
            });
            match spawned {
                Ok(thread) => busy.threads.push(thread),
                Err(error) => {
                    busy.stop();
                    return Err(cannot_start(&error, number, count));
                }
            }
        }
        let mut running = begun.0.lock();
        while *running < count {
            running = L::wait(&begun.1, running);
        }
        drop(running);
        Ok(busy)
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(L::join);
    }
}
