//! What a handler of a signal must know of the green thread that it has interrupted: which it is, whether it
//! may be left, and what the C library says of that.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::park::current;
use crate::park::no_preempt::Count;
use crate::park::thread::ThreadRef;
use crate::sys::tcb;

/// What a handler of a signal must know of a green thread.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) thread: ThreadRef,
    pub(super) count: Count,
    /// What the C library knows of the thread's requests; null: that is not known.
    pub(super) library: *const AtomicU32,
}

// SAFETY: atomics, which only the thread itself and handlers on it use.
unsafe impl Send for Running {}
// SAFETY: atomics, which only the thread itself and handlers on it use.
unsafe impl Sync for Running {}

impl Running {
    /// Returns what is known of the running thread, if it is one of Selvedge's.
    pub(super) fn here() -> Option<Self> {
        let library = tcb::Library::get().map_or(ptr::null(), tcb::Library::cancellation);
        Some(Self { thread: current::try_current()?, count: Count::of_caller(), library })
    }

    /// Returns `true` if the C library may be left by unwinding where the thread is.
    ///
    /// # Safety
    /// The thread is the running one.
    pub(super) unsafe fn is_in_section(&self) -> bool {
        // SAFETY: null, or a part of the running thread's block.
        let word = unsafe { self.library.as_ref() };
        // Relaxed: the thread's own.
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (SECTION | REFUSES) == SECTION)
    }

    /// Takes back that the C library may be left where the thread is.
    ///
    /// # Safety
    /// The thread is the running one.
    pub(super) unsafe fn leave_section(&self) {
        // SAFETY: null, or a part of the running thread's block.
        if let Some(word) = unsafe { self.library.as_ref() } {
            // Relaxed: the thread's own.
            word.fetch_and(!SECTION, Ordering::Relaxed);
        }
    }
}

/// The C library has this in its word while a thread may be ended in its code: around most system calls that
/// may wait, up to 2.40, but for 2.34 and 2.35. What a program asks for (`PTHREAD_CANCEL_ASYNCHRONOUS`) is
/// not there for green threads.
pub(super) const SECTION: u32 = 2;
/// The C library has this there while its own code refuses requests, as `error` does.
pub(super) const REFUSES: u32 = 1;
