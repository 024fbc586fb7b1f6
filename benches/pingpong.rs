//! How long does a hand-off take between two threads in lock step? And with thousands of such pairs?
//!
//! The game of `examples/pingpong.rs`, with all defaults. A hand-off is half an iteration. Time to play
//! only: from the first serve to the end of the last game. The first question compares M:N with time
//! slices, which never end here, to M:N without.

mod support;

use std::process::ExitCode;

use support::contender::{all, some};
use support::harness::{Question, Unit, answer};
use support::workloads::pingpong::Games;

fn main() -> ExitCode {
    let hand_off = Unit::NanosEach("a hand-off");
    let crowd = Games::many(5_000);
    let slices = ["mxn, 1 slot", "mxn, 1 slot, cooperative", "mxn", "mxn, cooperative"];
    answer(vec![
        Question::new("slices, 1 game", hand_off, some(&slices, Games::few(1))).per_operation(2),
        Question::new("ping-pong, 1 game", hand_off, all(Games::few(1))).per_operation(2),
        Question::new("ping-pong, 4 games", hand_off, all(Games::few(4))).per_operation(8),
        Question::new("ping-pong, 5000 games of 100, play", Unit::MillisInAll, all(crowd)).fixed(100),
    ])
}
