//! Barriers: what does it cost that threads wait for each other after each bit of work?
//!
//! Fine-grained work shows the price of a barrier. Coarse-grained work shows whether the threads get equal
//! shares of the CPUs: without time slices, five threads on four CPUs take as long as eight. See
//! `support/barriers/workers.rs` for what is computed and `-?` for the options.
//!
//! ```text
//! cargo run --release --example barriers -- --coarse -n 5 -r mxn
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::barriers::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
