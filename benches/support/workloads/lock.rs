//! A mutex without contention.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::support::apart::Apart;
use crate::support::contender::{Contender, Workload};
use crate::support::library::Lock;

/// An operation is a lock and an unlock.
#[derive(Clone, Copy)]
pub(crate) struct LockUnlock;

impl Workload for LockUnlock {
    fn threads<C: Contender>(self, pairs: u64) -> Duration {
        let mutex = Apart(C::Mutex::new(()));
        let start = Instant::now();
        for _ in 0..pairs {
            drop(black_box(&mutex).lock());
        }
        start.elapsed()
    }

    async fn tasks(self, pairs: u64) -> Duration {
        let mutex = Apart(tokio::sync::Mutex::new(()));
        let start = Instant::now();
        for _ in 0..pairs {
            drop(black_box(&mutex).lock().await);
        }
        start.elapsed()
    }
}
