//! Creators that have a few threads each at a time: when there are so many, the oldest is joined before
//! the next is started.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::support::contender::{Contender, Workload};
use crate::support::creation::{Plan, create};

/// An operation is as many children of each creator as it may have at a time.
#[derive(Clone, Copy)]
pub(crate) struct Spawn {
    pub(crate) creators: u32,
    pub(crate) at_a_time: u32,
}

impl Workload for Spawn {
    fn threads<C: Contender>(self, operations: u64) -> Duration {
        let Self { creators, at_a_time } = self;
        let creations = operations * u64::from(creators) * u64::from(at_a_time);
        let plan = Plan { creators, at_a_time, creations };
        create::<C>(plan, |_| Ok(C::start(|| ()))).expect("a few threads")
    }

    async fn tasks(self, operations: u64) -> Duration {
        let at_a_time = self.at_a_time as usize;
        let create = move || async move {
            let mut children = VecDeque::with_capacity(at_a_time);
            for _ in 0..operations * at_a_time as u64 {
                if children.len() == at_a_time {
                    let oldest: JoinHandle<()> = children.pop_front().expect("one at a time at least");
                    oldest.await.unwrap();
                }
                children.push_back(tokio::spawn(async {}));
            }
            for child in children {
                child.await.unwrap();
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
