//! The end of the process where nothing else is left to do. An abort says why.

use std::process;

/// Prints the reason in std's words for a fatal runtime error, and aborts.
#[cold]
pub(crate) fn abort(what: &str) -> ! {
    eprintln!("fatal runtime error: {what}, aborting");
    process::abort()
}

/// Aborts because references that safe code has forgotten would wrap a count.
#[cold]
pub(crate) fn too_many_references() -> ! {
    abort("too many references were forgotten: their count would overflow")
}
