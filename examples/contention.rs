//! Contention: what becomes of locks that many threads want?
//!
//! Threads enter critical regions at random, with next to nothing to do inside and outside: the fewer
//! regions there are, the more they meet. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example contention -- -n 32 -r onetoone
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::contention::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
