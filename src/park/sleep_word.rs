//! The word of one sleep, and who may change it.
//!
//! | value | meaning | next by |
//! |---|---|---|
//! | `ASLEEP` | a green thread: asleep; a kernel thread: about to sleep, looks at the word | the winner; a kernel thread's own commit |
//! | `COMMITTED` | a kernel thread in (or on its way into) the kernel: must be woken | the winner |
//! | more than that | settled, by the winner: what it says is the winner's affair | nobody |
//!
//! The winner is whoever was chosen elsewhere: by unlinking a waiter with its bucket's lock held, or by taking a joiner out of a
//! thread's exit word (I3). So settling needs no compare-and-swap. Settling a green thread is a plain store: it was
//! published as asleep, and always needs a wake-up. A kernel thread decides by itself when to enter the kernel, so that it
//! can spin first; settling it is a swap that finds out whether it did.

use crate::shim::atomic::{AtomicU32, Ordering};

/// See the table above.
#[derive(Debug)]
pub(super) struct SleepWord(AtomicU32);

const ASLEEP: u32 = 0;
const COMMITTED: u32 = 1;
/// The least value that says settled.
pub(super) const FIRST_SETTLED: u32 = 2;

impl SleepWord {
    #[inline]
    pub(super) fn new() -> Self {
        Self(AtomicU32::from(ASLEEP))
    }

    /// What a kernel thread waits on.
    #[inline]
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.0
    }

    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        // Acquire: pairs with the release of `settle` and `settle_kernel`: what the winner did is visible.
        self.0.load(Ordering::Acquire) > COMMITTED
    }

    /// ASLEEP -> COMMITTED by the sleeper; the value to sleep on, or `None` if settled already.
    #[inline]
    pub(super) fn commit_kernel(&self) -> Option<u32> {
        // Acquire on failure: as in `is_settled`. Relaxed on success: it publishes nothing; the futex compares the
        // word itself, and the winner's swap reads this write.
        match self.0.compare_exchange(ASLEEP, COMMITTED, Ordering::Relaxed, Ordering::Acquire) {
            Ok(_) | Err(COMMITTED) => Some(COMMITTED),
            Err(_) => None,
        }
    }

    /// -> `value`, by the winner of a green thread's sleep, or by a kernel thread that won its own.
    #[inline]
    pub(super) fn settle(&self, value: u32) {
        debug_assert!(value >= FIRST_SETTLED);
        // Release: pairs with `is_settled` and `outcome`.
        self.0.store(value, Ordering::Release);
    }

    /// -> `value`, by the winner of a kernel thread's sleep; whether it must be woken. The word may be gone afterwards.
    #[inline]
    pub(super) fn settle_kernel(&self, value: u32) -> bool {
        debug_assert!(value >= FIRST_SETTLED);
        // Release: pairs with `is_settled` and `outcome`. A swap, because the thread may be committing right now: one
        // of the two sees the other.
        self.0.swap(value, Ordering::Release) == COMMITTED
    }

    /// The value that it was settled with.
    #[inline]
    pub(super) fn outcome(&self) -> u32 {
        // Acquire: pairs with the release of `settle` and `settle_kernel`.
        let word = self.0.load(Ordering::Acquire);
        debug_assert!(word > COMMITTED, "returned from a sleep that is not over");
        word
    }
}
