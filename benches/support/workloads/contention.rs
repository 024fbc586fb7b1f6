//! The critical regions of `examples/contention.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::contender::{Contender, Workload};
use crate::support::contention::{Choice, Plan, compete};
use crate::support::library::Attributes;

/// An operation is one entry of each thread.
#[derive(Clone, Copy)]
pub(crate) struct Contention {
    pub(crate) threads: u32,
    pub(crate) regions: u32,
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
