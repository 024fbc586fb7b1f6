//! The word of a semaphore.

use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::const_new;

/// | bits | meaning | changed by |
/// |---|---|---|
/// | `WAITERS` | somebody waits, or has until a moment ago | with the bucket lock held |
/// | all others | the permits that nobody has | added by anybody; subtracted by anybody while `WAITERS` is clear, else with the bucket lock held |
///
/// `WAITERS` is the topmost bit, so that one comparison of signed numbers finds out whether nobody waits and there is enough; and
/// the permits end two bits below, so that what is put back though it is too much is still counted, and found.
pub(super) struct Word(AtomicUsize);

const WAITERS: usize = 1 << (usize::BITS - 1);

/// The most permits.
pub(super) const MAX: usize = usize::MAX >> 3;

impl Word {
    const_new! {
        pub(super) const fn new(permits: usize) -> Self {
            Self(AtomicUsize::new(permits))
        }
    }

    #[inline]
    fn look(&self) -> usize {
        // Relaxed: every decision is confirmed by a read-modify-write.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn permits(&self) -> usize {
        self.look() & !WAITERS
    }

    /// Subtracts `n`, if nobody waits and there are so many; nothing is always there.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, n: usize) -> bool {
        if n == 0 {
            return true;
        }
        let mut seen = self.look();
        // More than the most is never there, and would look like less than nothing here.
        while n <= MAX && seen as isize >= n as isize {
            // Acquire: pairs with the release of `give`, `try_give` and `end`. Relaxed on failure: tried again.
            match self.0.compare_exchange_weak(seen, seen - n, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// With the bucket lock held: subtracts `n` as `try_take` does (`true`), or sets `WAITERS`. `n` is at most the most.
    #[must_use]
    pub(super) fn take_or_announce(&self, n: usize) -> bool {
        let mut seen = self.look();
        while seen & WAITERS == 0 {
            let enough = seen >= n;
            let next = if enough { seen - n } else { seen | WAITERS };
            // Acquire: as in `try_take`. The bit needs none: the bucket lock orders it for those who act on it; there is not enough
            // in what it replaces, and what is added after it finds it. Relaxed on failure: tried again.
            match self.0.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return enough,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// With the bucket lock held: what there is to serve waiters with, when `n` more have been added; `None`: that would be too much.
    #[inline]
    pub(super) fn begin(&self, n: usize) -> Option<Serving> {
        let seen = self.look();
        if seen & WAITERS == 0 {
            // Nobody waits any more, nor will before the lock is released; but others may take.
            return self.try_give(n).then_some(Serving { left: 0, less: 0, waiters: 0 });
        }
        let left = sum(seen, n)?;
        Some(Serving { left, less: 0usize.wrapping_sub(n), waiters: WAITERS })
    }

    /// With the bucket lock held: what was served is subtracted, and what is more was added; `WAITERS` goes if nobody waits.
    #[inline]
    pub(super) fn end(&self, serving: Serving, others_wait: bool) {
        let bit = if others_wait { 0 } else { serving.waiters };
        let less = serving.less.wrapping_add(bit);
        if less != 0 {
            // Acquire: as in `try_take`, for the waiters, which get it with their grants. Release: as in `give`. `WAITERS` has been
            // set since `begin`, so nobody else has subtracted: what was there is there still.
            self.0.fetch_sub(less, Ordering::AcqRel);
        }
    }

    /// Adds `n`; whether anybody waits, or there are too many now.
    #[inline]
    #[must_use]
    pub(super) fn give(&self, n: usize) -> bool {
        // Release: pairs with the acquire of those who take, or serve. What they read may have been added to by others since, and
        // taken from: read-modify-writes keep the chain whole.
        self.0.fetch_add(n, Ordering::Release).wrapping_add(n) > MAX
    }

    /// Adds `n` if nobody waits, and it is not too much then.
    #[inline]
    #[must_use]
    pub(super) fn try_give(&self, n: usize) -> bool {
        let mut seen = self.look();
        while seen & WAITERS == 0
            && let Some(more) = sum(seen, n)
        {
            // Release: as in `give`. Relaxed on failure: tried again.
            match self.0.compare_exchange_weak(seen, more, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// What is being given to waiters, by who holds the bucket lock.
pub(super) struct Serving {
    left: usize,
    /// What is to be subtracted in the end, wrapping.
    less: usize,
    /// The bit, if it is set.
    waiters: usize,
}

impl Serving {
    /// Gives a waiter what it demands, if that is there.
    #[inline]
    #[must_use]
    pub(super) fn give(&mut self, demand: usize) -> bool {
        let enough = self.left >= demand;
        if enough {
            self.left -= demand;
            self.less = self.less.wrapping_add(demand);
        }
        enough
    }
}

/// The permits in `seen` and `n` more; `None`: they are too many.
#[inline]
fn sum(seen: usize, n: usize) -> Option<usize> {
    let permits = seen & !WAITERS;
    // What is too much already must be allowed to stay: nothing is added to it.
    (n == 0 || n <= MAX && permits + n <= MAX).then(|| permits + n)
}
