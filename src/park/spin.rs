//! How long a thread looks at a word before it sleeps, and how often.
//!
//! **Problem.** If a kernel thread sleeps on another CPU, to wake it costs the waker 11 us and the sleeper
//! 17 to 34. To see a store from another CPU takes a hundredth of that. But each look takes the cache line
//! away from the writer, and a spin that ends in a sleep was for nothing.
//!
//! **Rejected.**
//!
//! - To spin blindly, a fixed number of times, whatever the owner does. 40 pauses made a hand-off between two
//!   threads of one LWP nine times slower.
//! - Test-and-set in the loop: every look would take the line for writing.
//! - To measure how long a pause is, so that all spins last as long on each processor (11 ns here, 21 on
//!   another one with sixteen CPUs). Half of the pauses made a hand-off of kernel threads there a third
//!   faster. But 32 threads in one critical region took three to five times as long.
//!
//! So callers spin only if a thread on another CPU is likely to write. They look by plain loads, and the
//! gaps between looks grow.
//!
//! **Owners in a loop.** If a lock was free and is taken again, its owner runs in a loop. Two such owners on
//! two CPUs take turns at each entry, and each turn costs a cache line, five times the cost of the entry. So
//! the waiter leaves the lock to the other thread for a while. And after that, the thread that gets the lock
//! holds it for a moment longer. Otherwise the line comes and goes with all that is done between two
//! read-modify-writes. The former owner would then find the lock free again, never see it taken, and take it
//! back after one entry. (If each thread that had to wait holds the lock longer, 128 threads that compute
//! between entries are slower: on sixteen CPUs 370 ns an entry instead of 277, on two of them 284 and 173.)

use crate::shim::{FEW_LOOKS, GAP_LIMIT, MANY_LOOKS, cpus, spin_hint};

/// The longest gap between two looks, in pauses of some 11 ns.
const MAX_GAP: u32 = if GAP_LIMIT < 16 { GAP_LIMIT } else { 16 };

/// The looks of a full spin of a kernel thread. With gaps of [`MAX_GAP`] they take about 50 us. That must
/// exceed the price of one wake-up (33 us on the virtual machine of these measurements). Otherwise two
/// threads on two CPUs fall asleep between any two hand-offs.
pub(crate) const FULL_LOOKS: u16 = MANY_LOOKS;

/// The looks of a green thread at a lock with an owner on another LWP: about 5 us. Its sleep costs a
/// hundredth of a kernel thread's, so only short critical sections are worth the wait.
pub(crate) const GREEN_LOOKS: u16 = FEW_LOOKS;

/// Longer than an owner in a loop leaves a lock free, in pauses: some 90 ns. For most of that time, its next
/// read-modify-write waits for the cache line that the look has taken away. A thread that is handed a lock
/// waits this much longer (ping-pong on two CPUs: 170 to 265 ns).
const ONCE_ROUND: u32 = if GAP_LIMIT < 8 { GAP_LIMIT } else { 8 };

/// How long the former owner of a lock takes to see that the lock is taken, in pauses.
///
/// - A: 32 threads in one critical region, kernel and green threads, ms
/// - B: 32 threads in one of 8 critical regions, kernel and green threads, ms
/// - C: ping-pong of kernel threads on two CPUs, ns
///
/// | pauses | A | B | C |
/// |---|---|---|---|
/// | none | 27.6, 34.5 | 33, 31 | 300 |
/// | 4 | 26.8, 29.9 | 31, 27 | |
/// | 8 | 26.4, 29.0 | 29, 27 | 360 |
/// | 16 | as with 8 | | |
const SHOWN: u32 = if GAP_LIMIT < 4 { GAP_LIMIT } else { 4 };

