//! How long threads waited from the moment when they could run until they ran: a histogram.
//!
//! **Problem.** Each dispatch adds to it while times are counted, and may take some ns for that. Looks from
//! outside come at any time. A histogram belongs to one session, as accounts do.
//!
//! **Solution.** Each LWP has a histogram of its own, and is its only writer. So a count is a load and a
//! store. It needs no order: within a session, words only grow, and a look reads each of them once.
//!
//! **Session.** The writer that finds another session begins anew. Until all words are zero, the histogram
//! belongs to no session. A look checks the session before it reads and after.
//!
//! The threads of `onetoone` share one histogram ([`Waits::add_shared`]). Each of them has been through the
//! kernel, so a read-modify-write does not matter. What switches the trace on begins that histogram.

use super::session::Session;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The number of buckets. Bucket `n` has the waits of up to 2^n ns that are in no bucket before. The last
/// also has all that are longer.
pub(crate) const BUCKETS: usize = 40;

/// A histogram of waits, for one session at a time.
#[derive(Debug)]
pub(crate) struct Waits<const N: usize = BUCKETS> {
    /// The number of the session; 0: none.
    session: AtomicU32,
    /// In ns.
    sum: AtomicU64,
    counts: [AtomicU64; N],
}

impl<const N: usize> Waits<N> {
    pub(crate) fn new() -> Self {
        Self {
            session: AtomicU32::new(0),
            sum: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts a wait of so many ns. Called by the only writer.
    #[inline]
    pub(crate) fn add(&self, session: Session, nanos: u64) {
        self.begin_once(session);
        let grow = |word: &AtomicU64, by: u64| {
            // Relaxed: one thread writes. Looks find a figure of some moment.
            word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        grow(&self.counts[Self::bucket(nanos)], 1);
        grow(&self.sum, nanos);
    }

    /// Counts a wait of so many ns, if the histogram has [begun](Self::begin_once) with this session. Any
    /// thread may call it.
    pub(crate) fn add_shared(&self, session: Session, nanos: u64) {
        // Relaxed, all: figures. A thread that is late may add a wait to the next session.
        if self.session.load(Ordering::Relaxed) == session.number {
            self.counts[Self::bucket(nanos)].fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Begins anew if it is of another session. Called by the only writer, or by what switches the trace on.
    #[inline]
    pub(crate) fn begin_once(&self, session: Session) {
        // Relaxed: the caller's own, and the session does not change twice at a time.
        if self.session.load(Ordering::Relaxed) != session.number {
            self.begin(session);
        }
    }

    #[cold]
    fn begin(&self, session: Session) {
        self.forget();
        // Release: a look that finds the session finds all words zero, or later.
        self.session.store(session.number, Ordering::Release);
    }

    /// Makes all counts zero, of no session. Called by the only writer, or while there is none.
    pub(crate) fn forget(&self) {
        // Relaxed: the fence orders it.
        self.session.store(0, Ordering::Relaxed);
        // Release: a look that finds a zero from below finds that it is of no session, or later.
        fence(Ordering::Release);
        // Relaxed: until the next session, looks ignore them.
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.sum.store(0, Ordering::Relaxed);
    }

    /// Returns the counts by bucket, and the sum of the waits in ns, if they are of this session. Any thread
    /// may call it.
    pub(crate) fn look(&self, session: Session) -> Option<([u64; N], u64)> {
        // Acquire: pairs with `begin`.
        if self.session.load(Ordering::Acquire) != session.number {
            return None;
        }
        let seen = self.read();
        // Acquire: pairs with the fence of `forget`.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it.
        (self.session.load(Ordering::Relaxed) == session.number).then_some(seen)
    }

    fn read(&self) -> ([u64; N], u64) {
        // Relaxed: `look` checks the session.
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        (counts, self.sum.load(Ordering::Relaxed))
    }

    /// Returns the bucket of a wait.
    #[inline]
    pub(crate) fn bucket(nanos: u64) -> usize {
        let bits = u64::BITS - nanos.saturating_sub(1).leading_zeros();
        (bits as usize).min(N - 1)
    }
}

#[cfg(all(test, loom))]
mod loom_waits;

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = Session { number: 1, began: 0 };

    #[test]
    fn a_bucket_ends_at_a_power_of_two() {
        let bucket = Waits::<BUCKETS>::bucket;
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(bucket), [0, 0, 1, 2, 2, 3, 3, 4]);
        for power in 2..BUCKETS - 1 {
            let bound = 1_u64 << power;
            assert_eq!([bound - 1, bound, bound + 1].map(bucket), [power, power, power + 1]);
        }
        assert_eq!([1 << 39, u64::MAX].map(bucket), [BUCKETS - 1; 2]);
    }

    #[test]
    fn a_histogram_belongs_to_one_session() {
        let next = Session { number: 2, began: 100 };
        let waits = Waits::<4>::new();
        assert_eq!(waits.look(SESSION), None);
        [1, 3, 4, 1_000].into_iter().for_each(|nanos| waits.add(SESSION, nanos));
        assert_eq!(waits.look(SESSION), Some(([1, 0, 2, 1], 1_008)));
        assert_eq!(waits.look(next), None);
        waits.add_shared(next, 1);
        assert_eq!(waits.look(SESSION), Some(([1, 0, 2, 1], 1_008)), "it has not begun with the next one");
        waits.add(next, 2);
        waits.add_shared(next, 8);
        assert_eq!((waits.look(SESSION), waits.look(next)), (None, Some(([0, 1, 0, 1], 10))));
        waits.forget();
        assert_eq!((waits.look(next), waits.read()), (None, ([0; 4], 0)));
    }
}
