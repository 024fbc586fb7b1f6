//! Ends the process if nothing else can be done. An abort prints the reason.

use std::io::{self, Write as _};
use std::process;

/// Prints the reason in the form of std's fatal runtime errors, and aborts.
#[cold]
pub(crate) fn abort(what: &str) -> ! {
    // `eprintln` panics if it cannot write.
    let _ = writeln!(io::stderr(), "fatal runtime error: {what}, aborting");
    process::abort()
}

/// Aborts because forgotten references would make a reference count wrap.
#[cold]
pub(crate) fn too_many_references() -> ! {
    abort("too many references were forgotten: their count would overflow")
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::sys::child_tests as child;

    #[test]
    fn an_abort_needs_no_standard_error() {
        let ended = child::run(concat!(module_path!(), "::an_abort_needs_no_standard_error"), || {
            let (reads, writes) = io::pipe().unwrap();
            drop(reads);
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::dup2(writes.as_raw_fd(), libc::STDERR_FILENO) }, libc::STDERR_FILENO);
            abort("as the test wants");
        });
        if let Some(ended) = ended {
            ended.expect_abort();
        }
    }
}
