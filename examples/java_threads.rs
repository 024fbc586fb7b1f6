//! What a model of threads does to programs that have many of them: throughput, and fairness.
//!
//! First, 400 and 2,000 threads compute, with a short lock now and then, as they do in a Java program. Then
//! two threads for each CPU do equal work, and the most and the least served are compared. With `--models`,
//! all models in turn and a table as in the paper. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example java_threads -- --fairness -n 16 -r onetoone
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::java_threads::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
