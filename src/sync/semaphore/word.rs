//! The numbers of a semaphore.

use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_new;

/// What the header of `mod.rs` calls the balance, and what is queued.
pub(super) struct Word {
    /// The permits that nobody has, less all that is claimed; as a signed number.
    ///
    /// | balance | meaning |
    /// |---|---|
    /// | 0 or more | there is enough for all who wait, if any do, and so much is left |
    /// | below 0 | so much is missing |
    balance: AtomicU64,
    /// What those have claimed that are in the queue, or have left it without a grant and not withdrawn yet. Changed with the bucket
    /// lock held.
    queued: AtomicU64,
}

/// The most permits. So few that no number of threads can claim more than a balance can count.
pub(super) const MAX: usize = u32::MAX as usize;

impl Word {
    const_new! {
        pub(super) const fn new(permits: usize) -> Self {
            Self { balance: AtomicU64::new(permits as u64), queued: AtomicU64::new(0) }
        }
    }

    #[inline]
    fn look(&self) -> i64 {
        // Relaxed: every decision is confirmed by a read-modify-write, or made again with the bucket lock held.
        self.balance.load(Ordering::Relaxed) as i64
    }

    #[inline]
    fn queued(&self) -> i64 {
        // Relaxed: the bucket lock orders it. Without that, a guess.
        self.queued.load(Ordering::Relaxed) as i64
    }

    /// The permits that nobody has, as far as can be seen.
    pub(super) fn permits(&self) -> usize {
        let balance = self.look();
        let free = if balance < 0 { balance + self.queued() } else { balance };
        free.max(0) as usize
    }

    /// Takes `n`, if there is enough for all; claims it otherwise (`false`).
    #[inline]
    #[must_use]
    pub(super) fn take_or_claim(&self, n: usize) -> bool {
        // Acquire: pairs with the release of `give` and `try_give`. What it reads may have been added to by others since, and
        // taken from: read-modify-writes keep the chain whole.
        self.balance.fetch_sub(n as u64, Ordering::Acquire) as i64 >= n as i64
    }

