//! Storms: threads that block in the kernel, or never yield, and one more that wants its turns beside them.
//!
//! Nothing is announced: the threads call `read(2)` and `nanosleep(2)`, or compute, as other people's
//! code does. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example storms -- --hogs -k arithmetic -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::storms::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
