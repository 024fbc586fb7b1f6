//! Moments of the system's clocks, as the arguments of waits.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{clockid_t, timespec};
use selvedge::Wait;

/// How long a wait may last.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Forever,
    Then(Instant),
}

impl Until {
    /// Returns the wait of this crate's.
    pub(crate) fn wait(self) -> Wait {
        self.end().map_or(Wait::forever(), Wait::until)
    }

    /// Returns the end of the wait, if it has one.
    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Self::Forever => None,
            Self::Then(end) => Some(end),
        }
    }
}

/// Returns `EINVAL` if the C library does not wait by `clock`. It says so even if there is nothing to wait
/// for.
pub(crate) fn check(clock: clockid_t) -> Result<(), c_int> {
    if matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC) { Ok(()) } else { Err(libc::EINVAL) }
}

/// Returns the moment at which `clock` will show `end`. If the clock is set meanwhile, the moment stays what
/// it was.
///
/// # Errors
/// `EINVAL` if there is no such time, or no such clock to wait by.
///
/// # Safety
/// `end` points to a time.
pub(crate) unsafe fn until(clock: clockid_t, end: *const timespec) -> Result<Until, c_int> {
    check(clock)?;
    // SAFETY: the caller's promise.
    let end = unsafe { end.read() };
    let nanos = u32::try_from(end.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000).ok_or(libc::EINVAL)?;
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let since = |seconds: i64, nanos: u32| Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    let left = since(end.tv_sec, nanos).saturating_sub(since(now.tv_sec, now.tv_nsec as u32));
    // What the clock cannot count is never.
    Ok(Instant::now().checked_add(left).map_or(Until::Forever, Until::Then))
}
