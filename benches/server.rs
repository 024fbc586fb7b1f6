//! How fast is a server with a thread for each connection, whatever its clients are?
//!
//! Each sample is a server of one library, and one client for all libraries: tasks on one kernel thread, in
//! a process of its own (`benches/support/workloads/server.rs`). Both share all CPUs, so a server's share of
//! the figure is less than the whole.
//!
//! Echo: 64 bytes there and back, as `examples/echo.rs` does. The figures are time by messages, and how long
//! the slowest of a hundred messages takes at least.
//!
//! Visits: connect, say one byte, hear it back, and close. 64 are under way at once.

mod support;

use std::process::ExitCode;

use support::contender::{all, pick};
use support::harness::{Question, Unit, answer};
use support::ours::allow_all_lwps;
use support::workloads::server::{Echoes, Visits, be_client};

/// tokio stands here on one thread, too: then it wakes no other, and the client has a CPU to itself.
const SERVERS: [&str; 7] =
    ["mxn", "mxn, register by syscall", "onetoone", "std", "may", "tokio", "tokio, current thread"];

fn main() -> ExitCode {
    if let Some(status) = be_client() {
        return status;
    }
    let mut questions = Vec::new();
    for connections in [1, 1_000, 10_000] {
        let name =
            format!("echo server, {connections} connection{}", if connections == 1 { "" } else { "s" });
        let first = if connections > 100 { 10 } else { 1_000 };
        let time = Echoes::time(connections);
        let each = Unit::NanosEach("a message");
        let question = Question::new(name.clone(), each, pick(&SERVERS, all(time)));
        questions.push(question.per_operation(connections.into()).first(first).prepare(allow_all_lwps));
        let slowest = Echoes::slowest(connections);
        let worst = Unit::NanosEach("at the 99th percentile");
        let question = Question::new(format!("{name}, slowest"), worst, pick(&SERVERS, all(slowest)));
        questions.push(question.first(first).prepare(allow_all_lwps));
    }
    let visits = Question::new("visits", Unit::NanosEach("a visit"), pick(&SERVERS, all(Visits)));
    questions.push(visits.first(2_000).prepare(allow_all_lwps));
    answer(questions)
}
