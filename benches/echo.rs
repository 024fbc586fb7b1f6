//! How fast does a message come back over TCP, where each connection has a thread at both ends?
//!
//! The experiment of `examples/echo.rs`, both ends in one process: 64 bytes there and back over the
//! loopback, for 1, 64 and 1,000 connections at once. The figure is time by messages.
//!
//! std (and contenders that have its sockets and threads) and `onetoone` block a kernel thread in each
//! `read`. So does `mxn`. There, another kernel thread runs the other threads meanwhile: at once if the
//! thread has announced the call (`announced`), and otherwise when the monitor has seen it. may and tokio
//! have sockets of their own, with a reactor over epoll, and block no thread.

mod support;

use std::process::ExitCode;

use support::contender::{called, parallel, without};
use support::harness::{Question, Unit, answer};
use support::ours::allow_all_lwps;
use support::sockets::Manners;
use support::workloads::echo::Conversations;

fn main() -> ExitCode {
    let ask = |connections: u32| {
        let name = format!("echo, {connections} connection{}", if connections == 1 { "" } else { "s" });
        let bare = Conversations::bare(connections);
        // A pinned thread cannot leave an LWP that is blocked.
        let mut cases = without("mxn, pinned", parallel(bare));
        let announced = Conversations { manners: Manners::Announced, ..bare };
        cases.push(called("mxn, announced", "mxn", announced));
        let question = Question::new(name, Unit::NanosEach("a message"), cases).prepare(allow_all_lwps);
        question.per_operation(connections.into()).first(if connections > 100 { 10 } else { 100 })
    };
    answer([1, 64, 1_000].map(ask).into())
}