    /// Takes `n`, if there is enough for all.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, n: usize) -> bool {
        let mut seen = self.look();
        while n <= MAX && seen >= n as i64 {
            // Acquire: as in `take_or_claim`. Relaxed on failure: tried again.
            let less = (seen as u64) - n as u64;
            match self.balance.compare_exchange_weak(seen as u64, less, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now as i64,
            }
        }
        false
    }

    /// With the bucket lock held, and nobody in the queue: takes `n`, if that is there.
    pub(super) fn try_take_unqueued(&self, n: usize) -> bool {
        let queued = self.queued();
        let mut seen = self.look();
        // The bucket lock keeps out those who queue, not those who take.
        while seen + queued >= n as i64 {
            let less = (seen as u64).wrapping_sub(n as u64);
            // As in `try_take`.
            match self.balance.compare_exchange_weak(seen as u64, less, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now as i64,
            }
        }
        false
    }

    /// In the child of a fork, with the bucket lock held, and nobody in the queue: what was claimed there is nobody's. If there is no
    /// other thread, and the balance owes `mine` to the caller, neither is what is missing beyond that.
    pub(super) fn forget_lost(&self, mine: Option<i64>) {
        let queued = self.queued();
        // Relaxed, all: as in `withdraw`.
        self.queued.store(0, Ordering::Relaxed);
        let balance = self.balance.fetch_add(queued as u64, Ordering::Relaxed) as i64 + queued;
        if let Some(mine) = mine.filter(|&mine| balance < mine) {
            self.balance.store(mine as u64, Ordering::Relaxed);
        }
    }

    /// Whether all that has been claimed is there.
    pub(super) fn is_enough(&self) -> bool {
        // Acquire: as in `take_or_claim`.
        self.balance.load(Ordering::Acquire) as i64 >= 0
    }

    /// With the bucket lock held: the claim of `n` is queued, or met at once.
    pub(super) fn queue(&self, n: usize) -> Queued {
        // Acquire: as in `take_or_claim`.
        let balance = self.balance.load(Ordering::Acquire) as i64;
        let queued = self.queued() + n as i64;
        let free = balance + queued;
        if queued == n as i64 && free >= n as i64 {
            return Queued::Met;
        }
        self.queued.store(queued as u64, Ordering::Relaxed);
        if free > 0 { Queued::SomeLeft } else { Queued::NoneLeft }
    }

    /// With the bucket lock held: what there is for those in the queue, after a claim of `n` has been withdrawn.
    #[inline]
    pub(super) fn begin(&self, n: usize) -> Serving {
        if n != 0 {
            // In this order: a child that is forked in between finds something missing, which it mends, and not a permit more.
            self.queued.store((self.queued() - n as i64) as u64, Ordering::Relaxed);
            // Relaxed: a part of the chain, as in `take_or_claim`.
            self.balance.fetch_add(n as u64, Ordering::Relaxed);
        }
        // Acquire: as in `take_or_claim`, for the waiters, which get it with their grants.
        let balance = self.balance.load(Ordering::Acquire) as i64;
        let queued = self.queued();
        Serving { free: balance + queued, queued }
    }

    /// With the bucket lock held: what was served is queued no more.
    #[inline]
    pub(super) fn end(&self, serving: &Serving) {
        self.queued.store(serving.queued as u64, Ordering::Relaxed);
    }

    /// A claim that has not been queued is withdrawn.
    pub(super) fn withdraw(&self, n: usize) {
        // Relaxed: a part of the chain, as in `take_or_claim`.
        self.balance.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Adds `n`; whether something was missing, or it is too much now.
    #[inline]
    #[must_use]
    pub(super) fn give(&self, n: usize) -> bool {
        // Release: pairs with the acquire of those who take, or serve.
        let was = self.balance.fetch_add(n as u64, Ordering::Release);
        // One comparison: below zero is more than the most.
        n > MAX || was > (MAX - n) as u64
    }

    /// `give` as it must not be.
    #[cfg(all(test, loom))]
    pub(super) fn give_unordered(&self, n: usize) -> bool {
        (self.balance.fetch_add(n as u64, Ordering::Relaxed) as i64) < 0
    }

    /// Whether there are more permits than there can be.
    pub(super) fn is_overflown(&self) -> bool {
        self.look() > MAX as i64
    }

    /// Adds `n` and says whether something was missing; `None`: there would be too many.
    #[inline]
    pub(super) fn try_give(&self, n: usize) -> Option<bool> {
        let mut seen = self.look();
        loop {
            if n > MAX || seen + n as i64 > MAX as i64 {
                return None;
            }
            let more = (seen + n as i64) as u64;
            // Release: as in `give`. Relaxed on failure: tried again.
            match self.balance.compare_exchange_weak(seen as u64, more, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Some(seen < 0),
                Err(now) => seen = now as i64,
            }
        }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// Nobody was queued, and there was enough after all.
    Met,
    /// It is queued, and nothing is there.
    NoneLeft,
    /// It is queued, and something is there: perhaps enough for whoever is next now.
    SomeLeft,
}

/// What is being given to waiters, by who holds the bucket lock.
pub(super) struct Serving {
    free: i64,
    queued: i64,
}

impl Serving {
    /// Gives a waiter what it demands, if that is there.
    #[inline]
    #[must_use]
    pub(super) fn give(&mut self, demand: usize) -> bool {
        let enough = self.free >= demand as i64;
        if enough {
            self.free -= demand as i64;
            self.queued -= demand as i64;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child finds that is forked while one claim is queued, one is on its way to the queue, and two permits are had.
    #[test]
    fn what_lost_threads_have_claimed_is_forgotten_and_what_they_have_is_not() {
        let forked = || {
            let word = Word::new(2);
            assert!(word.take_or_claim(2) && !word.take_or_claim(3) && !word.take_or_claim(1));
            assert_eq!(word.queue(3), Queued::NoneLeft);
            word
        };
        // A look; who asks for one permit; who puts two back, of those that were had.
        for (mine, permits) in [(0, 0), (-1, -1), (2, 2)] {
            let word = forked();
            word.balance.fetch_add(mine as u64, Ordering::Relaxed);
            word.forget_lost(Some(mine));
            assert_eq!((word.look(), word.queued()), (permits, 0));
            word.forget_lost(Some(mine));
            assert_eq!(word.look(), permits, "once more");
        }
        // Beside other threads: what is missing may be theirs.
        let word = forked();
        word.forget_lost(None);
        assert_eq!((word.look(), word.queued()), (-1, 0));
    }
}
