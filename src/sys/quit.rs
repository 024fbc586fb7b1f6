//! A call at each `SIGQUIT` (Ctrl-\ in a terminal), on a kernel thread of its own.
//!
//! The handler writes a byte into a pipe, and the thread reads it. So what is called may allocate and take
//! locks. Several signals that come before the thread looks are several calls.

use std::ffi::{c_int, c_void};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::fork::Generation;
use super::kthread::{KernelThread, Options};
use super::system::keep_errno;
use super::{explain, last_error, sigaction};

/// The end of the pipe that the handler writes to; -1: there is none.
static WRITES: AtomicI32 = AtomicI32::new(-1);

/// The process that has the thread, by its generation.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// Calls `f` at each `SIGQUIT` from now on, on a stack of this size. Called once.
///
/// # Errors
///
/// The program handles the signal itself, or the system refuses a pipe or a thread.
pub(crate) fn watch(stack: usize, f: fn()) -> io::Result<()> {
    if sigaction::is_handler(&sigaction::of(libc::SIGQUIT)?) {
        return Err(io::Error::other("the program handles SIGQUIT itself"));
    }
    let (mut reads, writes) =
        io::pipe().map_err(|error| explain(&error, "cannot make a pipe for SIGQUIT"))?;
    // SAFETY: no memory is involved.
    if unsafe { libc::fcntl(writes.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(last_error("cannot make a pipe for SIGQUIT that does not block"));
    }
    let options = Options { name: "selvedge-dump", stack_size: Some(stack), block_signals: true };
    KernelThread::start(&options, move || {
        while reads.read_exact(&mut [0]).is_ok() {
            f();
        }
    })?;
    PROCESS.store(Generation::now().number(), Ordering::Relaxed);
    // Release: pairs with the handler.
    WRITES.store(writes.as_raw_fd(), Ordering::Release);
    // SAFETY: the handler makes one system call, which is async-signal-safe.
    unsafe { sigaction::set(libc::SIGQUIT, &sigaction::calling(quits, libc::SA_RESTART)) }?;
    // It stays open for the handler. After an error, its end ends the thread.
    let _ = writes.into_raw_fd();
    Ok(())
}

extern "C" fn quits(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // Acquire: pairs with `watch`.
    let writes = WRITES.load(Ordering::Acquire);
    // In a child of a fork, the pipe leads to the parent's thread.
    if writes >= 0 && PROCESS.load(Ordering::Relaxed) == Generation::now().number() {
        // SAFETY: one byte is readable. If the pipe is full, this fails, and the thread has enough to do.
        keep_errno(|| unsafe { libc::write(writes, b"q".as_ptr().cast(), 1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::child_tests::isolated;

    /// The handler waits for nothing, also if the thread does not come to look.
    #[test]
    fn more_signals_come_than_the_pipe_has_room_for() {
        isolated(concat!(module_path!(), "::more_signals_come_than_the_pipe_has_room_for"), || {
            watch(64 << 10, || {
                loop {
                    std::thread::park();
                }
            })
            .unwrap();
            for _ in 0..70_000 {
                // SAFETY: the handler is there.
                assert_eq!(unsafe { libc::raise(libc::SIGQUIT) }, 0);
            }
        });
    }
}
