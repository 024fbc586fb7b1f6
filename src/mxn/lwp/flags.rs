//! What others ask of an LWP's dispatcher, in one word, because every dispatch looks at it. If anything is
//! asked, a switch leaves the shortest way (`Scheduler::leave_slowly`). To ask for less there costs 0.3 ns,
//! of 12, when nothing is asked.

use crate::shim::atomic::{AtomicU8, Ordering};

/// What is asked.
///
/// | bit | meaning | set by | cleared by |
/// |---|---|---|---|
/// | `LOOK` | look: a timer is overdue, or threads wait elsewhere, or long | any thread | dispatcher, once |
/// | `SIFT` | filter the own queues: a priority has changed (`sched::priority`) | any thread | the same |
/// | `COUNT` | add to the shares of threads that leave (`sched::fair_share`) | the monitor | the monitor |
/// | `TRACE` | count times and record events of threads (`sched::traced`) | any thread | any thread |
#[derive(Debug)]
pub(crate) struct Flags(AtomicU8);

const LOOK: u8 = 1;
const COUNT: u8 = 2;
const TRACE: u8 = 4;
const SIFT: u8 = 8;

/// What a dispatcher is asked to do once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Asked {
    pub(crate) look: bool,
    pub(crate) sift: bool,
}

impl Flags {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Returns `true` if anything is asked.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        // Relaxed: seen at this dispatch or at the next.
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn look(&self) {
        // Release: pairs with `take`: the dispatcher then finds what to look for.
        self.0.fetch_or(LOOK, Ordering::Release);
    }

    /// Asks the dispatcher to filter its own queues, and then to look.
    pub(crate) fn sift(&self) {
        // Release: pairs with `take`; see the proof in `sched::priority`.
        self.0.fetch_or(LOOK | SIFT, Ordering::Release);
    }

    /// Takes what is asked once. Owner only.
    pub(crate) fn take(&self) -> Asked {
        // Acquire: pairs with `look` and `sift`.
        let asked = self.0.fetch_and(!(LOOK | SIFT), Ordering::Acquire);
        Asked { look: asked & LOOK != 0, sift: asked & SIFT != 0 }
    }

    /// Returns `true` if the dispatcher has anything to note when a thread begins or stops to run.
    #[inline]
    pub(crate) fn is_noting(&self) -> bool {
        // Relaxed: as in `counts`.
        self.0.load(Ordering::Relaxed) & (COUNT | TRACE) != 0
    }

    /// Returns `true` if something is to be noted, and nothing else is asked.
    pub(crate) fn only_notes(&self) -> bool {
        // Relaxed: as in `is_any`.
        let asked = self.0.load(Ordering::Relaxed);
        asked != 0 && asked & !(COUNT | TRACE) == 0
    }

    /// Returns `true` if times are counted.
    #[inline]
    pub(crate) fn traces(&self) -> bool {
        // Relaxed: as in `counts`.
        self.0.load(Ordering::Relaxed) & TRACE != 0
    }

    pub(crate) fn trace(&self, traces: bool) {
        self.set(TRACE, traces);
    }

    pub(crate) fn counts(&self) -> bool {
        // Relaxed: it takes effect a dispatch earlier or later.
        self.0.load(Ordering::Relaxed) & COUNT != 0
    }

    pub(crate) fn count(&self, counts: bool) {
        self.set(COUNT, counts);
    }

    fn set(&self, bit: u8, on: bool) {
        // Relaxed, both: as in `counts`.
        if on {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
