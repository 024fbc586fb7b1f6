//! What a model of threads does to programs that have many: throughput, and java_threads.
//!
//! Threads do equal work, a part of it under a lock that all want, for a while; then the most and the least served are
//! compared. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example java_threads -- -n 16 -r onetoone
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::java_threads::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
