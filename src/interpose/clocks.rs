//! `nanosleep` and its like, and `sched_yield`.

use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

use libc::{clockid_t, timespec, useconds_t};

use super::caller::{duration, green};
use super::cancel::{self, announced_call, point};
use super::user_memory;
use crate::park::permit;
use crate::park::wait::Wait;
use crate::sys::next::{self, fail};
use crate::time;

/// Returns what a clock of the system shows.
fn now(clock: clockid_t) -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    duration(now).unwrap_or_default()
}

/// Returns the moment at which a clock will show `at`; `None` is never. If the clock is set meanwhile, the
/// moment stays what it was.
pub(crate) fn instant(clock: clockid_t, at: Duration) -> Option<Instant> {
    time::after(at.saturating_sub(now(clock)))
}

/// Lets the green thread sleep.
fn rest(time: Duration) {
    rest_until(time::after(time));
}

/// Lets the green thread sleep until then; `None` is forever.
pub(super) fn rest_until(deadline: Option<Instant>) {
    let sleep = |wait: Wait| wait.run(permit::sleep);
    let _ = cancel::wait(Wait::by(deadline), sleep, Result::is_err);
}

/// Reads the argument of a call that sleeps.
fn argument(address: *const timespec) -> Result<Duration, c_int> {
    duration(user_memory::time(address).ok_or(libc::EFAULT)?).ok_or(libc::EINVAL)
}

/// See `nanosleep(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if green().is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::nanosleep(time, left) };
    }
    match argument(time) {
        Ok(time) => {
            point(|| rest(time));
            0
        }
        Err(error) => fail(error),
    }
}

/// See `clock_nanosleep(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::clock_nanosleep(clock, flags, time, left) };
    if green().is_none() {
        return plain();
    }
    if !matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME) {
        return point(|| announced_call(plain));
    }
    match argument(time) {
        Ok(time) if flags & libc::TIMER_ABSTIME != 0 => {
            point(|| rest_until(instant(clock, time)));
            0
        }
        Ok(time) => {
            point(|| rest(time));
            0
        }
        Err(error) => error,
    }
}

/// See `usleep(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    if green().is_none() {
        // SAFETY: no memory is involved.
        return unsafe { next::usleep(micros) };
    }
    point(|| rest(Duration::from_micros(micros.into())));
    0
}

/// See `sleep(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    if green().is_none() {
        // SAFETY: no memory is involved.
        return unsafe { next::sleep(seconds) };
    }
    point(|| rest(Duration::from_secs(seconds.into())));
    0
}

/// See `sched_yield(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sched_yield() -> c_int {
    match green() {
        Some(me) => {
            me.backend().yield_now(&me);
            0
        }
        // SAFETY: no memory is involved.
        None => unsafe { next::sched_yield() },
    }
}
