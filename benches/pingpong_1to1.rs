//! How long does a hand-off take between two kernel threads, by where the kernel puts them?
//!
//! The game of `examples/pingpong.rs` on the 1:1 contenders. Unpinned, its time has two modes: the pair on one CPU, or
//! split over two. So each is asked for by affinity.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use support::affinity;
use support::contender::{Contender, Workload, some};
use support::game::{Rest, Tournament, play};
use support::harness::{Question, Unit, answer};
use support::library::{Attributes, Library};
use support::split::Split;

fn main() -> ExitCode {
    let names = ["onetoone", "std", "parking_lot", "pthread"];
    let unit = Unit::NanosEach("a hand-off");
    let packed = Question::new("ping-pong, 1 game, packed on one CPU", unit, some(&names, Packed));
    let mut questions = vec![packed.per_operation(2).prepare(|| affinity::pin(affinity::allowed()[0]))];
    if affinity::allowed().len() > 1 {
        let split = Question::new("ping-pong, 1 game, split over two CPUs", unit, some(&names, SplitPair));
        questions.insert(0, split.per_operation(2));
    } else {
        println!("skipped: ping-pong split over two CPUs: there is one");
    }
    answer(questions)
}

/// The process stays on one CPU.
#[derive(Clone, Copy)]
struct Packed;

impl Workload for Packed {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        playing::<C>(moves)
    }

    async fn tasks(self, _moves: u64) -> Duration {
        unreachable!("tasks are not 1:1")
    }
}

/// The two players are kept on different CPUs.
#[derive(Clone, Copy)]
struct SplitPair;

impl Workload for SplitPair {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        playing::<Split<C>>(moves)
    }

    async fn tasks(self, _moves: u64) -> Duration {
        unreachable!("tasks are not 1:1")
    }
}

fn playing<L: Library>(moves: u64) -> Duration {
    let attributes = Attributes::default();
    let tournament = Tournament { games: 1, target: moves as u32, rest: Rest::None, attributes };
    play::<L, _>(tournament, |_, _| ()).unwrap().all(1)
}
