//! The word of one sleep, and which threads may change it.
//!
//! | value | meaning | next by |
//! |---|---|---|
//! | `ASLEEP` | a green thread: asleep; a kernel thread: about to sleep | the winner; the thread's commit |
//! | `COMMITTED` | a kernel thread in the kernel, or on its way: must be woken | the winner |
//! | more than that | settled by the winner, which chose the value | none |
//!
//! The winner was chosen elsewhere: it unlinked a waiter with the lock of its bucket held, or took a joiner
//! out of a thread's exit word (I3). So settling needs no compare-and-swap.
//!
//! - For a green thread it is a plain store: the thread was published as asleep, and always needs a wake-up.
//! - A kernel thread itself decides when to enter the kernel, so that it can spin first. To settle its sleep
//!   is a swap, which finds out if it has committed.

use crate::shim::atomic::{AtomicU32, Ordering};

/// See the table in the header.
#[derive(Debug)]
pub(super) struct SleepWord(AtomicU32);

const ASLEEP: u32 = 0;
const COMMITTED: u32 = 1;
/// The lowest value that says settled.
pub(super) const FIRST_SETTLED: u32 = 2;

impl SleepWord {
    #[inline]
    pub(super) fn new() -> Self {
        Self(AtomicU32::from(ASLEEP))
    }

    /// Returns the word on which a kernel thread waits.
    #[inline]
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.0
    }

    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        // Relaxed: only a look. A sleeper that finds it settled reads the `outcome`, which acquires.
        self.0.load(Ordering::Relaxed) > COMMITTED
    }

    /// Changes `ASLEEP` to `COMMITTED`. Called by the sleeper. Returns the value to sleep on, or `None` if
    /// the sleep is already settled.
    #[inline]
    pub(super) fn commit_kernel(&self) -> Option<u32> {
        // Relaxed on success: it publishes nothing. The futex compares the word itself, and the winner's swap
        // reads this write. Relaxed on failure: as in `is_settled`.
        match self.0.compare_exchange(ASLEEP, COMMITTED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) | Err(COMMITTED) => Some(COMMITTED),
            Err(_) => None,
        }
    }

    /// Stores `value`. Called by the winner of a green thread's sleep, or by a kernel thread that won its
    /// own.
    #[inline]
    pub(super) fn settle(&self, value: u32) {
        debug_assert!(value >= FIRST_SETTLED);
        // Release: pairs with `outcome`.
        self.0.store(value, Ordering::Release);
    }

    /// Stores `value`. Called by the winner of a kernel thread's sleep. Returns `true` if the thread must be
    /// woken. The word may be gone afterwards.
    #[inline]
    fn settle_kernel(&self, value: u32) -> bool {
        debug_assert!(value >= FIRST_SETTLED);
        // Release: pairs with `outcome`. A swap, because the thread may be committing at this moment: one of
        // the two sees the other.
        self.0.swap(value, Ordering::Release) == COMMITTED
    }

    /// Stores `value`. Called by the winner, which knows if the sleeper is a `kernel` thread. Returns `true` if
    /// the thread must be woken. A kernel thread's word may be gone afterwards.
    #[inline]
    pub(super) fn settle_for(&self, kernel: bool, value: u32) -> bool {
        if kernel {
            return self.settle_kernel(value);
        }
        self.settle(value);
        true
    }

    /// Returns the value that it was settled with.
    #[inline]
    pub(super) fn outcome(&self) -> u32 {
        // Acquire: pairs with the release of `settle` and `settle_kernel`.
        let word = self.0.load(Ordering::Acquire);
        debug_assert!(word > COMMITTED, "returned from a sleep that is not over");
        word
    }
}
