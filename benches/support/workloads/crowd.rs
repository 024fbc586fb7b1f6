//! Threads that all exist at once, and do nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::support::contender::{Contender, Workload};
use crate::support::crew::work_together;
use crate::support::library::Attributes;

/// Time to start so many threads, which wait until all exist, to let them go, and to join them. An
/// operation is a thread.
#[derive(Clone, Copy)]
pub(crate) struct Crowd;

impl Workload for Crowd {
    fn threads<C: Contender>(self, threads: u64) -> Duration {
        let start = Instant::now();
        work_together::<C>(threads as u32, Attributes::default(), |_| (), || ()).unwrap();
        start.elapsed()
    }

    async fn tasks(self, tasks: u64) -> Duration {
        let start = Instant::now();
        let gate = Arc::new(Semaphore::new(0));
        let wait = |_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { drop(gate.acquire().await.unwrap()) })
        };
        let crowd: Vec<_> = (0..tasks).map(wait).collect();
        gate.add_permits(1);
        for task in crowd {
            task.await.unwrap();
        }
        start.elapsed()
    }
}
