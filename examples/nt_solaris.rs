//! NT against Solaris: what are the two kinds of threads good for?
//!
//! Six experiments: the most threads that can exist, creation (also beside others that compute), and
//! computing without synchronisation and with much of it. The last are a parallel search, and threads that
//! compute in bursts. See `-?` for the options.
//!
//! ```text
//! cargo run --release --example nt_solaris -- search bursts -r onetoone
//! ```

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    support::nt_solaris::program::run(arguments, std::env::var_os("SELVEDGE_RUNTIME")).into()
}
