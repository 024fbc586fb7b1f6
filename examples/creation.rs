//! Creation: what does it take to start a thread, and to see it end?
//!
//! Top-level threads create children that do nothing, a few at a time each; then many threads exist at
//! once. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example creation -- -n 4 -k 10 -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::creation::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
