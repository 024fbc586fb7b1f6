//! How long does a hand-off take between two kernel threads, by where the kernel puts them?
//!
//! The game of `examples/pingpong.rs` on the 1:1 contenders. Unpinned, its time has two modes: the pair
//! on one CPU, or split over two. So each is asked for by affinity.

mod support;

use std::process::ExitCode;

use support::affinity;
use support::contender::{KERNEL, some_threads};
use support::harness::{Question, Unit, answer};
use support::workloads::pingpong::{Games, SplitPair};

fn main() -> ExitCode {
    let unit = Unit::NanosEach("a hand-off");
    let cases = some_threads(&KERNEL, Games::few(1));
    let packed = Question::new("ping-pong, 1 game, packed on one CPU", unit, cases);
    let mut questions = vec![packed.per_operation(2).prepare(|| affinity::pin(affinity::allowed()[0]))];
    if affinity::allowed().len() > 1 {
        let cases = some_threads(&KERNEL, SplitPair);
        let split = Question::new("ping-pong, 1 game, split over two CPUs", unit, cases);
        questions.insert(0, split.per_operation(2));
    } else {
        eprintln!("skipped: ping-pong split over two CPUs: there is one");
    }
    answer(questions)
}
