//! What does it cost to start a thread that does nothing, and to join it?
//!
//! Creators start a few threads, join them, and start again. The figure is the time of all by the number of threads.

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::contender::{Contender, Workload, all};
use support::harness::{Question, Unit, answer};

fn main() -> ExitCode {
    let cells = [(1, 1), (1, 10), (4, 1), (4, 10), (20, 1), (20, 10)];
    let ask = |(creators, at_a_time)| {
        let name = format!("spawn + join, {creators} creators, {at_a_time} at a time");
        let cases = all(Spawn { creators, at_a_time });
        Question::new(name, Unit::NanosEach("a thread"), cases).per_operation(creators * at_a_time)
    };
    answer(cells.into_iter().map(ask).collect())
}

/// An operation is one round of all creators.
#[derive(Clone, Copy)]
struct Spawn {
    creators: u64,
    at_a_time: u64,
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
