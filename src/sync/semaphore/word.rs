//! The numbers of a semaphore.

use super::MAX;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_new;
use crate::shim::fork::Generation;

/// What the header of `mod.rs` calls the balance, and what is queued.
pub(super) struct Word {
    /// The permits that nobody has, less all that is claimed; as a signed number.
    ///
    /// | balance | meaning |
    /// |---|---|
    /// | 0 or more | there is enough for all who wait, if any do, and so much is left |
    /// | below 0 | so much is missing |
    balance: AtomicU64,
    /// What those have claimed that are in the queue, or have left it without a grant and not withdrawn yet; and in the highest byte,
    /// of which process (the number of forks) they are. Changed with the bucket lock held.
    queued: AtomicU64,
}

/// Where the number of the process begins.
const PROCESS: u32 = 56;
const CLAIMS: u64 = (1 << PROCESS) - 1;

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
        (self.queued.load(Ordering::Relaxed) & CLAIMS) as i64
    }

    /// With the bucket lock held.
    #[inline]
    fn set_queued(&self, queued: i64) {
        debug_assert!((0..=CLAIMS as i64).contains(&queued));
        let process = self.queued.load(Ordering::Relaxed) & !CLAIMS;
        self.queued.store(process | queued as u64, Ordering::Relaxed);
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

    /// Whether what is queued has been queued by threads of this process.
    pub(super) fn is_known_to(&self, process: Generation) -> bool {
        // Relaxed: as in `queued`.
        self.queued.load(Ordering::Relaxed) & !CLAIMS == process.number() << PROCESS
    }

    /// In the child of a fork, with the bucket lock held, and nobody in the queue: what was claimed there is nobody's. If there is no
    /// other thread, and the balance owes `mine` to the caller, neither is what is missing beyond that.
    pub(super) fn forget_lost(&self, process: Generation, mine: Option<i64>) {
        if self.is_known_to(process) {
            return;
        }
        let queued = self.queued();
        // Relaxed, all: as in `withdraw`.
        self.queued.store(process.number() << PROCESS, Ordering::Relaxed);
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
        self.set_queued(queued);
        if free > 0 { Queued::SomeLeft } else { Queued::NoneLeft }
    }

    /// With the bucket lock held: what there is for those in the queue, after a claim of `n` has been withdrawn.
    #[inline]
    pub(super) fn begin(&self, n: usize) -> Serving {
        if n != 0 {
            // In this order: a child that is forked in between finds something missing, which it mends, and not a permit more.
            self.set_queued(self.queued() - n as i64);
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
        self.set_queued(serving.queued);
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
        let child = Generation::of_another_process();
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
            assert!(!word.is_known_to(child));
            word.forget_lost(child, Some(mine));
            assert_eq!((word.look(), word.queued()), (permits, 0));
            // One of the child's that has been queued, and left without a grant: it is about to withdraw its claim itself.
            assert!(!word.take_or_claim(MAX));
            assert_eq!(word.queue(MAX), if permits > 0 { Queued::SomeLeft } else { Queued::NoneLeft });
            word.forget_lost(child, Some(mine));
            word.end(&word.begin(MAX));
            assert_eq!((word.look(), word.queued()), (permits, 0));
        }
        // Beside other threads: what is missing may be theirs.
        let word = forked();
        word.forget_lost(child, None);
        assert_eq!((word.look(), word.queued()), (-1, 0));
    }
}
