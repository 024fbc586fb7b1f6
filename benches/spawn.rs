//! What does it cost to start a thread that does nothing, and to join it?
//!
//! The experiment of `examples/creation.rs`, at a few points of its table: creators have so many children at a time, and join
//! the oldest before they create the next. The figure is the time of all by the number of children.

mod support;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::contender::{Contender, Workload, all};
use support::creation::{Plan, create};
use support::harness::{Question, Unit, answer};
use tokio::task::JoinHandle;

fn main() -> ExitCode {
    let cells = [(1, 1), (1, 10), (4, 1), (4, 10), (20, 1), (20, 10)];
    let ask = |(creators, at_a_time)| {
        let name = format!("spawn + join, {creators} creators, {at_a_time} at a time");
        let cases = all(Spawn { creators, at_a_time });
        Question::new(name, Unit::NanosEach("a thread"), cases)
            .per_operation(u64::from(creators) * u64::from(at_a_time))
    };
    answer(cells.into_iter().map(ask).collect())
}

/// An operation is as many children of each creator as it may have at a time.
#[derive(Clone, Copy)]
struct Spawn {
    creators: u32,
    at_a_time: u32,
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
