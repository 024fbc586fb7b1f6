//! What compilers make of some calls where they know how large the buffer is (`_FORTIFY_SOURCE`): the same
//! calls, which first compare.
//!
//! If a buffer is too small, the C library's function reports that, and ends the program.

use std::ffi::{c_int, c_void};

use libc::{nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use super::{bytes, many, sockets};
use crate::sys::next;

/// See `read(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, to: *mut c_void, n: size_t, room: size_t) -> ssize_t {
    if n > room {
        // SAFETY: it ends the program.
        return unsafe { next::__read_chk(fd, to, n, room) };
    }
    // SAFETY: the caller's promise.
    unsafe { bytes::read(fd, to, n) }
}

/// See `recv(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if n > room {
        // SAFETY: it ends the program.
        return unsafe { next::__recv_chk(fd, to, n, room, flags) };
    }
    // SAFETY: the caller's promise.
    unsafe { sockets::recv(fd, to, n, flags) }
}

/// See `recvfrom(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    room: size_t,
    flags: c_int,
    by: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    if n > room {
        // SAFETY: it ends the program.
        return unsafe { next::__recvfrom_chk(fd, to, n, room, flags, by, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { sockets::recvfrom(fd, to, n, flags, by, len) }
}

/// See `poll(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __poll_chk(fds: *mut pollfd, n: nfds_t, millis: c_int, room: size_t) -> c_int {
    if n > (room / size_of::<pollfd>()) as nfds_t {
        // SAFETY: it ends the program.
        return unsafe { next::__poll_chk(fds, n, millis, room) };
    }
    // SAFETY: the caller's promise.
    unsafe { many::poll(fds, n, millis) }
}

/// See `ppoll(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    n: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if n > (room / size_of::<pollfd>()) as nfds_t {
        // SAFETY: it ends the program.
        return unsafe { next::__ppoll_chk(fds, n, timeout, mask, room) };
    }
    // SAFETY: the caller's promise.
    unsafe { many::ppoll(fds, n, timeout, mask) }
}
