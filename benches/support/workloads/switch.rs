//! Two threads that let each other run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::contender::{Contender, Workload};

/// An operation is one yield of each.
#[derive(Clone, Copy)]
pub(crate) struct Yield;

impl Workload for Yield {
    fn threads<C: Contender>(self, yields: u64) -> Duration {
        let here = Arc::new(AtomicU32::new(0));
        let [first, second] = [(); 2].map(|()| {
            let here = Arc::clone(&here);
            move || {
                // Relaxed: the number is all there is to see.
                here.fetch_add(1, Ordering::Relaxed);
                while here.load(Ordering::Relaxed) < 2 {
                    C::yield_now();
                }
                for _ in 0..yields {
                    C::yield_now();
                }
            }
        });
        let start = Instant::now();
        let (first, second) = (C::start(first), C::start(second));
        C::join(first);
        C::join(second);
        start.elapsed()
    }

    async fn tasks(self, yields: u64) -> Duration {
        let here = Arc::new(AtomicU32::new(0));
        let [first, second] = [(); 2].map(|()| {
            let here = Arc::clone(&here);
            async move {
                here.fetch_add(1, Ordering::Relaxed);
                while here.load(Ordering::Relaxed) < 2 {
                    tokio::task::yield_now().await;
                }
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
            }
        });
        let start = Instant::now();
        let (first, second) = (tokio::spawn(first), tokio::spawn(second));
        first.await.unwrap();
        second.await.unwrap();
        start.elapsed()
    }
}
