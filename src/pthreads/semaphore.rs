//! A semaphore for `sem_wait` and its like. `park/futex/semaphore_word.rs` says how it works.
//!
//! A handler of a signal may post. If it has interrupted this crate's own code, a helper makes the wake-up
//! (`park/futex/left.rs`).

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use libc::timespec;

use super::start::{may_lock, start_helper};
use crate::interpose::cancel::Ends;
use crate::interpose::{self, cancel};
use crate::park::futex::left::Left;
use crate::park::futex::semaphore_word::SemaphoreWord;
use crate::park::futex::{self, NotWoken};
use crate::park::process;
use crate::park::wait::Wait;
use crate::sys::moment::Moment;

/// The wake-ups that handlers have left to the helper.
static LEFT: Left<64> = Left::new();

/// The process that has a helper; 0: none. A forked child has none.
static HELPED: AtomicU32 = AtomicU32::new(0);

/// A number of posts that threads take. Posts may be made in handlers of signals, and the thread that takes a
/// post may destroy the semaphore at once.
#[derive(Debug)]
#[repr(transparent)]
pub struct Semaphore(SemaphoreWord);

impl Semaphore {
    /// The largest value.
    pub const MAX: u32 = SemaphoreWord::MAX;

    /// Creates a semaphore with this value.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(SemaphoreWord::new(value))
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.value()
    }

    /// Takes a post if there is one.
    #[must_use]
    pub fn try_wait(&self) -> bool {
        self.0.try_take()
    }

    /// Takes a post; waits for it if need be, at most until `deadline`.
    ///
    /// # Errors
    /// `ETIMEDOUT`, and `EINTR` if a handler of a signal has run meanwhile. In a cancellation point also
    /// `ECANCELED`: it ends the thread.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<(), c_int> {
        let deadline = deadline.map(Moment::of);
        self.0.take(|word| {
            help();
            sleep(word, deadline)
        })
    }

    /// Makes a post. Async-signal-safe.
    ///
    /// # Errors
    /// `EOVERFLOW` if the value is as large as it can be.
    pub fn post(&self) -> Result<(), c_int> {
        let futex = self.0.futex();
        match self.0.post() {
            Ok(true) if may_lock() => wake(futex, 1),
            Ok(true) => LEFT.leave(futex),
            Ok(false) => {}
            Err(_) => return Err(libc::EOVERFLOW),
        }
        Ok(())
    }
}

/// The stack of the helper, in bytes.
const HELPER_STACK: usize = 128 << 10;

/// Starts the helper, if this process has none.
fn help() {
    let this = process::this().id;
    // Relaxed, all: only the number matters.
    if HELPED.load(Ordering::Relaxed) == this || HELPED.swap(this, Ordering::Relaxed) == this {
        return;
    }
    let body = || {
        loop {
            let rung = LEFT.serve(|futex| wake(futex, c_int::MAX));
            LEFT.sleep(rung);
        }
    };
    if start_helper("selvedge-post", Some(HELPER_STACK), body).is_err() {
        // The next thread that waits tries again.
        HELPED.store(0, Ordering::Relaxed);
    }
}

/// Wakes at most `most` threads, of both kinds.
pub(super) fn wake(futex: *const u32, most: c_int) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: an address is all that it needs.
    unsafe { libc::syscall(libc::SYS_futex, futex, wake, most) };
}

/// Sleeps while the value is zero, as a green thread or in the kernel.
fn sleep(word: &SemaphoreWord, deadline: Option<Moment>) -> Result<(), c_int> {
    let futex = word.futex();
    if interpose::green().is_none() {
        return cancel::sleep_at(futex, || in_kernel(futex, deadline));
    }
    let queued = |wait| futex::wait(futex.addr(), futex::ANY, wait, || word.value() == 0);
    let is_interrupted = |waited: &Result<(), NotWoken>| *waited == Err(NotWoken::Interrupted);
    match cancel::wait_unless(Ends::AsAsked, Wait::by(deadline), queued, is_interrupted) {
        Ok(()) | Err(NotWoken::Differs) => Ok(()),
        Err(NotWoken::TimedOut) => Err(libc::ETIMEDOUT),
        Err(NotWoken::Interrupted) => Err(cancel::code_of_end()),
    }
}

/// Sleeps in the kernel while the futex is zero.
fn in_kernel(futex: *const u32, deadline: Option<Moment>) -> Result<(), c_int> {
    let left = deadline.map(|end| {
        let time = end - Moment::now();
        let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
    });
    let timeout = left.as_ref().map_or(ptr::null(), ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word of the program's, and a time.
    if unsafe { libc::syscall(libc::SYS_futex, futex, wait, 0, timeout) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(code @ (libc::ETIMEDOUT | libc::EINTR)) => Err(code),
        _ => Ok(()),
    }
}
