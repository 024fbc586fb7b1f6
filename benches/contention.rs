//! What becomes of locks that many threads want?
//!
//! The experiment of `examples/contention.rs`: 32 threads that enter 50,000 critical regions each, of 1, 8 and 32. As in the
//! paper, it is one run for each sample. Then with as few threads as programs have that were tuned: by the entry, warm.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::contender::{Contender, Workload, some};
use support::contention::{Choice, Plan, compete};
use support::harness::{Question, Unit, answer};
use support::library::Attributes;

/// All that have locks.
const CONTENDERS: [&str; 10] = [
    "mxn",
    "mxn, 1 slot",
    "onetoone",
    "parking_lot",
    "std",
    "pthread",
    "may",
    "may, 1 worker",
    "tokio",
    "tokio, current thread",
];

/// The paper's.
const THREADS: u32 = 32;
const ENTRIES: u64 = 50_000;
const REGIONS: [u32; 3] = [1, 8, 32];

fn main() -> ExitCode {
    let mut questions = Vec::new();
    for regions in REGIONS {
        let cases = some(&CONTENDERS, Contention { threads: THREADS, regions });
        let name = format!("contention, {THREADS} threads, {regions} regions");
        questions.push(Question::new(name, Unit::MillisInAll, cases).fixed(ENTRIES));
    }
    for threads in [1, 2, 4, 8] {
        for regions in REGIONS {
            let cases = some(&CONTENDERS, Contention { threads, regions });
            let name = format!("contention, {threads} threads, {regions} regions");
            questions.push(
                Question::new(name, Unit::NanosEach("an entry"), cases).per_operation(u64::from(threads)),
            );
        }
    }
    answer(questions)
}

/// An operation is one entry of each thread.
#[derive(Clone, Copy)]
struct Contention {
    threads: u32,
    regions: u32,
}

impl Workload for Contention {
    fn threads<C: Contender>(self, entries: u64) -> Duration {
        let Self { threads, regions } = self;
        let attributes = Attributes::default();
        let plan = Plan { threads, regions, entries: entries as u32, attributes };
        compete::<C>(plan).expect("a few threads").all(plan)
    }

    async fn tasks(self, entries: u64) -> Duration {
        let regions: Arc<[Region]> = (0..self.regions).map(|_| Region::default()).collect();
        let start = Instant::now();
        let work = |number| {
            let regions = Arc::clone(&regions);
            tokio::spawn(async move {
                let mut choice = Choice::of(number);
                for _ in 0..entries {
                    *regions[choice.below(regions.len() as u32) as usize].0.lock().await += 1;
                }
            })
        };
        for worker in (0..self.threads).map(work).collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        start.elapsed()
    }
}

/// Apart from each other in memory.
#[derive(Default)]
#[repr(align(128))]
struct Region(tokio::sync::Mutex<u64>);
