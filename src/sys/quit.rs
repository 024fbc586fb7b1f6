//! A call at each `SIGQUIT` (Ctrl-\ in a terminal), on a kernel thread of its own.
//!
//! The handler counts, and wakes the thread by a futex, which is simply a system call. So what is called may
//! allocate and take locks. Several signals that come before the thread looks are several calls.
//!
//! Rejected: a pipe. A program may close what it does not know (`close_range(3, ..)`), and the handler would
//! write into the file that gets the number next.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fork::Generation;
use super::kthread::{KernelThread, Options};
use super::system::keep_errno;
use super::{futex, sigaction};

/// How many signals have come. It is the futex of the waiting thread.
static CAME: AtomicU32 = AtomicU32::new(0);

/// The process that has the thread, by its generation.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// Calls `f` at each `SIGQUIT` from now on, on a stack of this size. Called once.
///
/// # Errors
///
/// The program handles the signal itself, or the system refuses a thread.
pub(crate) fn watch(stack: usize, f: fn()) -> io::Result<()> {
    if sigaction::is_handler(&sigaction::of(libc::SIGQUIT)?) {
        return Err(io::Error::other("the program handles SIGQUIT itself"));
    }
    let options = Options { name: "selvedge-dump", stack_size: Some(stack), block_signals: true };
    let mut seen = CAME.load(Ordering::Relaxed);
    KernelThread::start(&options, move || {
        loop {
            // Relaxed, here and in the handler: only the count itself is told.
            while CAME.load(Ordering::Relaxed) == seen {
                let _ = futex::wait(&CAME, seen, None);
            }
            seen = seen.wrapping_add(1);
            f();
        }
    })?;
    PROCESS.store(Generation::now().number(), Ordering::Relaxed);
    // SAFETY: the handler makes one system call, which is async-signal-safe.
    unsafe { sigaction::set(libc::SIGQUIT, &sigaction::calling(quits, libc::SA_RESTART)) }
}

extern "C" fn quits(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // In a child of a fork, there is no such thread.
    if PROCESS.load(Ordering::Relaxed) == Generation::now().number() {
        CAME.fetch_add(1, Ordering::Relaxed);
        keep_errno(|| futex::wake(&raw const CAME, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::child_tests::isolated;

    /// The handler waits for nothing, also if the thread does not come to look.
    #[test]
    fn many_signals_come() {
        isolated(concat!(module_path!(), "::many_signals_come"), || {
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

    /// A program closes all descriptors that it does not know, and has a file of the same number then.
    #[test]
    fn nothing_is_written_into_files_of_the_program() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        isolated(concat!(module_path!(), "::nothing_is_written_into_files_of_the_program"), || {
            watch(64 << 10, || _ = CALLS.fetch_add(1, Ordering::Relaxed)).unwrap();
            // SAFETY: this process needs none of them.
            assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
            let files: Vec<_> = (0..16).map(|_| tempfile::tempfile().unwrap()).collect();
            for call in 1..=3 {
                // SAFETY: the handler is there.
                assert_eq!(unsafe { libc::raise(libc::SIGQUIT) }, 0);
                for file in &files {
                    assert_eq!(file.metadata().unwrap().len(), 0);
                }
                while CALLS.load(Ordering::Relaxed) < call {
                    std::thread::yield_now();
                }
            }
        });
    }
}
