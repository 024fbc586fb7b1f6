//! What can be asked and set of a thread by its `pthread_t`.
//!
//! A green thread has no kernel thread of its own. So what is the kernel's to give or to tell is refused:
//! processors, policies, a clock of its processor time.

use std::ffi::{CStr, c_char, c_int};

use libc::{clockid_t, cpu_set_t, pthread_attr_t, pthread_t, sched_param, size_t};

use super::record::{self, NAME, Record, green_record};
use crate::sys::mmap::page_size;
use crate::sys::next;

/// See `pthread_self(3)`.
#[unsafe(no_mangle)]
extern "C" fn pthread_self() -> pthread_t {
    // SAFETY: no arguments.
    record::with_own(Record::id).unwrap_or_else(|| unsafe { next::pthread_self() })
}

/// See `pthread_setname_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int {
    let record = green_record!(pthread_setname_np(thread, name));
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if name.count_bytes() >= NAME {
        return libc::ERANGE;
    }
    record.set_name(name);
    0
}

/// See `pthread_getname_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getname_np(thread: pthread_t, name: *mut c_char, len: size_t) -> c_int {
    let record = green_record!(pthread_getname_np(thread, name, len));
    if len < NAME {
        return libc::ERANGE;
    }
    let bytes = *record.name.lock();
    // SAFETY: the caller's place for `len` bytes.
    unsafe { name.cast::<[u8; NAME]>().write_unaligned(bytes) };
    0
}

/// See `pthread_getattr_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t) -> c_int {
    let record = green_record!(pthread_getattr_np(thread, attributes));
    let Some(stack) = record.stack() else {
        return libc::ESRCH;
    };
    // SAFETY: the caller's place.
    let code = unsafe { libc::pthread_attr_init(attributes) };
    if code != 0 {
        return code;
    }
    // Below the stack, more is inaccessible. Programs expect a page.
    // SAFETY: initialized above.
    unsafe { libc::pthread_attr_setguardsize(attributes, page_size()) };
    if record.thread.lock().detached {
        // SAFETY: initialized above.
        unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    }
    let low = std::ptr::with_exposed_provenance_mut(stack.start);
    // SAFETY: initialized above.
    unsafe { libc::pthread_attr_setstack(attributes, low, stack.len()) }
}

/// See `pthread_getcpuclockid(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int {
    green_record!(pthread_getcpuclockid(thread, clock));
    libc::ENOENT
}

/// See `pthread_getaffinity_np(3)`. A green thread may use the processors of the kernel thread that asks for
/// them: if it asks for itself, of its LWP.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getaffinity_np(thread: pthread_t, len: size_t, set: *mut cpu_set_t) -> c_int {
    green_record!(pthread_getaffinity_np(thread, len, set));
    // SAFETY: the caller's place for `len` bytes.
    if unsafe { libc::sched_getaffinity(0, len, set) } == 0 { 0 } else { next::errno() }
}

/// See `pthread_setaffinity_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setaffinity_np(thread: pthread_t, len: size_t, set: *const cpu_set_t) -> c_int {
    green_record!(pthread_setaffinity_np(thread, len, set));
    libc::ENOTSUP
}

/// See `pthread_getschedparam(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getschedparam(
    thread: pthread_t,
    policy: *mut c_int,
    parameters: *mut sched_param,
) -> c_int {
    green_record!(pthread_getschedparam(thread, policy, parameters));
    // SAFETY: the caller's place.
    unsafe { policy.write(libc::SCHED_OTHER) };
    // SAFETY: the caller's place.
    unsafe { parameters.write(sched_param { sched_priority: 0 }) };
    0
}

/// See `pthread_setschedparam(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setschedparam(
    thread: pthread_t,
    policy: c_int,
    parameters: *const sched_param,
) -> c_int {
    green_record!(pthread_setschedparam(thread, policy, parameters));
    // SAFETY: the caller's promise.
    let is_usual = policy == libc::SCHED_OTHER && unsafe { (*parameters).sched_priority } == 0;
    if is_usual { 0 } else { libc::ENOTSUP }
}

/// See `pthread_setschedprio(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    green_record!(pthread_setschedprio(thread, priority));
    if priority == 0 { 0 } else { libc::EINVAL }
}
