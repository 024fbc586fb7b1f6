//! The end of the process where a panic has nobody left to go to.

use std::process;

/// Prints std's words for a fatal runtime error, and aborts.
#[cold]
pub(crate) fn abort(what: &str) -> ! {
    eprintln!("fatal runtime error: {what}, aborting");
    process::abort()
}
