//! Ping-Pong: how fast can two threads take turns?
//!
//! Each game is a pair of threads in lock step over four mutexes. See `support/pingpong/game.rs` for the
//! rules and `-?` for the options.
//!
//! ```text
//! cargo run --release --example pingpong -- -v -n 4 -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::pingpong::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
