//! A million threads that do nothing: what do they take, and how long does it take to start, wake and
//! join them?
//!
//! They are parked all at once, then each is woken by name. Where there is no room for so many, the
//! program says how many there were, and what there was too little of. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example million -- -n 100000 -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::million::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
