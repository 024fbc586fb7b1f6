//! How long threads waited until they ran: a histogram for users.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::recorder::waits::{BUCKETS, Waits};

/// How long threads waited from the moment when they could run until they ran.
///
/// Its buckets are powers of two of nanoseconds. Bucket `n` has the waits of up to 2^n ns that are in no
/// bucket before. The last also has all that are longer.
///
/// # Examples
///
/// ```
/// use selvedge::trace::{Level, set_level};
/// use selvedge::{Mxn, Runtime, thread};
/// use std::time::Duration;
///
/// set_level(Level::Times);
/// let rt = Mxn::builder().concurrency(1).build()?;
/// rt.run(|| (0..9).for_each(|_| thread::spawn(thread::yield_now).join().unwrap()));
/// let latency = rt.stats().run_queue_latency.unwrap_or_default();
/// set_level(Level::Off);
/// println!("{latency}");
/// assert!(latency.count() >= 9);
/// assert!(latency.quantile(0.5).unwrap() <= latency.quantile(0.99).unwrap());
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    pub(crate) counts: [u64; BUCKETS],
    pub(crate) sum: Duration,
}

impl LatencyHistogram {
    /// Adds what was counted in one place: by bucket, and the sum of the waits in ns.
    pub(crate) fn add(&mut self, counts: &[u64; BUCKETS], nanos: u64) {
        self.counts.iter_mut().zip(counts).for_each(|(all, more)| *all = all.saturating_add(*more));
        self.sum = self.sum.saturating_add(Duration::from_nanos(nanos));
    }

    /// Adds a wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut mine = LatencyHistogram::default();
    /// mine.record(Duration::from_nanos(1000));
    /// assert_eq!((mine.counts()[10], mine.quantile(1.0)), (1, Some(Duration::from_nanos(1024))));
    /// ```
    pub fn record(&mut self, wait: Duration) {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let count = &mut self.counts[<Waits>::bucket(nanos)];
        *count = count.saturating_add(1);
        self.sum = self.sum.saturating_add(wait);
    }

    /// Returns how many waits are in each bucket.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the longest wait that belongs into this bucket. The last bucket has longer ones, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// assert_eq!(LatencyHistogram::bound(10), Duration::from_nanos(1024));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such bucket.
    #[must_use]
    pub fn bound(bucket: usize) -> Duration {
        assert!(bucket < BUCKETS, "there is no bucket {bucket}: a latency histogram has {BUCKETS}");
        Duration::from_nanos(1 << bucket)
    }

    crate::shown::getters! {
        /// Returns how many waits there were.
        fn count(&self) -> u64 = self.counts.iter().fold(0, |all, &more| all.saturating_add(more));
        /// Returns the sum of all waits.
        fn sum(&self) -> Duration = self.sum;
    }

    /// Returns a time within which this share of the waits ended. It is the bound of a bucket, so it is less
    /// than twice the least such time, except in the last bucket. `None` if there were no waits.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(selvedge::LatencyHistogram::default().quantile(0.5), None);
    /// ```
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let bucket = self.counts.iter().position(|&count| {
            seen = seen.saturating_add(count);
            seen >= wanted
        });
        bucket.map(Self::bound)
    }

    /// Returns what was counted since an earlier look at the same histogram. If another session of counting
    /// has begun since, that is all of it.
    ///
    /// # Examples
    ///
    /// ```
    /// let now = selvedge::LatencyHistogram::default();
    /// assert_eq!(now.since(&now.clone()).count(), 0);
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut more = self.clone();
        for (now, then) in more.counts.iter_mut().zip(&earlier.counts) {
            match now.checked_sub(*then) {
                Some(since) => *now = since,
                None => return self.clone(),
            }
        }
        more.sum = self.sum.saturating_sub(earlier.sum);
        more
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: Duration::ZERO }
    }
}

impl AddAssign<&Self> for LatencyHistogram {
    fn add_assign(&mut self, other: &Self) {
        self.add(&other.counts, 0);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Shows the buckets that are not empty.
impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let mut map = f.debug_map();
        map.entries(buckets.map(|(bucket, count)| (Self::bound(bucket), count)));
        map.entry(&"sum", &self.sum).finish()
    }
}

