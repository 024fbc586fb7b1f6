//! `pthread_exit`, and `pthread_join` and its like, `pthread_detach`: how a thread ends, and what becomes of
//! it.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, pthread_t, timespec};

use super::masks;
use super::record::{self, Record};
use super::start;
use crate::interpose::cancel::{self, in_marked_call, point, point_of_code};
use crate::interpose::{announced, duration, instant};
use crate::park::wait::{Wait, WaitError};
use crate::sys::kthread::{self, SignalMask};
use crate::sys::next;

/// Joins the thread of `record`, as `wait` says, and stores its value.
///
/// # Safety
/// The thread has been neither joined nor detached. `value` is null, or a place.
unsafe fn join(record: &Record, value: *mut *mut c_void, wait: Wait) -> c_int {
    if record.is_own() {
        return libc::EDEADLK;
    }
    let handle = record.thread.lock().handle.take();
    let Some(handle) = handle else { return libc::EINVAL };
    let mut handle = Some(handle);
    let join = |wait| {
        let joined = handle.take().expect("it comes back").join_with(wait);
        joined.map_err(|(still, why)| {
            handle = Some(still);
            why
        })
    };
    let joined = cancel::wait(wait, join, |joined| matches!(joined, Err(WaitError::Interrupted)));
    let ended = match joined {
        Ok(ended) => ended,
        Err(why) => {
            record.thread.lock().handle = handle;
            return if why == WaitError::TimedOut { libc::ETIMEDOUT } else { libc::ECANCELED };
        }
    };
    let code = match ended {
        Ok(left) => {
            if !value.is_null() {
                // SAFETY: the caller's promise.
                unsafe { value.write(left.0) };
            }
            0
        }
        // A parent process has it.
        Err(_) => libc::ESRCH,
    };
    // SAFETY: the handle was there, so the `pthread_t` had a share, and it is used up.
    unsafe { record.give_up_id() };
    code
}

/// Joins a kernel thread by `call`.
fn join_kernel(call: impl FnOnce() -> c_int) -> c_int {
    point(|| announced(|| in_marked_call(call)))
}

/// See `pthread_join(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Record::of(thread) } {
        // SAFETY: the caller's promise.
        Some(record) => point_of_code(|| unsafe { join(record, value, Wait::forever()) }),
        // SAFETY: the caller's promise.
        None => join_kernel(|| unsafe { next::pthread_join(thread, value) }),
    }
}

/// See `pthread_tryjoin_np(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: the caller's promise.
        return unsafe { next::pthread_tryjoin_np(thread, value) };
    };
    let runs = record.thread.lock().handle.as_ref().is_some_and(|handle| !handle.is_finished());
    if runs {
        return libc::EBUSY;
    }
    // SAFETY: the caller's promise.
    unsafe { join(record, value, Wait::forever()) }
}

/// See `pthread_timedjoin_np(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Record::of(thread) } {
        // SAFETY: the caller's promise.
        Some(record) => point_of_code(|| unsafe { join_by(record, value, libc::CLOCK_REALTIME, end) }),
        // SAFETY: the caller's promise.
        None => join_kernel(|| unsafe { next::pthread_timedjoin_np(thread, value, end) }),
    }
}

/// See `pthread_clockjoin_np(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Record::of(thread) } {
        // SAFETY: the caller's promise.
        Some(record) => point_of_code(|| unsafe { join_by(record, value, clock, end) }),
        // SAFETY: the caller's promise.
        None => join_kernel(|| unsafe { next::pthread_clockjoin_np(thread, value, clock, end) }),
    }
}

/// Joins the thread of `record`, unless `clock` shows `end` before; null: without a limit. What was before
/// the clock's zero is over, as for the C library.
///
/// # Safety
/// As for [`join`], and `end` is null or a time.
unsafe fn join_by(record: &Record, value: *mut *mut c_void, clock: clockid_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    let wait = match unsafe { end.as_ref() } {
        None => Wait::forever(),
        Some(_) if !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC) => return libc::EINVAL,
        Some(&end) => match duration(timespec { tv_sec: end.tv_sec.max(0), ..end }) {
            Some(end) => Wait::by(instant(clock, end)),
            None => return libc::EINVAL,
        },
    };
    // SAFETY: the caller's promise.
    unsafe { join(record, value, wait) }
}

/// Returns `true` on the main thread of a finished program that has started threads.
pub(super) fn is_main() -> bool {
    // SAFETY: no arguments.
    record::was_any() && start::is_default() && kthread::gettid() == unsafe { libc::getpid() }
}

/// Ends the program after its last thread. What the main thread has pushed by `pthread_cleanup_push` may be
/// what the others wait for, so another thread calls this. Signals come to the program while it ends, unless
/// `mask` has them.
fn end_with_the_last(mask: SignalMask) {
    record::until_none_is_alive();
    mask.adopt();
    // SAFETY: no thread of the program is left.
    unsafe { libc::exit(0) }
}

/// Lets the program end with its last thread, which may be the running one, the main thread. LWPs are none of
/// the program's.
pub(super) fn main_ends() {
    if !record::is_counted() {
        record::count();
        record::begin_kernel();
    }
    let mask = SignalMask::of_caller();
    masks::main_ends();
    if start::start_helper("selvedge-end", None, move || end_with_the_last(mask)).is_err() {
        record::count_off();
        end_with_the_last(mask);
    }
}

/// See `pthread_exit(3)`. The C library unwinds the stack, and runs what the thread has pushed by
/// `pthread_cleanup_push`. Then it jumps to where the thread's function was called (`start.rs`).
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    cancel::leave();
    if record::with_own(|own| own.exit.set(value)).is_none() && is_main() {
        main_ends();
    }
    // SAFETY: the caller's promise.
    unsafe { next::pthread_exit(value) }
}

/// See `pthread_detach(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: the caller's promise.
        return unsafe { next::pthread_detach(thread) };
    };
    let handle = {
        let mut own = record.thread.lock();
        own.detached = true;
        own.handle.take()
    };
    if handle.is_none() {
        return libc::EINVAL;
    }
    drop(handle);
    // SAFETY: the handle was there, so the `pthread_t` had a share, and it is used up.
    unsafe { record.give_up_id() };
    0
}
