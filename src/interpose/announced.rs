//! Calls that a green thread cannot wait in without its LWP: it says that it may block. And calls that seldom
//! block, or not for long, of which another thread's request to end is all that matters.

use std::ffi::{c_char, c_int, c_long, c_void};

use libc::{addrinfo, iovec, mode_t, off_t, pid_t, rusage, size_t, sockaddr, socklen_t, ssize_t};

use super::caller::{announced, green};
use super::cancel::{self, announced_call, in_call, in_marked_call, point};
use super::children;
use crate::sys::next;

/// Defines functions of the C library of these names. Each makes the call by what its group says.
macro_rules! calls {
    ($($by:ident: { $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)* })*) => {$($(
        #[doc = concat!("See the C library's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise.
            $by(|| unsafe { next::$name($($argument),*) })
        }
    )*)*};
}

/// Makes a call that announces that it blocks, and is a cancellation point.
#[inline]
pub(super) fn announced_point<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    if green().is_some() { point(|| announced_call(call)) } else { call() }
}

/// Makes such a call that the C library may leave in a part of it only.
fn marked_point<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    if green().is_some() { point(|| announced(|| in_marked_call(call))) } else { call() }
}

/// Makes a call that is a cancellation point.
#[inline]
fn quiet_point<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    if cancel::is_outside() && green().is_some() { point(|| in_call(call)) } else { call() }
}

calls! {
    announced: {
        fn getaddrinfo(
            node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo
        ) -> c_int;
        fn getnameinfo(
            address: *const sockaddr, len: socklen_t,
            host: *mut c_char, host_len: socklen_t, service: *mut c_char, service_len: socklen_t, flags: c_int
        ) -> c_int;
        fn flock(fd: c_int, operation: c_int) -> c_int;
    }

    announced_point: {
        fn sigpause(mask: c_int) -> c_int;
        fn __xpg_sigpause(signal: c_int) -> c_int;
        fn __sigpause(mask_or_signal: c_int, is_signal: c_int) -> c_int;
        fn fsync(fd: c_int) -> c_int;
        fn fdatasync(fd: c_int) -> c_int;
        fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int;
        fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int;
        fn tcdrain(fd: c_int) -> c_int;
        fn msgrcv(queue: c_int, to: *mut c_void, n: size_t, kind: c_long, flags: c_int) -> ssize_t;
        fn msgsnd(queue: c_int, from: *const c_void, n: size_t, flags: c_int) -> c_int;
    }

    marked_point: {
        fn system(command: *const c_char) -> c_int;
    }

    // The last argument of `open` is there if the flags say so. It is passed in the same way in any case.
    quiet_point: {
        fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn creat(path: *const c_char, mode: mode_t) -> c_int;
        fn creat64(path: *const c_char, mode: mode_t) -> c_int;
        fn pread(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t;
        fn pread64(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t;
        fn pwrite(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t;
        fn pwrite64(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t;
        fn preadv(fd: c_int, to: *const iovec, n: c_int, at: off_t) -> ssize_t;
        fn preadv64(fd: c_int, to: *const iovec, n: c_int, at: off_t) -> ssize_t;
        fn pwritev(fd: c_int, from: *const iovec, n: c_int, at: off_t) -> ssize_t;
        fn pwritev64(fd: c_int, from: *const iovec, n: c_int, at: off_t) -> ssize_t;
        fn preadv2(fd: c_int, to: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
        fn preadv64v2(fd: c_int, to: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
        fn pwritev2(fd: c_int, from: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
        fn pwritev64v2(fd: c_int, from: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
        fn msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int;
    }
}

/// See `wait(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the caller's promise.
    unsafe { children::waitpid(-1, status, 0) }
}

/// See `wait3(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn wait3(
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    // SAFETY: the caller's promise.
    unsafe { children::wait4(-1, status, options, usage) }
}

/// Defines `fcntl` and its like. The last argument may be missing, and is passed in the same way in any case.
macro_rules! locks {
    ($($name:ident)*) => {$(
        #[doc = concat!("See the C library's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name(fd: c_int, command: c_int, argument: c_long) -> c_int {
            // SAFETY: the caller's promise.
            let plain = || unsafe { next::$name(fd, command, argument) };
            let waits = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
            if waits { announced_point(plain) } else { plain() }
        }
    )*};
}

locks! { fcntl fcntl64 }
