//! Blocks a kernel thread by calls that no runtime knows of, also in builds in which those of std are
//! answered for green threads (feature `interpose`).
//!
//! That feature answers functions of the C library by their names. Of the calls that are made by number
//! (`syscall`), it answers those of futexes, and passes all others on.

#![allow(dead_code, reason = "shared")]

use std::io::{Error, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Returns `true` if a call has done what it should, and `false` if a signal, perhaps of preemption, has
/// ended it.
#[track_caller]
fn done(result: impl TryInto<i64>) -> bool {
    let done = result.try_into().is_ok_and(|number| number >= 0);
    assert!(done || Error::last_os_error().kind() == ErrorKind::Interrupted, "{}", Error::last_os_error());
    done
}

/// Reads one byte. Returns `false` at the end.
pub(crate) fn read(descriptor: &impl AsRawFd) -> bool {
    let mut byte = 0_u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    loop {
        // SAFETY: room for one byte.
        match unsafe {
            libc::syscall(libc::SYS_preadv2, descriptor.as_raw_fd(), &raw const part, 1, -1_i64, 0, 0)
        } {
            0 => return false,
            result if done(result) => return true,
            _ => {}
        }
    }
}

/// Waits until there is something to read.
pub(crate) fn poll(descriptor: &impl AsRawFd) {
    let mut wanted = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, for as long as it takes, and no set of signals.
    while !done(unsafe {
        libc::syscall(libc::SYS_ppoll, &raw mut wanted, 1_usize, 0_usize, 0_usize, 0_usize)
    }) {}
}

/// Waits for a connection, and closes it.
pub(crate) fn accept(listener: &impl AsRawFd) {
    loop {
        // SAFETY: no address is wanted.
        let accepted =
            unsafe { libc::syscall(libc::SYS_accept4, listener.as_raw_fd(), 0_usize, 0_usize, 0_usize) };
        if done(accepted) {
            // SAFETY: new, and ours alone.
            return drop(unsafe { OwnedFd::from_raw_fd(accepted as libc::c_int) });
        }
    }
}

/// Sleeps for so long, whatever signals come.
pub(crate) fn sleep(time: Duration) {
    let mut left = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: both are alive, and the kernel reads the first before it writes the second.
    while !done(unsafe { libc::syscall(libc::SYS_nanosleep, &raw const left, &raw mut left) }) {}
}

/// Lets other threads of the kernel run.
pub(crate) fn yield_now() {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// Lets so many threads meet, once: all but the last wait in the kernel.
pub(crate) struct Meeting {
    missing: AtomicUsize,
    others: usize,
    pipe: (PipeReader, PipeWriter),
}

impl Meeting {
    pub(crate) fn of(threads: usize) -> Self {
        Self {
            missing: AtomicUsize::new(threads),
            others: threads - 1,
            pipe: std::io::pipe().expect("two descriptors"),
        }
    }

    pub(crate) fn meet(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            (&self.pipe.1).write_all(&vec![0; self.others]).expect("a pipe with two ends");
        } else {
            assert!(read(&self.pipe.0));
        }
    }
}
