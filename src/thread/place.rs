//! Room for one more kernel thread.
//!
//! **Problem.** A process may have so many mappings (`vm.max_map_count`, 65,530 by default), and a kernel thread takes four: its stack, its
//! signal stack, and a guard for each. std maps the signal stack in the new thread, where nobody is left to be told: it panics,
//! and the process aborts, at the 16,300th thread or so.
//!
//! So whoever starts one where there are thousands makes sure that there is room for it, and for those that have been started and not come so
//! far. The kernel's list of mappings is long by then; it is read when half of what it left has been used up.
//!
//! **Rejected.** To make so many mappings and give them back: those that start at that moment find none. To map the signal stack
//! before: only the thread itself can set it, and std maps another unless it finds one.

use std::io;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use crate::sys::mmap::mappings_left;

/// With fewer threads than this, nobody looks: a quarter of what the default limit allows.
const MANY: usize = 4_000;
/// Mappings of a kernel thread.
const EACH: usize = 4;
/// Mappings that are left to others.
const SPARE: usize = 256;

/// Kernel threads of this module that have not ended.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Those of them that have not begun.
static STARTING: AtomicUsize = AtomicUsize::new(0);
/// How many may be started without another look at the list.
static UNLOOKED: AtomicIsize = AtomicIsize::new(0);

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
        STARTING.fetch_add(1, Ordering::Relaxed);
        let many = THREADS.fetch_add(1, Ordering::Relaxed) >= MANY;
        if many && UNLOOKED.fetch_sub(1, Ordering::Relaxed) <= 0 {
            look()?;
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

/// Asks the kernel how much room is left.
#[cold]
fn look() -> io::Result<()> {
    let Some(left) = mappings_left() else { return Ok(()) };
    // Relaxed: as above.
    let claimed = STARTING.load(Ordering::Relaxed) * EACH + SPARE;
    let Some(free) = left.checked_sub(claimed) else {
        let why = format!(
            "{left} mappings are left, and {claimed} are needed by threads that are starting and for what else goes on"
        );
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
    };
    UNLOOKED.store((free / EACH / 2) as isize, Ordering::Relaxed);
    Ok(())
}
