//! What does it cost to start a thread that does nothing, and to join it?
//!
//! The experiment of `examples/creation.rs`, at a few points of its table. Creators have so many children at
//! a time, and join the oldest before they create the next. The figure is the time of all by the number of
//! children.

mod support;

use std::process::ExitCode;

use support::contender::all;
use support::harness::{Question, Unit, answer};
use support::workloads::spawn::Spawn;

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
