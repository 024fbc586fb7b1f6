//! Fair shares: how long each thread has run while others waited, and which of the waiting threads goes
//! first.
//!
//! **The problem.** Threads that compute are to get equal parts of the LWPs. That includes threads that never
//! wait, threads that wait for locks and wake up again, and threads that arrive and end all the time (an
//! *open* workload).
//!
//! **Rejected.**
//!
//! - To read the clock at each dispatch. That takes 18 ns, and a switch takes 12.
//! - To let each round of the monitor count for the threads that it finds running. Threads that wait often
//!   run between the rounds; shares differed by 14 % after two seconds.
//! - To start new threads at zero. Each was owed more than it ever ran, so a long computation beside short
//!   threads stood still.
//! - To give preempted threads a turn on each LWP after a millisecond of the others. If an arrival ended each
//!   of these turns within that millisecond, no thread longer than a slice ever ended.
//! - To keep all threads in one queue, ordered by the time that they have run. Each dispatch of any LWP would
//!   take that queue's lock.
//!
//! **When it counts.** While a preempted thread waits, and after a thread has lost its slice, the monitor
//! tells the LWPs to count. At each switch, they then add the time since the last one to the thread that
//! leaves. It is wall-clock time, so it includes what other processes took. (A waiting thread alone does not
//! tell. One that is behind goes on at once, so none waits when the monitor looks. On sixteen idle CPUs, the
//! count ended so. That thread stayed behind, and kept its LWP for ever.)
//!
//! **Virtual time.** [`FairShare::fair`] is the run time, by now, of a thread that has had exactly its share.
//! While `n` threads compete, each nanosecond that an LWP runs moves it by `1/n`. A new thread starts there.
//! The monitor finds the number `n`, so `n` is a round old, and does not include threads that wait for a
//! lock. So if the threads that run lie further from `fair` than [`BAND`], `fair` moves by more or less,
//! until it follows them. No thread lies further from it than [`OWED`]: one that slept is owed no more, and
//! one that was alone owes no more.
//!
//! **Order.** *Fresh* threads have woken up, or yielded, or are new. They wait in next-slots, rings and the
//! injection queue, in order of arrival. Preempted threads wait in a queue of their own; of the oldest there,
//! the one that has run least is next. The dispatcher takes a fresh thread, unless the next preempted thread
//! has run for less by more than [`HEAD_START`] ([`FairShare::goes_behind`]).
//!
//! A thread that another thread of its runtime wakes up waits among the preempted threads if it is ahead of
//! the mean by more than [`AHEAD`]. The mean is that of the run times of the threads that run, at the end of
//! each portion of [`GRAIN`](super::policy::GRAIN). (All LWPs write it. To move it at each dispatch took a
//! fifth of the time of threads that hand off.) The thread is not compared with `fair`, which itself runs
//! ahead if many threads wait for a lock. (With `fair`, 16 threads with a contended lock differed by 17 %
//! after 1.5 s instead of 9 %.)
//!
//! **Why no thread starves.** Let a thread compute without end while others come and go. In any period,
//! `fair` gains what is the thread's share.
//!
//! 1. If the thread has fallen behind `fair` by `CREDIT + HEAD_START`, no fresh thread goes first. Fresh
//!    threads count as no further behind than [`CREDIT`], however long they slept.
//! 2. Preempted threads that arrived later started at `fair`, so they have not run less. A preempted thread
//!    that slept has run less only until it has run for [`OWED`] more.
//! 3. So the thread goes before all threads that could pass it again and again. For a given number of
//!    threads, it is behind by a constant at most. `CREDIT + HEAD_START` is less than `OWED`, so nothing that
//!    it is owed is forgotten.
//!
//! `fair_share/open_tests.rs` plays random open workloads, and compares them with the ideal shares.

use super::policy::{AHEAD, BAND, COUNTED_ON, CREDIT, HEAD_START, INERTIA, OWED, PULL};
use crate::shim::atomic::{AtomicU64, Ordering};