/// Shows how many waits there were, and within which times half of them, 99 of 100, and all of them ended.
impl fmt::Display for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = [0.5, 0.99, 1.0].map(|share| self.quantile(share));
        let [Some(half), Some(most), Some(all)] = within else { return f.write_str("no waits") };
        let waits = match self.count() {
            1 => "1 wait".to_owned(),
            many => format!("{many} waits"),
        };
        write!(f, "{waits}: 50 % within {}, ", Short(half))?;
        write!(f, "99 % within {}, all within {}", Short(most), Short(all))
    }
}

/// A time in few letters.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let of = |unit: u128| nanos as f64 / unit as f64;
        match nanos {
            0..1_000 => write!(f, "{nanos} ns"),
            1_000..1_000_000 => write!(f, "{:.1} us", of(1_000)),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", of(1_000_000)),
            _ => write!(f, "{:.1} s", of(1_000_000_000)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A histogram with so many waits in each of these buckets.
    fn of(buckets: &[(usize, u64)]) -> LatencyHistogram {
        let mut it = LatencyHistogram::default();
        for &(bucket, count) in buckets {
            let mut counts = [0; BUCKETS];
            counts[bucket] = count;
            it.add(&counts, count << bucket);
        }
        it
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let it = of(&[(0, 50), (10, 49), (20, 1)]);
        let nanos = [0.0, 0.5, 0.501, 0.99, 0.991, 1.0].map(|share| it.quantile(share).unwrap().as_nanos());
        assert_eq!(nanos, [1, 1, 1 << 10, 1 << 10, 1 << 20, 1 << 20]);
        let odd = [-1.0, 7.0, f64::NAN].map(|share| it.quantile(share).unwrap().as_nanos());
        assert_eq!(odd, [1, 1 << 20, 1]);
        assert_eq!(of(&[(BUCKETS - 1, 3)]).quantile(0.1), Some(LatencyHistogram::bound(39)));
        assert_eq!((it.count(), it.sum()), (100, Duration::from_nanos(50 + (49 << 10) + (1 << 20))));
        assert_eq!(LatencyHistogram::default().quantile(1.0), None);
    }

    #[test]
    fn histograms_merge_by_addition_and_differ_by_what_came_later() {
        let (first, more) = (of(&[(3, 5), (7, 1)]), of(&[(7, 2), (39, 1)]));
        let mut both = first.clone();
        both += &more;
        assert_eq!(both, of(&[(3, 5), (7, 3), (39, 1)]));
        assert_eq!(both.counts()[7], 3);
        assert_eq!((both.since(&first), both.since(&both)), (more, LatencyHistogram::default()));
        assert_eq!(first.since(&both), first, "another session has begun");
    }

    #[test]
    fn a_recorded_wait_is_in_its_bucket_and_in_the_sum() {
        let mut it = LatencyHistogram::default();
        [1, 8, 8, 1 << 20].into_iter().for_each(|nanos| it.record(Duration::from_nanos(nanos)));
        assert_eq!(it, of(&[(0, 1), (3, 2), (20, 1)]));
    }

    /// They may come from another process.
    #[test]
    fn figures_that_make_no_sense_do_no_harm() {
        let wild = LatencyHistogram { counts: [u64::MAX; BUCKETS], sum: Duration::MAX };
        let mut both = wild.clone();
        both += &wild;
        assert_eq!((both.count(), both.sum(), &both), (u64::MAX, Duration::MAX, &wild));
        assert!(both.quantile(0.5).is_some() && both.to_string().starts_with("18446744073709551615 waits"));
    }

    #[test]
    fn people_can_read_it() {
        assert_eq!(LatencyHistogram::default().to_string(), "no waits");
        assert_eq!(
            of(&[(9, 60), (15, 39), (30, 1)]).to_string(),
            "100 waits: 50 % within 512 ns, 99 % within 32.8 us, all within 1.1 s"
        );
        let one = of(&[(20, 1)]).to_string();
        assert_eq!(one, "1 wait: 50 % within 1.0 ms, 99 % within 1.0 ms, all within 1.0 ms");
        assert_eq!(format!("{:?}", of(&[(1, 2), (10, 1)])), "{2ns: 2, 1.024µs: 1, \"sum\": 1.028µs}");
    }
}
