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
//!
//! A lock that was free and is taken again has an owner in a loop. Two such owners on two CPUs take turns at each entry, and each
//! turn costs a cache line, five times what the entry costs. So who waits leaves the lock to the other for a while. And who gets it
//! holds on to it for a moment: the line comes and goes with all that is done between two read-modify-writes, so the other would find
//! the lock free again, never know, and take it back after one entry.

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

/// Longer than an owner in a loop leaves a lock free, in pauses: some 90 ns, most of which its next read-modify-write waits for
/// the cache line that our look has taken away. Who is handed a lock waits for so much longer (ping-pong on two CPUs: 170 to 265 ns).
const ONCE_ROUND: u32 = if GAP_LIMIT < 8 { GAP_LIMIT } else { 8 };

/// What it takes its former owner to see that a lock is taken, in pauses.
///
/// | pauses | 32 threads in one critical region, kernel and green, ms | in one of 8 | ping-pong of kernel threads on two CPUs, ns |
/// |---|---|---|---|
/// | none | 27.6, 34.5 | 33, 31 | 300 |
/// | 4 | 26.8, 29.9 | 31, 27 | |
/// | 8 | 26.4, 29.0 | 29, 27 | 360 |
/// | 16 | as with 8 | | |
const SHOWN: u32 = if GAP_LIMIT < 4 { GAP_LIMIT } else { 4 };

/// For how long such a lock is left alone, in pauses: some 11 us, in which its owner comes round 600 times.
///
/// | pauses | 32 threads in one critical region, kernel and green, ms | in one of 8 |
/// |---|---|---|
/// | none | 64 to 83, 200 | 50, 72 |
/// | 128 | 46, 59 | 49, 52 |
/// | 512 | 31, 44 | 38, 41 |
/// | 1,024 | 27, 37 | 35, 30 |
const LEAVE_ALONE: u32 = if GAP_LIMIT < 8 { GAP_LIMIT } else { 1024 };

/// For a thread that has just taken a lock from an owner in a loop: holds it until that one has seen so.
#[inline]
pub(crate) fn show_it_is_taken() {
    pause_for(SHOWN);
}

/// Looks away for so many pauses.
#[inline]
fn pause_for(pauses: u32) {
    for _ in 0..pauses {
        spin_hint();
    }
}

/// The looks of one spin.
#[derive(Debug)]
pub(crate) struct Spin {
    left: u16,
    gap: u32,
    paused: bool,
    /// What is looked at is a lock, and has been seen free.
    seen_free: bool,
    left_alone: bool,
}

impl Spin {
    /// At most `looks` looks; none if this process has one CPU only.
    #[inline]
    pub(crate) fn new(looks: u16) -> Self {
        Self {
            left: if cpus() > 1 { looks } else { 0 },
            gap: 1,
            paused: false,
            seen_free: false,
            left_alone: false,
        }
    }

    /// Whether to take the lock that the last look has found free. Where that was not the first look, it looks once more first.
    #[inline]
    pub(crate) fn is_free_at_last(&mut self) -> bool {
        let known = self.seen_free || !self.has_paused();
        self.seen_free = true;
        if !known {
            pause_for(ONCE_ROUND);
        }
        known
    }

    /// Whether the last look was not the first.
    #[inline]
    pub(crate) fn has_paused(&self) -> bool {
        self.paused
    }

    /// Pauses before the next look; `false`: there were enough.
    #[inline]
    #[must_use]
    pub(crate) fn pause(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.paused = true;
        if self.seen_free && !self.left_alone {
            self.left_alone = true;
            pause_for(LEAVE_ALONE);
            return true;
        }
        pause_for(self.gap);
        self.gap = MAX_GAP.min(self.gap * 2);
        true
    }
}
