//! The clock of events: the processor's counter where that is a clock, otherwise the monotonic clock.
//!
//! **Problem.** An event may cost 20 ns, and to read the monotonic clock costs 18.
//!
//! **Solution.** Events carry *counts*: of the processor's counter, which takes 8 ns to read. A reader
//! converts them. It knows the counter's rate from two readings of both clocks. One is from the moment when
//! the clock was chosen, and one is its own.
//!
//! **Sleep of the machine.** The monotonic clock stands still then, and many counters go on. The two readings
//! would make the counter too fast, for all times. So if they are far from the rate at the start, a reader
//! takes that rate, and counts back from its own reading.

use crate::arch;
use crate::shim::{OnceLock, spin_hint};
use crate::sys::clock::{counter_is_a_clock, monotonic};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    count: u64,
    nanos: u64,
}

/// What [`start`] has found.
#[derive(Clone, Copy, Debug)]
struct Clock {
    by_counter: bool,
    first: Anchor,
    /// What a count is, in ns times 2^32.
    rate: u64,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// For how long [`start`] measures the rate, in ns: an error of 50 ns at both ends is then one in a thousand.
const MEASURED: u64 = 100_000;

/// The least time between two anchors, in ns: an error of 50 ns in each is then one in a hundred thousand.
const APART: u64 = 10_000_000;

/// The part of a time by which two readings may differ from the rate at the start. That is exact to one in a
/// thousand, and no clock is adjusted by as much as this.
const DIFFERS: u64 = 16;

/// Chooses the clock. Must come before the first [`now`] of the process. The first call waits for 0.1 ms.
pub(crate) fn start() {
    CLOCK.get_or_init(|| {
        let by_counter = arch::HAS_COUNTER && counter_is_a_clock();
        let first = Anchor::take(by_counter);
        Clock { by_counter, first, rate: if by_counter { first.rate() } else { 1 << 32 } }
    });
}

/// Returns the current count, or 0 before [`start`]. Neither allocates nor takes a lock.
#[inline]
pub(crate) fn now() -> u64 {
    match CLOCK.get() {
        Some(clock) if clock.by_counter => arch::counter(),
        Some(_) => monotonic(),
        None => 0,
    }
}

/// Returns a difference of two counts in ns, exact to one in a thousand. Neither allocates nor takes a lock.
#[inline]
pub(crate) fn nanos(counts: u64) -> u64 {
    by_rate(counts, CLOCK.get().map_or(0, |clock| clock.rate))
}

/// Returns a difference of two counts in ns, at this rate.
fn by_rate(counts: u64, rate: u64) -> u64 {
    ((u128::from(counts) * u128::from(rate)) >> 32) as u64
}

impl Anchor {
    /// Reads both clocks. Of several tries, the one with the least time in between is the most exact.
    fn take(by_counter: bool) -> Self {
        if !by_counter {
            let nanos = monotonic();
            return Self { count: nanos, nanos };
        }
        let tries = (0..8).map(|_| {
            let (before, nanos, after) = (arch::counter(), monotonic(), arch::counter());
            let between = after.saturating_sub(before);
            (between, Self { count: before + between / 2, nanos })
        });
        tries.min_by_key(|&(between, _)| between).expect("there are eight tries").1
    }

    /// Waits, and returns what a count of the processor's counter is since this anchor, in ns times 2^32.
    fn rate(self) -> u64 {
        loop {
            let now = Self::take(true);
            let nanos = now.nanos.saturating_sub(self.nanos);
            if nanos >= MEASURED {
                let counts = now.count.saturating_sub(self.count).max(1);
                return u64::try_from((u128::from(nanos) << 32) / u128::from(counts)).unwrap_or(u64::MAX);
            }
            spin_hint();
        }
    }
}

/// Converts counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    first: Anchor,
    nanos: u64,
    counts: u64,
}

impl Scale {
    /// Returns the scale of this moment. Waits for up to 10 ms if the clock was chosen a moment ago.
    pub(crate) fn take() -> Self {
        start();
        let clock = CLOCK.get().expect("started");
        loop {
            let second = Anchor::take(clock.by_counter);
            if second.nanos - clock.first.nanos >= APART {
                return Self::between(clock.first, second, clock.rate);
            }
            spin_hint();
        }
    }

    /// Returns the scale of two readings. `rate`: that of the start.
    fn between(first: Anchor, second: Anchor, rate: u64) -> Self {
        let counts = second.count.saturating_sub(first.count).max(1);
        let nanos = second.nanos.saturating_sub(first.nanos);
        let counted = by_rate(counts, rate);
        if counted.abs_diff(nanos) <= counted / DIFFERS {
            return Self { first, nanos, counts };
        }
        // The machine has slept since. A counter may also have begun anew.
        let before = (u128::from(APART) << 32) / u128::from(rate.max(1));
        let counts = u128::from(second.count).min(before).max(1) as u64;
        let nanos = by_rate(counts, rate);
        let (count, at) = (second.count.saturating_sub(counts), second.nanos.saturating_sub(nanos));
        Self { first: Anchor { count, nanos: at }, nanos, counts }
    }

