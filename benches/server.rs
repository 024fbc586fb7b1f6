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
//!
//! Resting connections: what the server has in memory for each of ten thousand that have been answered once.

mod support;

use std::process::ExitCode;

use support::contender::{all, and_unmodified, pick, threads};
use support::harness::{Question, Unit, answer};
use support::open_files;
use support::ours::allow_all_lwps;
use support::workloads::resting::{self, Resting};
use support::workloads::server::{Echoes, Visits, be_client};

/// tokio stands here on one thread, too: then it wakes no other, and the client has a CPU to itself.
const SERVERS: [&str; 7] =
    ["mxn", "mxn, register by syscall", "may", "tokio", "tokio, current thread", "onetoone", "std"];
/// Kernel threads are too many for it, and may's first thread cannot wait for the client.
const RESTS: [&str; 4] = ["mxn", "mxn, register by syscall", "tokio", "tokio, current thread"];
/// So many connections rest.
const RESTING: u64 = 10_000;
/// So many of them can serve ten thousand connections without as many kernel threads.
const GREEN: usize = 5;

fn main() -> ExitCode {
    if let Some(status) = be_client() {
        return status;
    }
    let mut questions = Vec::new();
    let all_servers = and_unmodified(&SERVERS);
    let green = and_unmodified(&SERVERS[..GREEN]);
    for (connections, servers) in [(1, &all_servers), (1_000, &all_servers), (10_000, &green)] {
        // The system may not allow as many open files.
        if let Err(error) = open_files::make_room(u64::from(connections) + 1) {
            eprintln!("skipped: {connections} connections: {error}");
            continue;
        }
        let name =
            format!("echo server, {connections} connection{}", if connections == 1 { "" } else { "s" });
        let first = if connections > 100 { 10 } else { 1_000 };
        let each = Unit::NanosEach("a message");
        let time = Question::new(name.clone(), each, pick(servers, all(Echoes::time(connections))));
        let worst = Unit::NanosEach("at the 99th percentile");
        let slowest = pick(servers, all(Echoes::slowest(connections)));
        let slowest = Question::new(name + ", slowest", worst, slowest);
        questions.extend([time.per_operation(connections.into()), slowest].map(|question| {
            question.first(first).prepare(allow_all_lwps).only_measured(connections > 1_000)
        }));
    }
    let visits = Question::new("visits", Unit::NanosEach("a visit"), pick(&all_servers, all(Visits)));
    questions.push(visits.first(2_000).prepare(allow_all_lwps));
    if let Err(error) = open_files::make_room(RESTING + 1) {
        eprintln!("skipped: resting connections: {error}");
    } else {
        let mut cases = threads(Resting);
        cases.extend(resting::tasks());
        let unit = Unit::Number("bytes resident each");
        let resting = Question::new("resting connections", unit, pick(&RESTS, cases));
        questions.push(resting.fixed(RESTING).prepare(allow_all_lwps));
    }
    answer(questions)
}
