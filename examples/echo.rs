//! Echo: a thousand connections, with a thread at each end.
//!
//! Clients send messages over TCP and wait for each to come back. Both ends are in one process, over the
//! loopback, or in two: one that listens and one that connects. The sockets are those of `selvedge::net`.
//! With `-s std`, they are std's, which block the kernel thread: see how green threads bear it. See `-?` for
//! the options.
//!
//! ```text
//! cargo run --release --example echo -- -n 100 -r onetoone
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::echo::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
