//! Ends the process if nothing else can be done. An abort prints the reason.

use std::io::{self, Write};
use std::process;

/// Prints the reason in the form of std's fatal runtime errors, and aborts.
#[cold]
pub(crate) fn abort(what: &str) -> ! {
    // No panic if nothing reads it: the caller must not go on, nor unwind.
    let _ = writeln!(io::stderr(), "fatal runtime error: {what}, aborting");
    process::abort()
}

/// Aborts because forgotten references would make a reference count wrap.
#[cold]
pub(crate) fn too_many_references() -> ! {
    abort("too many references were forgotten: their count would overflow")
}
