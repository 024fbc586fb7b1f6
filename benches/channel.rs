//! What does it cost to pass a message?
//!
//! A number of senders, a number of receivers, and one channel between them, which holds none, 1, 64 or
//! any number of messages. A message is a word. Each sender sends the same number, each receiver receives
//! the same number. Peers that lack a kind of channel, or several receivers, are not asked.

mod support;

use std::process::ExitCode;

use support::harness::{Question, Unit, answer};
use support::workloads::channel::Traffic;

fn main() -> ExitCode {
    let kinds =
        [("bounded 0", Some(0)), ("bounded 1", Some(1)), ("bounded 64", Some(64)), ("unbounded", None)];
    let shapes = [("1:1", 1, 1), ("n:1", 4, 1), ("n:n", 4, 4)];
    let questions = kinds.iter().flat_map(|&(kind, capacity)| {
        shapes.map(|(shape, senders, receivers)| {
            let cases = Traffic { capacity, senders, receivers }.cases();
            Question::new(format!("{kind}, {shape}"), Unit::NanosEach("a message"), cases)
        })
    });
    answer(questions.collect())
}
