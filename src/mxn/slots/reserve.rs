//! The thread that keeps a reserve of spare LWPs. Only this thread makes kernel threads while a runtime runs
//! (I4), and ends those that are not needed. It also makes and retires slots (`mxn::slots::concurrency`).
//!
//! If an LWP has been a spare for `lwp_age`, while there are more spares than the reserve, it is told to end.
//! It is taken off the list, so that it gets no slot, retired, and joined. Some LWPs are kept, because
//! something may still be on its way to them:
//!
//! - an LWP with a kernel thread that has child processes (H13: the kernel tells them that their parent has
//!   died)
//! - on `Pinned` all, since threads come home to them
//!
//! Deadlines that were armed on an LWP stay in its wheel. Once the LWP has ended, this thread wakes for them,
//! and ends the sleeps. If the runtime was dropped meanwhile, this thread may not be the one that joins the
//! LWP. Then the monitor sees to the deadlines until this thread next looks. If the LWP begins another life,
//! they are that life's.
//!
//! Rejected: to keep such an LWP. A server that gives each read a limit kept up to twelve kernel threads for
//! as long as its connections were idle. It looked at them some times a second.

mod keeper;

use crate::mxn::counter::Counter;
use crate::mxn::slots::pool::RESERVE;
use crate::shim::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shim::{futex, store_among_swaps};
use crate::time::Moment;

/// For this long, in ns, after an LWP could not be started, threads are preempted without a reserve. Then a
/// start is tried again.
const REFUSED: u64 = 1_000_000_000;

/// What others tell the thread, and see of it.
#[derive(Debug, Default)]
pub(crate) struct ReserveState {
    /// The reserve needs filling. It is the futex of the thread.
    refill: AtomicU32,
    /// How many spares are to stand by, if more than at the start.
    width: AtomicUsize,
    /// How often there was neither a spare LWP nor room for one more.
    pub(crate) bounded: Counter,
    /// When a start last failed, by the runtime's clock; 0: never.
    failed_at: AtomicU64,
    /// How many LWPs could not be started.
    pub(crate) not_started: Counter,
    /// How many LWPs were spare for so long that their kernel threads were ended.
    pub(crate) aged: Counter,
}

impl ReserveState {
    /// Asks for the reserve to be looked at. Any context: a store and a futex wake.
    pub(crate) fn ask(&self) {
        // Release: pairs with `take_asked`.
        store_among_swaps!(self.refill, 1, Ordering::Release);
        futex::wake(&self.refill, 1);
    }

    /// Returns `true` if the thread was asked to look, and takes the request.
    fn take_asked(&self) -> bool {
        // Acquire: pairs with `ask`.
        self.refill.swap(0, Ordering::Acquire) != 0
    }

    /// Waits until the thread is asked, or until then.
    fn wait(&self, until: Option<Moment>) {
        let _ = futex::wait(&self.refill, 0, until);
    }

    /// Returns how many spares are to stand by.
    pub(crate) fn width(&self) -> usize {
        // Relaxed: a number.
        self.width.load(Ordering::Relaxed).max(RESERVE)
    }

    /// Sets how many spares are to stand by, if more than at the start. Otherwise they age.
    fn set_width(&self, spares: usize) {
        // Relaxed: a number. The futex wake of `ask` comes after.
        if self.width.swap(spares, Ordering::Relaxed) != spares {
            self.ask();
        }
    }

    /// Records that an LWP could not be started.
    fn note_failure(&self, now: u64) {
        self.not_started.add();
        // Relaxed: a figure.
        self.failed_at.store(now.max(1), Ordering::Relaxed);
    }

    /// Returns `true` if a failed start still means, at `now`, that there can be no more LWPs. If it no
    /// longer does, asks for another start.
    fn gives_up(&self, now: u64) -> bool {
        // Relaxed: a figure.
        let failed_at = self.failed_at.load(Ordering::Relaxed);
        let refused = is_refused(failed_at, now);
        if !refused && failed_at > 0 {
            // A start may succeed by now.
            self.ask();
        }
        refused
    }

    /// Creates loom's objects before the model's threads start.
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        let _ = self.refill.load(Ordering::Relaxed);
        let _ = (self.bounded.get(), self.aged.get());
    }
}

/// Returns `true` if a start failed shortly before `now`: at `failed_at`, by the runtime's clock; 0: no start
/// has failed.
fn is_refused(failed_at: u64, now: u64) -> bool {
    failed_at > 0 && now.saturating_sub(failed_at) < REFUSED
}

#[cfg(all(test, loom))]
pub(in crate::mxn) mod loom_saved;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_failed_long_ago_says_nothing() {
        assert!(!is_refused(0, 1), "no start has failed");
        assert!(is_refused(1, 1) && is_refused(1, REFUSED));
        assert!(!is_refused(1, REFUSED + 1));
    }
}
