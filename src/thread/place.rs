//! Room for one more kernel thread.
//!
//! **Problem.** A process may have so many mappings (`vm.max_map_count`, 65,530 by default), and a kernel thread takes four: its stack, its
//! signal stack, and a guard for each. std maps the signal stack in the new thread, where nobody is left to be told: it panics,
//! and the process aborts, at the 16,300th thread or so.
//!
//! So whoever starts one makes sure that the mappings can be had, for it and for those that have been started and not come so far. Only where
//! there are thousands: it costs a system call for every other mapping.
//!
//! **Rejected.** To count the process's mappings: a file of thousands of lines for each thread. To map the signal stack before: std
//! maps another unless it finds one, and only the thread itself can set it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::mmap::check_mappings;

/// With fewer threads than this, nobody looks: a quarter of what the default limit allows.
const MANY: usize = 4_000;
/// Mappings of a kernel thread.
const EACH: usize = 4;
/// Mappings for what else goes on.
const SPARE: usize = 16;

/// Kernel threads of this module that have not ended.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Those of them that have not begun.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// One kernel thread's place among them. Given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    has_begun: bool,
}

impl Place {
    /// For a thread that is about to be started.
    ///
    /// # Errors
    /// `OutOfMemory`: there is no room for it.
    pub(super) fn take() -> io::Result<Self> {
        let place = Self { has_begun: false };
        // Relaxed, here and below: counts that order nothing.
        let starting = STARTING.fetch_add(1, Ordering::Relaxed) + 1;
        if THREADS.fetch_add(1, Ordering::Relaxed) >= MANY {
            check_mappings(starting * EACH + SPARE)?;
        }
        Ok(place)
    }

    /// The thread runs: it has its mappings.
    pub(super) fn begin(&mut self) {
        STARTING.fetch_sub(1, Ordering::Relaxed);
        self.has_begun = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.has_begun {
            STARTING.fetch_sub(1, Ordering::Relaxed);
        }
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}
