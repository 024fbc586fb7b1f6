//! The barriers of `examples/barriers.rs`, fine-grained and coarse-grained.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::barriers::{Plan, compute, increment};
use crate::support::contender::{Contender, Workload};
use crate::support::library::Attributes;

/// An operation is one round of all threads.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) threads: u32,
    pub(crate) iterations: u32,
    pub(crate) side: usize,
    pub(crate) bound: bool,
}

impl Rounds {
    /// On the paper's small matrix.
    pub(crate) fn fine(threads: u32, iterations: u32) -> Self {
        Self { threads, iterations, side: 2, bound: false }
    }

    /// On a matrix that fits into the first cache. With 400,000 iterations, one thread's round lasts some
    /// 45 ms.
    pub(crate) fn coarse(threads: u32, iterations: u32) -> Self {
        Self { threads, iterations, side: 50, bound: false }
    }
}

impl Workload for Rounds {
    fn threads<C: Contender>(self, rounds: u64) -> Duration {
        let Self { threads, iterations, side, bound } = self;
        let attributes = Attributes { stack_size: None, bound };
        let plan = Plan { threads, iterations, side, rounds: rounds as u32, attributes };
        compute::<C, _>(plan, |_| ()).expect("a few threads").all(plan)
    }

    async fn tasks(self, rounds: u64) -> Duration {
        let barrier = Arc::new(tokio::sync::Barrier::new(self.threads as usize));
        let start = Instant::now();
        let work = |_| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                let mut matrix = vec![0; self.side * self.side];
                for _ in 0..rounds {
                    increment(&mut matrix, self.iterations);
                    barrier.wait().await;
                }
            })
        };
        for worker in (0..self.threads).map(work).collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        start.elapsed()
    }
}
