//! Blocks a kernel thread by calls that no runtime knows of, also in builds in which those of std are answered
//! for green threads (feature `interpose`).

use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;

/// Reads one byte. Returns `false` at the end.
pub(crate) fn read(descriptor: &impl AsRawFd) -> bool {
    let mut byte = 0_u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    loop {
        // SAFETY: room for one byte.
        match unsafe { libc::preadv2(descriptor.as_raw_fd(), &raw const part, 1, -1, 0) } {
            0 => return false,
            1 => return true,
            // A signal, perhaps of preemption.
            _ => assert_eq!(Error::last_os_error().kind(), ErrorKind::Interrupted),
        }
    }
}