/// How long such a lock is left alone, in pauses: some 11 us, in which its owner enters 600 times.
///
/// | pauses | 32 threads in one critical region, kernel and green, ms | in one of 8 |
/// |---|---|---|
/// | none | 64 to 83, 200 | 50, 72 |
/// | 128 | 46, 59 | 49, 52 |
/// | 512 | 31, 44 | 38, 41 |
/// | 1,024 | 27, 37 | 35, 30 |
const LEAVE_ALONE: u32 = if GAP_LIMIT < 8 { GAP_LIMIT } else { 1024 };

/// How long all locks are left to other LWPs if one alone is faster (`park/fetches.rs`), in pauses: some 45
/// us.
///
/// | pauses | 32 threads and 4, 8, 32 critical regions, ms |
/// |---|---|
/// | 1,024 | 36, 31, 29 |
/// | 2,048 | 36, 31, 31 |
/// | 4,096 | 30, 28, 28 |
/// | one LWP | 27, 26, 26 |
const LEAVE_ALL: u32 = if GAP_LIMIT < 8 { GAP_LIMIT } else { 4096 };

/// Holds a lock until its former owner, which runs in a loop, has seen that it is taken. Called by the
/// thread that has just taken the lock.
#[inline]
pub(crate) fn show_it_is_taken() {
    pause_for(SHOWN);
}

/// Pauses this many times without a look.
#[inline]
fn pause_for(pauses: u32) {
    for _ in 0..pauses {
        spin_hint();
    }
}

/// The state of one spin.
#[derive(Debug)]
pub(crate) struct Spin {
    left: u16,
    gap: u32,
    paused: bool,
    /// Set if the word is a lock and has been seen free.
    seen_free: bool,
    left_alone: bool,
}

impl Spin {
    /// Creates a spin of at most `looks` looks, or of none if this process has only one CPU.
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

    /// Returns `true` if the lock that the last look found free is to be taken. If that was not the first
    /// look, one more look comes first.
    #[inline]
    pub(crate) fn is_free_at_last(&mut self) -> bool {
        let known = self.seen_free || !self.paused;
        self.seen_free = true;
        if !known {
            pause_for(ONCE_ROUND);
        }
        known
    }

    /// Returns `true` if the last look was the first, and there may be more.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.left > 0 && !self.paused
    }

    /// Returns `true` if an owner was seen to take the lock again at once, so that it was left alone.
    #[inline]
    pub(crate) fn has_left_alone(&self) -> bool {
        self.left_alone
    }

    /// Pauses until an owner that took the lock a moment ago has most likely stored its hint. Returns `false`
    /// if the last look was not the first, or was to be the only one.
    #[must_use]
    pub(crate) fn await_hint(&mut self) -> bool {
        let awaits = self.is_fresh();
        if awaits {
            self.paused = true;
            pause_for(ONCE_ROUND);
        }
        awaits
    }

    /// Leaves the lock to its owner for a while, but no longer than `may_leave`. Then it is to be taken if it
    /// is free.
    pub(super) fn leave_while(&mut self, may_leave: impl Fn() -> bool) {
        (self.paused, self.seen_free, self.left_alone) = (true, true, true);
        for _ in 0..LEAVE_ALL {
            if !may_leave() {
                return;
            }
            spin_hint();
        }
    }

    /// Pauses before the next look. Returns `false` if there were enough looks.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_awaited_at_the_first_look_only() {
        let mut spin = Spin::new(2);
        assert_eq!(spin.await_hint(), cpus() > 1);
        assert!(!spin.await_hint());
        let mut spin = Spin::new(2);
        assert_eq!(spin.pause(), cpus() > 1);
        assert!(!spin.await_hint());
    }

    #[test]
    fn a_lock_is_left_to_others_no_longer_than_it_may_be() {
        let looks = std::cell::Cell::new(0);
        Spin::new(1).leave_while(|| looks.replace(looks.get() + 1) < LEAVE_ALL / 2);
        assert_eq!(looks.get(), LEAVE_ALL / 2 + 1);
        looks.set(0);
        Spin::new(1).leave_while(|| looks.replace(looks.get() + 1) < u32::MAX);
        assert_eq!(looks.get(), LEAVE_ALL);
    }
}