/// How long the threads of a runtime have run, and since when that is counted. All of it is approximate: if a
/// store gets lost, a value moves a little later.
#[derive(Debug)]
pub(crate) struct FairShare {
    /// See the header; in ns. Written by every LWP.
    fair: AtomicU64,
    /// The mean run time of the threads that run, in ns. Written by every LWP.
    mean: AtomicU64,
    /// How many threads run or wait for a slot. Written by the monitor.
    competing: AtomicU64,
    /// No candidate among the preempted threads has run for less, in ns; `u64::MAX`: there is no candidate.
    /// Written with their queue locked.
    least: AtomicU64,
    /// `u64::MAX`: not at all.
    since: AtomicU64,
    /// When it last mattered; `u64::MAX`: never. Written by the monitor, and by LWPs whose thread loses its
    /// slice.
    wanted: AtomicU64,
}

impl FairShare {
    pub(crate) fn new() -> Self {
        Self {
            fair: AtomicU64::new(0),
            mean: AtomicU64::new(0),
            competing: AtomicU64::new(1),
            least: AtomicU64::new(u64::MAX),
            since: AtomicU64::new(u64::MAX),
            wanted: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes that it matters `now`: a thread loses its slice, or has lost it and waits.
    pub(crate) fn want(&self, now: u64) {
        // Relaxed: a figure.
        self.wanted.store(now, Ordering::Relaxed);
    }

    /// Decides for the monitor, in each round, whether run times are counted. `wanted`: a preempted thread
    /// waits `now`.
    pub(crate) fn count(&self, wanted: bool, now: u64) -> bool {
        if wanted {
            self.want(now);
        }
        // Relaxed, all: figures. Only the monitor writes `since`.
        let last = self.wanted.load(Ordering::Relaxed);
        let counts = last != u64::MAX && now.saturating_sub(last) < COUNTED_ON;
        if counts != (self.counted_since() != u64::MAX) {
            self.since.store(if counts { now } else { u64::MAX }, Ordering::Relaxed);
        }
        counts
    }

    /// Notes how many threads run or wait for a slot.
    pub(crate) fn compete(&self, threads: usize) {
        // Relaxed, here and below: figures.
        self.competing.store(threads.max(1) as u64, Ordering::Relaxed);
    }

    /// Returns the run time of a thread that has had exactly its share by now: new threads start there.
    #[inline]
    pub(crate) fn fair(&self) -> u64 {
        self.fair.load(Ordering::Relaxed)
    }

    /// Returns `ran` plus `more`, but no further from `fair` than a run time may be.
    pub(crate) fn add(&self, ran: u64, more: u64) -> u64 {
        let fair = self.fair();
        (ran + more).clamp(fair.saturating_sub(OWED), fair + OWED)
    }

    /// Moves `fair`: an LWP ran threads for `time`, and the last of them has run for `ran` by now. Moves the
    /// mean a little towards that.
    pub(crate) fn advance(&self, time: u64, ran: u64) {
        let mean = self.mean.load(Ordering::Relaxed);
        let closer = ran.wrapping_sub(mean).cast_signed() / INERTIA;
        self.mean.store(mean.saturating_add_signed(closer), Ordering::Relaxed);
        let (time, fair) = (time.min(1_000_000_000), self.fair());
        let apart = ran.wrapping_sub(fair).cast_signed();
        let beyond = (apart.abs() - BAND).clamp(0, PULL) * apart.signum();
        let factor = (PULL + beyond).cast_unsigned();
        let gained = time * factor / PULL.cast_unsigned() / self.competing.load(Ordering::Relaxed);
        self.fair.store(fair + gained, Ordering::Relaxed);
    }

    /// Returns `true` if a thread that has run for `ran` is to wait among the preempted threads when it wakes
    /// up.
    pub(crate) fn is_ahead(&self, ran: u64) -> bool {
        ran > self.mean.load(Ordering::Relaxed) + AHEAD
    }

    /// Returns a run time: a preempted thread that has run for less goes before a fresh thread that has run
    /// for `ran`.
    pub(crate) fn goes_behind(&self, ran: u64) -> u64 {
        ran.max(self.fair().saturating_sub(CREDIT)).saturating_sub(HEAD_START)
    }

    /// Notes the run time of a thread that is about to join the preempted threads. Called with their queue
    /// locked.
    pub(super) fn note(&self, ran: u64) {
        self.set_least(self.least().min(ran));
    }

    /// Returns when the counting began; `u64::MAX`: it has not.
    pub(super) fn counted_since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Returns the least run time of the candidates among the preempted threads; `u64::MAX`: there is none.
    pub(super) fn least(&self) -> u64 {
        self.least.load(Ordering::Relaxed)
    }

    /// Sets what [`least`](Self::least) returns. Called with the queue of the preempted threads locked.
    pub(super) fn set_least(&self, least: u64) {
        self.least.store(least, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn fair_follows_what_all_have_run() {
        let shares = FairShare::new();
        shares.compete(16);
        let mut ran = [0; 16];
        for turn in 0..16_000 {
            let ran = &mut ran[turn % 16];
            *ran = shares.add(*ran, MS);
            shares.advance(MS, *ran);
        }
        let fair = shares.fair();
        assert_eq!(ran, [1000 * MS; 16]);
        assert!((998 * MS..=1000 * MS).contains(&fair), "{fair}");
    }

    /// Threads that sleep at a lock do not count as competing.
    #[test]
    fn fair_follows_threads_that_are_more_than_it_knows() {
        let shares = FairShare::new();
        shares.compete(4);
        let mut ran = [0; 16];
        for turn in 0..16_000 {
            let ran = &mut ran[turn % 16];
            *ran = shares.add(*ran, MS);
            shares.advance(MS, *ran);
        }
        assert_eq!(ran, [1000 * MS; 16], "no run time was limited");
    }

    #[test]
    fn no_thread_is_far_from_its_share() {
        let shares = FairShare::new();
        assert_eq!(shares.add(0, 1000 * MS), OWED);
        shares.fair.store(1000 * MS, Ordering::Relaxed);
        assert_eq!(shares.add(3 * MS, MS), 1000 * MS - OWED, "it has waited for something else");
        shares.mean.store(1000 * MS, Ordering::Relaxed);
        assert!(shares.is_ahead(1000 * MS + AHEAD + 1));
        assert!(!shares.is_ahead(1000 * MS + AHEAD));
    }

    #[test]
    fn the_mean_follows_the_threads_that_run() {
        let shares = FairShare::new();
        let mean = || shares.mean.load(Ordering::Relaxed);
        let step = INERTIA.cast_unsigned();
        shares.add(10 * step, 6 * step);
        assert_eq!(mean(), 0, "a portion is not full");
        shares.advance(0, 16 * step);
        assert_eq!(mean(), 16, "a thread is ahead");
        shares.advance(0, 16);
        assert_eq!(mean(), 16, "a thread is there");
        shares.mean.store(2 * step, Ordering::Relaxed);
        shares.advance(0, 0);
        assert_eq!(mean(), 2 * step - 2, "a thread is behind");
    }

    #[test]
    fn a_fresh_thread_goes_first_unless_another_is_far_behind() {
        let shares = FairShare::new();
        let fair = 1000 * MS;
        shares.fair.store(fair, Ordering::Relaxed);
        assert_eq!(shares.goes_behind(fair), fair - HEAD_START, "a new thread");
        assert_eq!(shares.goes_behind(fair + MS), fair + MS - HEAD_START);
        let slept = shares.goes_behind(fair - OWED);
        assert_eq!(slept, fair - CREDIT - HEAD_START, "a thread that has slept for long");
        assert!(shares.add(0, 0) < slept, "what it is owed is not forgotten before it is next");
    }

    #[test]
    fn it_counts_from_when_it_was_told() {
        let shares = FairShare::new();
        let now = 7 * COUNTED_ON;
        assert!(!shares.count(false, now - 1));
        assert!(shares.count(true, now) && shares.count(true, now + 1));
        assert_eq!(shares.since.load(Ordering::Relaxed), now);
        assert!(shares.count(false, now + COUNTED_ON), "a preempted thread waited a moment ago");
        assert!(!shares.count(false, now + 1 + COUNTED_ON));
        assert_eq!(shares.since.load(Ordering::Relaxed), u64::MAX);
    }
}

#[cfg(test)]
mod open_tests;
