//! `pthread_cancel`, and what a thread says of such requests. `interpose/cancel.rs` says how a thread ends.

use std::ffi::c_int;
use std::time::Duration;

use libc::pthread_t;

use super::record::{KERNELS, Record};
use super::{kill, semaphore};
use crate::interpose::cancel;
use crate::park::permit;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::sys::next;

/// `PTHREAD_CANCEL_ENABLE`, `PTHREAD_CANCEL_DEFERRED`.
const OFF: c_int = 0;
/// `PTHREAD_CANCEL_DISABLE`, `PTHREAD_CANCEL_ASYNCHRONOUS`.
const ON: c_int = 1;

/// How often a thread is interrupted that may be ended where it is: without a pause, and with one. After
/// that, it ends at its next cancellation point.
const TRIES: u32 = 100;
const SLOW_TRIES: u32 = 100;
/// With a pause, for one that may be ended anywhere. It may be about to run.
const SLOW_TRIES_ANYWHERE: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// How often one is interrupted that may be in a part of the C library that may be left.
const TRIES_UNSEEN: u32 = 5;

/// Interrupts a thread that runs, for the time of this number. Returns `false` if it does not run. This
/// crate's own code is not interrupted, and the LWP may not run, so it is tried again.
fn interrupt_running(record: &Record, tried: u32) -> bool {
    let runs = record.with_thread(|thread| thread.backend().interrupt_running(&thread));
    if tried < TRIES {
        std::thread::yield_now();
    } else {
        // The running thread does not end here.
        let _ = Wait::timeout(PAUSE).run(permit::sleep);
    }
    runs == Some(true)
}

/// See `pthread_cancel(3)`. It unwinds if the running thread asks itself, and may be ended anywhere.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: the caller's promise.
        return unsafe { cancel_kernel(thread) };
    };
    // It holds locks. The request may end the thread before it returns, and its record then.
    cancel::undisturbed(|| cancel_green(&record.share()));
    cancel::test_anywhere();
    0
}

/// Asks a green thread to end, and ends what it waits in.
fn cancel_green(record: &Record) {
    let mut tries = 0..TRIES + SLOW_TRIES;
    let is_first = record.cancel.request(|place| {
        if record.cancel.is_futex(place) {
            semaphore::wake(place, c_int::MAX);
        }
        tries.next().is_some_and(|tried| {
            interrupt_running(record, tried);
            true
        })
    });
    if record.is_own() {
        return;
    }
    if is_first {
        record.with_thread(ThreadRef::interrupt);
    }
    let _ = (0..TRIES_UNSEEN).all(|tried| record.cancel.is_asked() && interrupt_running(record, tried));
    for tried in 0..TRIES + SLOW_TRIES_ANYWHERE {
        if !record.cancel.is_due_anywhere() {
            break;
        }
        interrupt_running(record, tried);
    }
    if record.cancel.is_asked() {
        kill::interrupt_until_ended(record);
    }
}

/// Does the same for a kernel thread.
unsafe fn cancel_kernel(thread: pthread_t) -> c_int {
    // Before: it may end afterwards, and another have its number.
    let known = KERNELS.find(thread);
    // SAFETY: the caller's promise.
    let code = unsafe { next::pthread_cancel(thread) };
    // If it has just started, it was asked before its first point.
    if code == 0
        && let Some(known) = known.or_else(|| KERNELS.find(thread))
    {
        known.cancel.request(|futex| {
            semaphore::wake(futex, c_int::MAX);
            // It may not sleep yet.
            std::thread::yield_now();
            true
        });
        if let Some(thread) = known.started.get() {
            thread.interrupt();
        }
    }
    code
}

/// See `pthread_testcancel(3)`. It unwinds.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_testcancel() {
    cancel::test();
}

/// See `pthread_setcancelstate(3)`. It unwinds if a request has come before, and the thread may be ended
/// anywhere.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set(state, old, cancel::set_disabled, next::pthread_setcancelstate) }
}

/// See `pthread_setcanceltype(3)`. It unwinds as `pthread_setcancelstate` does.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set(kind, old, cancel::set_anywhere, next::pthread_setcanceltype) }
}

/// Does what both have in common. `next` is the C library's, for other threads.
///
/// # Safety
/// As the C library's functions.
unsafe fn set(
    value: c_int,
    old: *mut c_int,
    own: fn(bool) -> Option<bool>,
    next: unsafe fn(c_int, *mut c_int) -> c_int,
) -> c_int {
    if !matches!(value, OFF | ON) {
        return libc::EINVAL;
    }
    let Some(before) = own(value == ON) else {
        // SAFETY: the caller's promise.
        return unsafe { next(value, old) };
    };
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(c_int::from(before)) };
    }
    cancel::test_anywhere();
    0
}
