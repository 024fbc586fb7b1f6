//! How long to look at a word before sleeping, and how often.
//!
//! **Problem.** Waking a kernel thread that sleeps on another CPU costs its waker 11 us and the sleeper 17 to 34, a
//! hundred times what it takes to see a store from there. But each look takes the cache line away from the writer, and
//! a spin that ends in a sleep after all was for nothing.
//!
//! **Rejected.** Blind spinning (a fixed count, whatever the owner does): 40 pauses made a hand-off between two threads
//! of one LWP nine times slower. Test-and-set in the loop: every look would take the line for writing.
//!
//! So callers spin only if somebody on another CPU is likely to write, they look by plain loads, and the gaps between
//! looks grow.

use crate::shim::{FEW_LOOKS, GAP_LIMIT, MANY_LOOKS, cpus, spin_hint};

/// The longest gap between two looks, in pauses of some 11 ns.
const MAX_GAP: u32 = if GAP_LIMIT < 16 { GAP_LIMIT } else { 16 };

/// Looks of a full spin of a kernel thread: with gaps of [`MAX_GAP`] about 50 us, which must exceed the price of one
/// wake-up (33 us on the virtual machine where this was measured), or two threads on two CPUs fall asleep between any
/// two hand-offs.
pub(crate) const FULL_LOOKS: u16 = MANY_LOOKS;

/// Looks of a green thread at a lock whose owner runs on another LWP: about 5 us. Its sleep costs a hundredth of a
/// kernel thread's, so only short critical sections are worth waiting for.
pub(crate) const GREEN_LOOKS: u16 = FEW_LOOKS;

/// The looks of one spin.
#[derive(Debug)]
pub(crate) struct Spin {
    left: u16,
    gap: u32,
}

impl Spin {
    /// At most `looks` looks; none if this process has one CPU only.
    #[inline]
    pub(crate) fn new(looks: u16) -> Self {
        Self { left: if cpus() > 1 { looks } else { 0 }, gap: 1 }
    }

    /// Pauses before the next look; `false`: there were enough.
    #[inline]
    #[must_use]
    pub(crate) fn pause(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        for _ in 0..self.gap {
            spin_hint();
        }
        self.gap = MAX_GAP.min(self.gap * 2);
        true
    }
}
