//! How does what a thread costs grow with the number of threads, from one to a million by tens?
//!
//! Each row is a crowd of so many threads, in a process of its own. See `-?` for the options, and
//! `support/growth/crowd.rs` for what the columns are.
//!
//! ```text
//! cargo run --release --example growth -- -n 100000 -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::growth::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
