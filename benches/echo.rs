//! How fast does a message come back over TCP, where each connection has a thread at both ends?
//!
//! The experiment of `examples/echo.rs`, both ends in one process. 64 bytes go there and back over the
//! loopback, for 1, 64 and 1,000 connections at once. The figure is time by messages.
//!
//! std (and contenders that have its sockets and threads) and `onetoone` block a kernel thread in each
//! `read`. `mxn`, may and tokio have sockets of their own, with a reactor over epoll, and block no kernel
//! thread. `std's sockets` are those in threads of `mxn`: another kernel thread runs the other threads
//! meanwhile. It does so at once if the thread has announced the call (`announced`), and otherwise when the
//! monitor has seen it.

mod support;

use std::process::ExitCode;

use support::contender::{called, parallel};
use support::harness::{Question, Unit, answer};
use support::ours::allow_all_lwps;
use support::sockets::Manners;
use support::workloads::echo::Conversations;

fn main() -> ExitCode {
    let ask = |connections: u32| {
        let name = format!("echo, {connections} connection{}", if connections == 1 { "" } else { "s" });
        let own = Conversations::own(connections);
        let mut cases = parallel(own);
        let bare = Conversations { manners: Manners::Bare, ..own };
        cases.push(called("mxn, std's sockets", "mxn", bare));
        let announced = Conversations { manners: Manners::Announced, ..own };
        cases.push(called("mxn, std's sockets, announced", "mxn", announced));
        let question = Question::new(name, Unit::NanosEach("a message"), cases).prepare(allow_all_lwps);
        question.per_operation(connections.into()).first(if connections > 100 { 10 } else { 100 })
    };
    answer([1, 64, 1_000].map(ask).into())
}