    /// Returns the count at which the scale was taken.
    pub(crate) fn end(self) -> u64 {
        self.first.count.saturating_add(self.counts)
    }

    /// Returns the scale as numbers, for files.
    pub(crate) fn to_words(self) -> [u64; 4] {
        [self.first.count, self.first.nanos, self.counts, self.nanos]
    }

    /// Returns the scale of these numbers, or `None` if they are none.
    pub(crate) fn from_words([count, nanos, counts, length]: [u64; 4]) -> Option<Self> {
        (counts > 0).then_some(Self { first: Anchor { count, nanos }, nanos: length, counts })
    }

    /// Returns the scale of this moment, without a wait. It is inexact if the clock was chosen a moment ago.
    /// `None` before [`start`]. Neither allocates nor takes a lock.
    pub(crate) fn at_once() -> Option<Self> {
        let clock = CLOCK.get()?;
        Some(Self::between(clock.first, Anchor::take(clock.by_counter), clock.rate))
    }

    /// Returns what the monotonic clock showed at this count, in ns.
    pub(crate) fn moment(&self, count: u64) -> u64 {
        match count.checked_sub(self.first.count) {
            Some(later) => self.first.nanos.saturating_add(self.span(later)),
            None => self.first.nanos.saturating_sub(self.span(self.first.count - count)),
        }
    }

    /// Returns a difference of two counts, in ns.
    pub(crate) fn span(&self, counts: u64) -> u64 {
        let nanos = u128::from(counts) * u128::from(self.nanos) / u128::from(self.counts);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn counts_are_times() {
        start();
        // Whatever the machine does between two readings.
        let error = Duration::from_millis(1);
        let (first, count, second) = (Instant::now(), now(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (third, later, fourth) = (Instant::now(), now(), Instant::now());
        let scale = Scale::take();
        let span = Duration::from_nanos(scale.span(later - count));
        let (least, most) = (third - second, fourth - first);
        assert!(span + error > least && span < most + error, "{span:?} {least:?} {most:?}");
        let (quick, exact) = (nanos(later - count), scale.span(later - count));
        assert!(quick.abs_diff(exact) <= exact / 200, "{quick} {exact}");
        let (before, moment, after) = (monotonic(), scale.moment(now()), monotonic());
        assert!(moment + 1_000_000 > before && moment < after + 1_000_000, "{before} {moment} {after}");
    }

    #[test]
    fn a_scale_survives_as_numbers() {
        let scale = Scale::from_words([3_000, 1_000, 30_000, 10_000]).unwrap();
        assert_eq!(
            (scale.span(3), scale.span(30_000), scale.to_words()),
            (1, 10_000, [3_000, 1_000, 30_000, 10_000])
        );
        assert_eq!([0, 3_000, 6_000].map(|count| scale.moment(count)), [0, 1_000, 2_000]);
        assert!(Scale::from_words([1, 2, 0, 4]).is_none());
    }

    /// The machine sleeps for eight hours. Its counter goes on meanwhile, or begins anew.
    #[test]
    fn a_machine_that_has_slept_has_no_other_rate() {
        let (seconds, rate) = (1_000_000_000, (1 << 32) / 3);
        let first = Anchor { count: 30 * seconds, nanos: 10 * seconds };
        // Three counts are one ns.
        let awake = Anchor { count: 90 * seconds, nanos: 30 * seconds };
        let scale = Scale::between(first, awake, rate);
        assert_eq!((scale.first, scale.end(), scale.span(3_000)), (first, awake.count, 1_000));
        let slept = 8 * 3_600 * seconds;
        for count in [awake.count + 3 * slept, 9 * seconds] {
            let scale = Scale::between(first, Anchor { count, ..awake }, rate);
            assert_eq!(scale.end(), count);
            assert!(scale.moment(count).abs_diff(awake.nanos) <= 1, "{scale:?}");
            for nanos in [1_000, seconds, 3_600 * seconds] {
                let span = scale.span(3 * nanos);
                assert!(span.abs_diff(nanos) <= 1 + nanos / 1_000_000, "{nanos} {span}");
            }
            let before = scale.moment(count - 3 * seconds);
            assert!((awake.nanos - before).abs_diff(seconds) <= 1_000, "{before}");
        }
    }

    /// They may come from a file.
    #[test]
    fn numbers_that_make_no_sense_do_no_harm() {
        let scale = Scale::from_words([u64::MAX; 4]).unwrap();
        assert_eq!((scale.end(), scale.span(u64::MAX), scale.moment(0)), (u64::MAX, u64::MAX, 0));
    }
}
