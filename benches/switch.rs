//! What does `yield_now` cost between two threads that share one CPU?
//!
//! All threads are kept on one CPU, and the M:N runtimes have one worker, so that each yield is one
//! switch. The figure is time by yields of both threads. M:N once more without time slices
//! (`cooperative`): slices that never end cost nothing.

mod support;

use std::process::ExitCode;

use support::affinity;
use support::contender::some;
use support::harness::{Question, Unit, answer};
use support::workloads::switch::Yield;

fn main() -> ExitCode {
    let names = [
        "mxn, 1 slot",
        "mxn, 1 slot, cooperative",
        "mxn, 1 slot, by syscall",
        "mxn, pinned",
        "onetoone",
        "std",
        "pthread",
        "may, 1 worker",
        "tokio, current thread",
    ];
    let one_cpu = || affinity::pin(affinity::allowed()[0]);
    let question = Question::new("yield", Unit::NanosEach("a yield"), some(&names, Yield));
    answer(vec![question.per_operation(2).prepare(one_cpu)])
}
