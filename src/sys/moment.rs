//! Moments of the monotonic clock, as numbers.
//!
//! **Problem.** A timed wait reads the clock, adds its limit, and compares the sum with those of others.
//! std's `Instant` hides its value, so each of these steps is a call, and so is what a kernel needs of it.
//!
//! **Solution.** Inside of the crate, a moment is a number of nanoseconds. One pair (instant, number) is
//! taken once in the process. An instant of the program becomes the pair's number plus the distance from the
//! pair's instant. The two reads of the pair are some 20 ns apart. The number is taken last, so that an error
//! makes a deadline late, not early. If the thread lost its CPU between them, all deadlines of the process
//! would be as late. So the pair is the closest of a few.

use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

use super::clock::monotonic;
use super::once::OnceLock;

/// A moment, in ns. The last one stands for all that is later: it is five hundred years ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

/// Returns a time in ns; `None` if they are too many.
#[inline]
fn nanos(time: Duration) -> Option<u64> {
    time.as_secs().checked_mul(1_000_000_000)?.checked_add(time.subsec_nanos().into())
}

impl Moment {
    /// Reads the clock.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(monotonic())
    }

    /// Returns a moment that is not over yet, and at most 20 ms ahead. Takes a part of the time of
    /// [`now`](Self::now), where the kernel notes the time of its ticks (`sys/clock.rs`).
    #[cfg(all(unix, feature = "net"))]
    #[inline]
    pub(crate) fn soon() -> Self {
        Self(super::clock::monotonic_ahead())
    }

    /// Returns the moment that an instant is, or the first or the last one.
    pub(crate) fn of(instant: Instant) -> Self {
        let &(first, at) = anchor();
        match instant.checked_duration_since(first) {
            Some(later) => at + later,
            None => Self(nanos(first - instant).map_or(0, |earlier| at.0.saturating_sub(earlier))),
        }
    }

    /// Returns the moment as an instant; `None` if it is beyond what that can say.
    pub(crate) fn instant(self) -> Option<Instant> {
        let &(first, at) = anchor();
        if self >= at { first.checked_add(self - at) } else { first.checked_sub(at - self) }
    }

    /// Returns the moment of which the clock says `nanos`.
    #[inline]
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns what the clock says then, in ns.
    #[inline]
    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the moment so much later; `None` if the clock cannot count so far.
    #[inline]
    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        self.checked_add_nanos(nanos(time)?)
    }

    /// Returns the moment so many nanoseconds later; `None` if the clock cannot count so far.
    #[inline]
    pub(crate) fn checked_add_nanos(self, nanos: u64) -> Option<Self> {
        nanos.checked_add(self.0).map(Self)
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// Returns the time since `earlier`; zero if that is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Returns the moment so much later, or the last one.
    #[inline]
    fn add(self, time: Duration) -> Self {
        self.checked_add(time).unwrap_or(Self(u64::MAX))
    }
}

/// Returns the same moment in both notations, taken once.
fn anchor() -> &'static (Instant, Moment) {
    static ANCHOR: OnceLock<(Instant, Moment)> = OnceLock::new();
    ANCHOR.get_or_init(|| closest(|| ()))
}

/// Returns the closest of a few pairs. `between` runs between the two reads of each.
fn closest(mut between: impl FnMut()) -> (Instant, Moment) {
    let tries = (0..5).map(|_| {
        let instant = Instant::now();
        between();
        let moment = Moment::now();
        (instant.elapsed(), (instant, moment))
    });
    tries.min_by_key(|&(took, _)| took).expect("there are five tries").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_a_moment_that_is_not_earlier() {
        let some = Duration::from_millis(7);
        for _ in 0..100 {
            let (before, instant) = (Moment::now(), Instant::now());
            let moment = Moment::of(instant);
            assert!(before <= moment && moment.instant() == Some(instant));
            assert_eq!(Moment::of(instant + some) - moment, some);
            assert_eq!(moment - Moment::of(instant - some), some);
            assert_eq!(Moment::of(instant - some).instant(), Some(instant - some));
        }
    }

    #[test]
    fn a_thread_that_is_held_up_between_two_reads_makes_no_deadline_late() {
        let (mut reads, pause) = (0, Duration::from_millis(20));
        let (instant, moment) = closest(|| {
            reads += 1;
            if reads != 3 {
                std::thread::sleep(pause);
            }
        });
        assert!(moment - Moment::of(instant) < pause);
    }

    #[test]
    fn what_cannot_be_counted_is_the_last_moment_or_none() {
        let now = Moment::now();
        assert_eq!(now.checked_add(Duration::MAX), None);
        assert_eq!(now.checked_add(Duration::from_nanos(u64::MAX)), None);
        assert_eq!(now + Duration::MAX, Moment(u64::MAX));
        let far = Instant::now().checked_add(Duration::from_secs(1 << 62));
        assert!(far.is_none_or(|far| Moment::of(far) == Moment(u64::MAX)));
        assert_eq!(now - Moment(u64::MAX), Duration::ZERO);
    }
}
