//! Shares: who has run for how long, while others wait for their turn.
//!
//! **The problem.** Threads that compute are to get equal parts of the LWPs, though some of them wait for locks, wake, and so come before
//! those that lost their slice.
//!
//! **Rejected.** To read the clock at each dispatch: 18 ns, where a switch costs 12. To let the monitor's rounds count for the thread that each of
//! them finds: threads that wait often run between the rounds, and shares differed by 14 % after two seconds. To compare a thread with the most that
//! one of those had run which were next: whoever had less came first, however much it was.
//!
//! **Protocol.** The monitor says when to count: while threads wait that lost their slice. Then threads switch by way of the dispatcher, which adds the time since the last switch to
//! the thread that leaves, and moves the mean a little towards what that one has run by now. A thread that has run for more than the
//! mean, by [`AHEAD`], waits among those that lost their slice when it wakes; of those, the one that has run least is next.
//! Times are the wall's, so what other processes take counts too; nobody is further from the mean than [`OWED`].

use std::ptr::NonNull;

use super::policy::{AHEAD, CANDIDATES, COUNTED_ON, INERTIA, OWED};
use super::{Scheduler, deref};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::shim::atomic::{AtomicU64, Ordering};

/// What all threads of a runtime have run, more or less, and since when it is counted.
#[derive(Debug)]
pub(crate) struct Shares {
    /// In ns. Written by every LWP, without care: a figure.
    mean: AtomicU64,
    /// `u64::MAX`: not at all.
    since: AtomicU64,
    /// When the monitor last found that it matters; `u64::MAX`: never.
    wanted: AtomicU64,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self { mean: AtomicU64::new(0), since: AtomicU64::new(u64::MAX), wanted: AtomicU64::new(u64::MAX) }
    }

    /// For the monitor, in each round: whether somebody waits `now` that lost his slice. Gives whether time is to be counted.
    pub(crate) fn count(&self, wanted: bool, now: u64) -> bool {
        // Relaxed, all: figures. Only the monitor writes.
        if wanted {
            self.wanted.store(now, Ordering::Relaxed);
        }
        let ago = now.checked_sub(self.wanted.load(Ordering::Relaxed));
        let counts = ago.is_some_and(|ago| ago < COUNTED_ON);
        if counts != (self.since.load(Ordering::Relaxed) != u64::MAX) {
            self.since.store(if counts { now } else { u64::MAX }, Ordering::Relaxed);
        }
        counts
    }

    /// What a thread has run that had run for `ran`, now that it has run for `more`: no further from the mean than it may be.
    fn add(&self, ran: u64, more: u64) -> u64 {
        // Relaxed, both: an addition that is lost moves the mean a little later.
        let mean = self.mean.load(Ordering::Relaxed);
        let ran = (ran + more).clamp(mean.saturating_sub(OWED), mean + OWED);
        self.mean.store(
            mean.saturating_add_signed(ran.wrapping_sub(mean).cast_signed() / INERTIA),
            Ordering::Relaxed,
        );
        ran
    }

    fn is_ahead(&self, ran: u64) -> bool {
        // Relaxed: a figure.
        ran > self.mean.load(Ordering::Relaxed) + AHEAD
    }
}

impl Scheduler {
    /// Adds the time since the last dispatch to the thread that this LWP runs.
    #[cold]
    pub(crate) fn count_share(&self, lwp: &'static Lwp) {
        let now = self.clock.now();
        // Relaxed, all: our own thread's, and figures.
        let since = lwp.counted.replace(now).max(self.shares.since.load(Ordering::Relaxed));
        // SAFETY: null, or the thread that runs on this LWP, or did until now.
        let Some(running) = (unsafe { lwp.running.load(Ordering::Relaxed).as_ref() }) else { return };
        let ran = self.shares.add(running.ran.load(Ordering::Relaxed), now.saturating_sub(since));
        running.ran.store(ran, Ordering::Relaxed);
        running.ahead.store(self.shares.is_ahead(ran), Ordering::Relaxed);
    }

    /// The same for the dispatcher, if it counts.
    #[inline]
    pub(super) fn count_if_told(&self, lwp: &'static Lwp) {
        if lwp.asked.counts() {
            self.count_share(lwp);
        }
    }

    /// Takes a thread that lost its slice: of the oldest, the one that has run least.
    #[cold]
    pub(super) fn pop_preempted(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        self.pop_of(CANDIDATES, lwp)
    }

    /// Takes the oldest.
    #[cold]
    pub(super) fn pop_oldest(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        self.pop_of(1, lwp)
    }

    fn pop_of(&'static self, candidates: usize, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        // Relaxed, both: figures.
        let ran = |green: NonNull<Green>| deref(green).ran.load(Ordering::Relaxed);
        let green = self.preempted.take_least(candidates, ran)?;
        deref(green).ahead.store(false, Ordering::Relaxed);
        lwp.preempted_turn.set(self.clock.now());
        Some(green)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_mean_follows_what_all_have_run() {
        let shares = Shares::new();
        let mut ran = [0; 16];
        for turn in 0..16_000 {
            let ran = &mut ran[turn % 16];
            *ran = shares.add(*ran, MS);
        }
        let mean = shares.mean.load(Ordering::Relaxed);
        assert_eq!(ran, [1000 * MS; 16]);
        assert!((995 * MS..=1000 * MS).contains(&mean), "{mean}");
        assert!(ran.iter().all(|&ran| shares.is_ahead(ran) == (ran > mean + AHEAD)));
    }

    #[test]
    fn nobody_is_far_from_the_mean() {
        let shares = Shares::new();
        let long = shares.add(0, 1000 * MS);
        assert_eq!(long, OWED);
        shares.mean.store(1000 * MS, Ordering::Relaxed);
        assert_eq!(shares.add(3 * MS, MS), 1000 * MS - OWED, "it has waited for something else");
        assert!(shares.is_ahead(1000 * MS + AHEAD + 1));
        assert!(!shares.is_ahead(900 * MS));
    }

    #[test]
    fn it_counts_from_when_it_was_told() {
        let shares = Shares::new();
        let now = 7 * COUNTED_ON;
        assert!(!shares.count(false, now - 1));
        assert!(shares.count(true, now) && shares.count(true, now + 1));
        assert_eq!(shares.since.load(Ordering::Relaxed), now);
        assert!(shares.count(false, now + COUNTED_ON), "where somebody waits now and then, all counts");
        assert!(!shares.count(false, now + 1 + COUNTED_ON));
        assert_eq!(shares.since.load(Ordering::Relaxed), u64::MAX);
    }
}
