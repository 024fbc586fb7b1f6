//! Calls that a green thread cannot wait in without its LWP: it says that it may block.

use std::ffi::{c_char, c_int};

use libc::{addrinfo, siginfo_t, sigset_t, sockaddr, socklen_t, timespec};

use super::caller::announced;
use crate::sys::next;

macro_rules! announce {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("See the C library's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise.
            announced(|| unsafe { next::$name($($argument),*) })
        }
    )*};
}

announce! {
    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo
    ) -> c_int;
    fn getnameinfo(
        address: *const sockaddr, len: socklen_t,
        host: *mut c_char, host_len: socklen_t, service: *mut c_char, service_len: socklen_t, flags: c_int
    ) -> c_int;
    fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int;
    fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int;
    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
}
