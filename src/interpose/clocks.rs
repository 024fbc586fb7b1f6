//! `nanosleep` and its like, and `sched_yield`.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{clockid_t, timespec, useconds_t};

use super::caller::{duration, green};
use super::cancel::{self, Ends, announced_call, point};
use super::user_memory;
use crate::park::permit;
use crate::park::wait::{Wait, WaitError};
use crate::sys::next::{self, fail};
use crate::time::{self, Moment};

/// Returns what a clock of the system shows.
fn now(clock: clockid_t) -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    duration(now).unwrap_or_default()
}

/// Returns the moment at which a clock will show `at`; `None` is never. If the clock is set meanwhile, the
/// moment stays what it was.
pub(crate) fn moment(clock: clockid_t, at: Duration) -> Option<Moment> {
    time::after(at.saturating_sub(now(clock)))
}

/// Lets the green thread sleep. Returns what is left of the time, if a request or a handler of a signal ends
/// that.
fn rest(time: Duration) -> Result<(), Duration> {
    let deadline = time::after(time);
    rest_until(deadline).map_err(|_| deadline.map_or(time, |it| it - time::now()))
}

/// Lets the green thread sleep until then; `None` is forever.
///
/// # Errors
/// The code of the call, if a request or a handler of a signal has ended the sleep.
pub(super) fn rest_until(deadline: Option<Moment>) -> Result<(), c_int> {
    let sleep = |wait: Wait| wait.run(permit::sleep);
    let is_interrupted = |slept: &Result<(), WaitError>| *slept == Err(WaitError::Interrupted);
    match cancel::wait_unless(Ends::Always, Wait::by(deadline), sleep, is_interrupted) {
        Err(WaitError::Interrupted) => Err(cancel::code_of_end()),
        _ => Ok(()),
    }
}

/// Ends a call that sleeps for a time. Writes to `left` what is left of that; null: the program does not ask.
///
/// # Safety
/// `left` is a place, or null.
unsafe fn slept(slept: Result<(), Duration>, left: *mut timespec) -> c_int {
    let Err(time) = slept else { return 0 };
    if !left.is_null() {
        let tv_sec = time.as_secs().cast_signed();
        // SAFETY: the caller's promise.
        unsafe { left.write(timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }) };
    }
    cancel::code_of_end()
}

/// Reads the argument of a call that sleeps.
fn argument(address: *const timespec) -> Result<Duration, c_int> {
    duration(user_memory::time(address).ok_or(libc::EFAULT)?).ok_or(libc::EINVAL)
}

/// See `nanosleep(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if green().is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::nanosleep(time, left) };
    }
    match argument(time) {
        Ok(time) => point(|| {
            // SAFETY: the caller's promise.
            match unsafe { slept(rest(time), left) } {
                0 => 0,
                code => fail(code),
            }
        }),
        Err(error) => fail(error),
    }
}

/// See `clock_nanosleep(2)`.
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
            point(|| rest_until(moment(clock, time)).err().unwrap_or(0))
        }
        // SAFETY: the caller's promise.
        Ok(time) => point(|| unsafe { slept(rest(time), left) }),
        Err(error) => error,
    }
}

/// See `usleep(3)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    if green().is_none() {
        // SAFETY: no memory is involved.
        return unsafe { next::usleep(micros) };
    }
    point(|| match rest(Duration::from_micros(micros.into())) {
        Ok(()) => 0,
        Err(_) => fail(cancel::code_of_end()),
    })
}

/// See `sleep(3)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    if green().is_none() {
        // SAFETY: no memory is involved.
        return unsafe { next::sleep(seconds) };
    }
    point(|| match rest(Duration::from_secs(seconds.into())) {
        Ok(()) => 0,
        // Rounded, as the C library does.
        Err(left) => (left + Duration::from_millis(500)).as_secs() as c_uint,
    })
}

/// See `sched_yield(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sched_yield() -> c_int {
    match green() {
        Some(me) => {
            me.backend().yield_now(&me);
            cancel::run_handlers();
            0
        }
        // SAFETY: no memory is involved.
        None => unsafe { next::sched_yield() },
    }
}
