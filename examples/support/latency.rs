//! Many latencies in little memory, each to within 2 %.

use std::fmt;
use std::time::Duration;

/// Of each power of two, so many parts are told apart.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 6;

/// How many latencies were how long.
#[derive(Clone, Default)]
pub(crate) struct Latencies {
    /// By [`part`]; as long as the longest latency needs.
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Latencies {
    /// Counts one.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let part = part(nanos);
        if part >= self.counts.len() {
            self.counts.resize(part + 1, 0);
        }
        self.counts[part] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanos);
    }

    /// Counts those of another, too.
    pub(crate) fn add(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// What `percent` of them did not exceed; zero if there are none.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let wanted = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = |&count: &u64| {
            seen += count;
            seen >= wanted
        };
        let nanos = self.counts.iter().position(reached).map_or(0, most_of);
        Duration::from_nanos(nanos.min(self.longest))
    }
}

/// Not every part: there are thousands.
impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies")
            .field("count", &self.count())
            .field("median", &self.percentile(50.0))
            .field("longest", &self.longest())
            .finish_non_exhaustive()
    }
}

/// Which part of which power of two a number lies in. Small numbers are parts of their own.
fn part(nanos: u64) -> usize {
    let power = (nanos | 1).ilog2().saturating_sub(PART_BITS);
    power as usize * PARTS + (nanos >> power) as usize
}

/// The largest number of a part.
fn most_of(part: usize) -> u64 {
    let power = (part / PARTS).saturating_sub(1);
    let upper = (part - power * PARTS + 1) as u128;
    u64::try_from((upper << power) - 1).unwrap_or(u64::MAX)
}
