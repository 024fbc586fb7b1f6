//! A call at each `SIGQUIT` (Ctrl-\ in a terminal), on a kernel thread of its own.
//!
//! The handler writes a byte into a pipe, and the thread reads it. So what is called may allocate and take
//! locks. Several signals that come before the thread looks are several calls.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::fork::Generation;
use super::kthread::{KernelThread, Options};
use super::system::keep_errno;
use super::{last_error, sigaction};

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
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(last_error("cannot make a pipe for SIGQUIT"));
    }
    for end in ends {
        // SAFETY: a descriptor of this function. Programs that are executed do not get it.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let [reads, writes] = ends;
    let options = Options { name: "selvedge-dump", stack_size: Some(stack), block_signals: true };
    KernelThread::start(&options, move || {
        let mut byte = [0; 1];
        // SAFETY: room for one byte. The thread has the descriptor to itself.
        while unsafe { libc::read(reads, byte.as_mut_ptr().cast(), 1) } == 1 {
            f();
        }
    })?;
    PROCESS.store(Generation::now().number(), Ordering::Relaxed);
    // Release: pairs with the handler.
    WRITES.store(writes, Ordering::Release);
    // SAFETY: the handler makes one system call, which is async-signal-safe.
    unsafe { sigaction::set(libc::SIGQUIT, &sigaction::calling(quits, libc::SA_RESTART)) }
}

extern "C" fn quits(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // Acquire: pairs with `watch`.
    let writes = WRITES.load(Ordering::Acquire);
    // In a child of a fork, the pipe leads to the parent's thread.
    if writes >= 0 && PROCESS.load(Ordering::Relaxed) == Generation::now().number() {
        // SAFETY: one byte is readable. If the pipe is full, the thread has enough to do.
        keep_errno(|| unsafe { libc::write(writes, b"q".as_ptr().cast(), 1) });
    }
}
