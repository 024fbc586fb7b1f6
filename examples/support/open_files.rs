//! How many files the process may have open.

use std::io;

/// Raises the limit so far that `more` can be opened, if the system lets.
///
/// # Errors
/// It does not; the message says what does.
pub(crate) fn make_room(more: u64) -> io::Result<()> {
    // Standard streams, the test harness's, a library's.
    const OTHERS: u64 = 64;
    let wanted = more + OTHERS;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for a limit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    if limit.rlim_max < wanted {
        let message =
            format!("{wanted} open files are wanted and {} allowed (ulimit -Hn {wanted})", limit.rlim_max);
        return Err(io::Error::other(message));
    }
    limit.rlim_cur = wanted;
    // SAFETY: a limit to read.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
