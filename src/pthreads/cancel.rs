//! `pthread_cancel`, and what a thread says of such requests. `interpose/cancel.rs` says how a thread ends.

use std::ffi::c_int;

use libc::pthread_t;

use super::record::Record;
use super::{kernel, semaphore};
use crate::interpose::cancel;
use crate::park::thread::ThreadRef;
use crate::sys::next;

/// `PTHREAD_CANCEL_ENABLE`, `PTHREAD_CANCEL_DEFERRED`.
const OFF: c_int = 0;
/// `PTHREAD_CANCEL_DISABLE`, `PTHREAD_CANCEL_ASYNCHRONOUS`.
const ON: c_int = 1;

/// How often a thread is interrupted that may be ended anywhere. After that, it ends at its next cancellation
/// point.
const TRIES: u32 = 100;

/// See `pthread_cancel(3)`. It unwinds if the running thread asks itself, and may be ended anywhere.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: the caller's promise.
        return unsafe { cancel_kernel(thread) };
    };
    record.cancel.request(|_| unreachable!("a green thread sleeps in a queue"));
    if record.is_own() {
        cancel::test_anywhere();
        return 0;
    }
    record.with_thread(ThreadRef::interrupt);
    // This crate's own code is not interrupted, so it is tried again.
    let mut tries = 0..TRIES;
    while record.cancel.is_due_anywhere() && tries.next().is_some() {
        record.with_thread(|thread| thread.backend().interrupt_running(&thread));
        std::thread::yield_now();
    }
    0
}

/// Does the same for a kernel thread.
///
/// # Safety
/// As the C library's function.
unsafe fn cancel_kernel(thread: pthread_t) -> c_int {
    // Before: it may end afterwards, and another have its number.
    let known = kernel::find(thread);
    // SAFETY: the caller's promise.
    let code = unsafe { next::pthread_cancel(thread) };
    // If it has just started, it was asked before its first point.
    if code == 0
        && let Some(known) = known.or_else(|| kernel::find(thread))
    {
        known.cancel.request(|futex| {
            semaphore::wake(futex, c_int::MAX);
            // It may not sleep yet.
            std::thread::yield_now();
        });
        known.thread.interrupt();
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
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set(state, old, cancel::set_disabled, next::pthread_setcancelstate) }
}

/// See `pthread_setcanceltype(3)`. It unwinds as `pthread_setcancelstate` does.
///
/// # Safety
/// As the C library's function.
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
