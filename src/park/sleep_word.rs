//! One sleep, as the parties see it that may end it; its word, and which threads may change that.
//!
//! A backend, a timer or an interrupt knows no more of a sleep than [`Sleep`]. So a part of a thread can hold
//! a sleep without knowing what a thread is.
//!
//! | value | meaning | next by |
//! |---|---|---|
//! | `ASLEEP` | a green thread: asleep; a kernel thread: about to sleep | the winner; the thread's commit |
//! | `COMMITTED` | a kernel thread in the kernel, or on its way: must be woken | the winner |
//! | more than that | settled by the winner, which chose the value | none |
//!
//! The winner was chosen elsewhere (I3): it unlinked a waiter with the lock of its bucket held, or took a
//! joiner out of a thread's exit word. So settling needs no compare-and-swap.
//!
//! - For a green thread it is a plain store: the thread was published as asleep, and always needs a wake-up.
//! - A kernel thread itself decides when to enter the kernel, so that it can spin first. To settle its sleep
//!   is a swap, which finds out if it has committed.

use crate::shim::atomic::{AtomicU32, Ordering};

/// One sleep of one thread. It lives on the sleeper's stack, from before the sleeper is visible as asleep
/// until `Backend::block` has returned.
pub(crate) trait Sleep {
    /// Returns the word that holds the state of the sleep. A kernel thread waits on it as a futex.
    fn word(&self) -> &AtomicU32;

    /// Returns `true` if the word still says asleep. Only a look: what the winner wrote is visible to a
    /// sleeper that has then read how its sleep ended.
    fn is_asleep(&self) -> bool;

    /// Returns `true` if it may pay to watch the word for a while before the futex wait. Kernel threads
    /// only.
    fn may_spin(&self) -> bool {
        true
    }

    /// Commits to the futex wait: from now on the winner must wake. Returns the value to pass to the futex,
    /// or `None` if the sleep is already over. Kernel threads only; called by the sleeper, just before the
    /// futex wait.
    fn commit_kernel(&self) -> Option<u32>;

    /// Returns `true` if its deadline is far ahead, and `wait_queue::expire_if` finds the sleep by its thread.
    /// Such a sleep needs no timer of its own (`mxn/timer/alarm.rs`).
    fn has_far_deadline(&self) -> bool {
        false
    }

    /// Ends the sleep because its deadline has passed. If it returns `true`, this call won, and its caller
    /// makes the thread runnable. (A kernel thread that expired its own sleep just returns.) A grant that
    /// came first wins. For queue waits this takes the queue lock, so it must be called without one.
    fn expire(&self) -> bool;

    /// Ends the sleep because its thread has been interrupted. If it returns `true`, this call won, and its
    /// caller wakes the thread. If the caller is the thread itself, it does not block. Otherwise the same as
    /// [`expire`](Self::expire), with one difference: for a kernel thread, another thread may call this. So
    /// the thread may be watching the word, or committing.
    fn interrupt(&self) -> bool;
}

/// See the table in the header.
#[derive(Debug)]
pub(super) struct SleepWord(AtomicU32);

const ASLEEP: u32 = 0;
const COMMITTED: u32 = 1;
/// The lowest value that says settled. The waited-for thing has come; the bits from [`CODE_SHIFT`] say more.
pub(super) const GRANTED: u32 = 2;
/// The deadline came first.
pub(super) const EXPIRED: u32 = 3;
/// An interrupt came first.
pub(super) const INTERRUPTED: u32 = 4;
pub(super) const CODE_SHIFT: u32 = 8;

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
    fn commit_kernel(&self) -> Option<u32> {
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
    fn settle(&self, value: u32) {
        debug_assert!(value >= GRANTED);
        // Release: pairs with `outcome`.
        self.0.store(value, Ordering::Release);
    }

    /// Stores `value`. Called by the winner of a kernel thread's sleep. Returns `true` if the thread must be
    /// woken. The word may be gone afterwards.
    #[inline]
    fn settle_kernel(&self, value: u32) -> bool {
        debug_assert!(value >= GRANTED);
        // Release: pairs with `outcome`. A swap, because the thread may be committing at this moment: one of
        // the two sees the other.
        self.0.swap(value, Ordering::Release) == COMMITTED
    }

    /// Stores `value`. Called by the winner, which knows if the sleeper is a `kernel` thread. Returns `true`
    /// if the thread must be woken. A kernel thread's word may be gone afterwards.
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

/// A sleep that has such a word.
pub(super) trait OnWord {
    fn word(&self) -> &SleepWord;

    /// Returns `true` if the thread spins, and enters the kernel by itself (`ThreadCore::is_kernel`).
    fn is_kernel(&self) -> bool;

    /// See [`Sleep::may_spin`].
    fn may_spin(&self) -> bool {
        true
    }

    /// See [`Sleep::has_far_deadline`].
    fn has_far_deadline(&self) -> bool {
        false
    }

    /// Wins the sleep for a deadline or an interrupt. Returns `false` if it has a winner.
    fn withdraw(&self) -> bool;
}

impl<S: OnWord> Sleep for S {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        &OnWord::word(self).0
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        !OnWord::word(self).is_settled()
    }

    #[inline]
    fn may_spin(&self) -> bool {
        OnWord::may_spin(self)
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        OnWord::word(self).commit_kernel()
    }

    fn has_far_deadline(&self) -> bool {
        OnWord::has_far_deadline(self)
    }

    fn expire(&self) -> bool {
        let won = self.withdraw();
        if won {
            OnWord::word(self).settle(EXPIRED);
        }
        won
    }

    fn interrupt(&self) -> bool {
        let won = self.withdraw();
        if won {
            // It is woken even if it does not sleep.
            let _ = OnWord::word(self).settle_for(self.is_kernel(), INTERRUPTED);
        }
        won
    }
}
