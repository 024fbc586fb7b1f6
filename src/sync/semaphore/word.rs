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
            // Acquire: pairs with the release of `give` and `try_give`. Relaxed on failure: tried again.
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

    /// With the bucket lock held, for the next waiter, so that `WAITERS` is set: subtracts `n`, if there are so many.
    #[must_use]
    pub(super) fn take_for_waiter(&self, n: usize) -> bool {
        let enough = self.permits() >= n;
        if enough {
            // Acquire: as in `try_take`, for the waiter, which gets it with its grant. Nobody else subtracts now, so there are as many
            // still.
            self.0.fetch_sub(n, Ordering::Acquire);
        }
        enough
    }

    /// With the bucket lock held: nobody is in the queue.
    pub(super) fn clear_waiters(&self) {
        // Relaxed: as in `take_or_announce`.
        self.0.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    /// Adds `n`; whether anybody waits, or there are too many now.
    #[inline]
    #[must_use]
    pub(super) fn give(&self, n: usize) -> bool {
        // Release: pairs with the acquire of those who take. What they read may have been added to by others since, and
        // taken from: read-modify-writes keep the chain whole.
        self.0.fetch_add(n, Ordering::Release).wrapping_add(n) > MAX
    }

    /// Adds `n` and says whether anybody waits; `None`: there would be too many.
    #[inline]
    pub(super) fn try_give(&self, n: usize) -> Option<bool> {
        let mut seen = self.look();
        loop {
            if n > MAX || (seen & !WAITERS) + n > MAX {
                return None;
            }
            // Release: as in `give`. Relaxed on failure: tried again.
            match self.0.compare_exchange_weak(seen, seen + n, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(seen & WAITERS != 0),
                Err(now) => seen = now,
            }
        }
    }
}
