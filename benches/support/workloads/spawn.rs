//! Creators that start a few threads, join them, and start again.

use std::time::{Duration, Instant};

use crate::support::contender::{Contender, Workload};

/// An operation is one round of all creators.
#[derive(Clone, Copy)]
pub(crate) struct Spawn {
    pub(crate) creators: u64,
    pub(crate) at_a_time: u64,
}

impl Workload for Spawn {
    fn threads<C: Contender>(self, rounds: u64) -> Duration {
        let create = move || {
            let mut children = Vec::with_capacity(self.at_a_time as usize);
            for _ in 0..rounds {
                children.extend((0..self.at_a_time).map(|_| C::start(|| ())));
                children.drain(..).for_each(C::join);
            }
        };
        let start = Instant::now();
        let creators: Vec<_> = (0..self.creators).map(|_| C::start(create)).collect();
        creators.into_iter().for_each(C::join);
        start.elapsed()
    }

    async fn tasks(self, rounds: u64) -> Duration {
        let create = move || async move {
            let mut children = Vec::with_capacity(self.at_a_time as usize);
            for _ in 0..rounds {
                children.extend((0..self.at_a_time).map(|_| tokio::spawn(async {})));
                for child in children.drain(..) {
                    child.await.unwrap();
                }
            }
        };
        let start = Instant::now();
        let creators: Vec<_> = (0..self.creators).map(|_| tokio::spawn(create())).collect();
        for creator in creators {
            creator.await.unwrap();
        }
        start.elapsed()
    }
}
