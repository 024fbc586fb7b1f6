//! The numbers of a semaphore.

use super::MAX;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::fork::Generation;

/// The balance, and what is queued: see the header of `protocol.rs`.
pub(super) struct Word {
    /// The free permits, less all claims, as a signed number.
    ///
    /// | balance | meaning |
    /// |---|---|
    /// | 0 or more | there is enough for all waiters, if there are any, and so much is left |
    /// | below 0 | so much is missing |
    balance: AtomicU64,
    /// The claims in the queue, and claims that have left it without a grant and are not withdrawn yet.
    /// The highest byte says of which process they are (the number of forks). Changed with the bucket
    /// lock held.
    queued: AtomicU64,
}

/// The bit at which the number of the process begins.
const PROCESS: u32 = 56;
const CLAIMS: u64 = (1 << PROCESS) - 1;

impl Word {
    pub(super) const fn new(permits: usize) -> Self {
        Self { balance: AtomicU64::new(permits as u64), queued: AtomicU64::new(0) }
    }

    #[inline]
    fn look(&self) -> i64 {
        // Relaxed: every decision is confirmed by a read-modify-write, or made again with the bucket lock
        // held.
        self.balance.load(Ordering::Relaxed) as i64
    }

    #[inline]
    fn queued(&self) -> i64 {
        // Relaxed: the bucket lock orders it. Without that, it is a guess.
        (self.queued.load(Ordering::Relaxed) & CLAIMS) as i64
    }

    /// Sets what is queued. The caller holds the bucket lock.
    #[inline]
    fn set_queued(&self, queued: i64) {
        debug_assert!((0..=CLAIMS as i64).contains(&queued));
        let process = self.queued.load(Ordering::Relaxed) & !CLAIMS;
        self.queued.store(process | queued as u64, Ordering::Relaxed);
    }

    /// Returns the free permits, as far as can be seen.
    pub(super) fn permits(&self) -> usize {
        let balance = self.look();
        let free = if balance < 0 { balance + self.queued() } else { balance };
        free.max(0) as usize
    }

    /// Takes `n`, if there is enough for all. Otherwise claims them, and returns `false`.
    #[inline]
    #[must_use]
    pub(super) fn take_or_claim(&self, n: usize) -> bool {
        // Acquire: pairs with the release of `give` and `try_give`. Others may have added to that value
        // since, and taken from it: read-modify-writes keep the chain whole.
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

    /// Takes `n`, if that is there. The caller holds the bucket lock, and the queue is empty.
    pub(super) fn try_take_unqueued(&self, n: usize) -> bool {
        let queued = self.queued();
        let mut seen = self.look();
        // The bucket lock keeps out threads that queue, not threads that take.
        while seen + queued >= n as i64 {
            let less = (seen as u64).wrapping_sub(n as u64);
            // Acquire: as in `take_or_claim`. Relaxed on failure: tried again.
            match self.balance.compare_exchange_weak(seen as u64, less, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now as i64,
            }
        }
        false
    }

    /// Returns `true` if the claims in the queue are of threads of this process.
    pub(super) fn is_known_to(&self, process: Generation) -> bool {
        // Relaxed: as in `queued`.
        self.queued.load(Ordering::Relaxed) & !CLAIMS == process.number() << PROCESS
    }

    /// Forgets claims of the parent, in the child of a fork. The caller holds the bucket lock, and the
    /// queue is empty. No thread of the child has the claims that were queued. If `mine` is given, the
    /// child has no other thread, and that is what the balance owes to the caller. Anything missing
    /// beyond that is forgotten too.
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

    /// Returns `true` if there is enough for all claims.
    pub(super) fn is_enough(&self) -> bool {
        // Acquire: as in `take_or_claim`.
        self.balance.load(Ordering::Acquire) as i64 >= 0
    }

    /// Queues the claim of `n`, or meets it at once. The caller holds the bucket lock.
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

    /// Withdraws a claim of `n`, and returns what there is for the queue. The caller holds the bucket
    /// lock.
    #[inline]
    pub(super) fn begin(&self, n: usize) -> Serving {
        if n != 0 {
            // In this order: a child that is forked in between finds something missing, which it mends.
            // In the other, it would find a permit too many.
            self.set_queued(self.queued() - n as i64);
            // Relaxed: a part of the chain, as in `take_or_claim`.
            self.balance.fetch_add(n as u64, Ordering::Relaxed);
        }
        // Acquire: as in `take_or_claim`, for the waiters, which see it by their grants.
        let balance = self.balance.load(Ordering::Acquire) as i64;
        let queued = self.queued();
        Serving { free: balance + queued, queued }
    }

    /// Subtracts what was served from what is queued. The caller holds the bucket lock.
    #[inline]
    pub(super) fn end(&self, serving: &Serving) {
        self.set_queued(serving.queued);
    }

    /// Withdraws a claim that has not been queued.
    pub(super) fn withdraw(&self, n: usize) {
        // Relaxed: a part of the chain, as in `take_or_claim`.
        self.balance.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Adds `n`. Returns `true` if something was missing, or if there are too many permits.
    #[inline]
    #[must_use]
    pub(super) fn give(&self, n: usize) -> bool {
        // Release: pairs with the acquire of threads that take, or serve.
        let was = self.balance.fetch_add(n as u64, Ordering::Release);
        // One comparison is enough: as an unsigned number, a balance below zero is above the maximum.
        n > MAX || was > (MAX - n) as u64
    }

    /// Adds as `give` does, but without its order: a bug for a model to find.
    #[cfg(all(test, loom))]
    pub(super) fn give_unordered(&self, n: usize) -> bool {
        (self.balance.fetch_add(n as u64, Ordering::Relaxed) as i64) < 0
    }

    /// Returns `true` if there are more permits than there can be.
    pub(super) fn is_overflown(&self) -> bool {
        self.look() > MAX as i64
    }

    /// Adds `n`. Returns `Some(true)` if something was missing, `None` if there would be too many.
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

/// The outcome of queueing a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// The queue was empty, and there was enough after all.
    Met,
    /// It is queued, and no permits are there.
    NoneLeft,
    /// It is queued, and some permits are there: perhaps enough for the waiter that is next.
    SomeLeft,
}

/// What the holder of the bucket lock gives to waiters.
pub(super) struct Serving {
    free: i64,
    queued: i64,
}

impl Serving {
    /// Gives a waiter its demand, if that is there.
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

    /// Checks a child that is forked while one claim is queued, one is on its way to the queue, and two
    /// permits are held.
    #[test]
    fn what_lost_threads_have_claimed_is_forgotten_and_what_they_have_is_not() {
        let child = Generation::of_another_process();
        let forked = || {
            let word = Word::new(2);
            assert!(word.take_or_claim(2) && !word.take_or_claim(3) && !word.take_or_claim(1));
            assert_eq!(word.queue(3), Queued::NoneLeft);
            word
        };
        // A look; a thread that asks for one permit; a thread that puts back two of the permits that were
        // held.
        for (mine, permits) in [(0, 0), (-1, -1), (2, 2)] {
            let word = forked();
            word.balance.fetch_add(mine as u64, Ordering::Relaxed);
            assert!(!word.is_known_to(child));
            word.forget_lost(child, Some(mine));
            assert_eq!((word.look(), word.queued()), (permits, 0));
            // A claim of the child's has been queued, and left without a grant: its thread is about to
            // withdraw it.
            assert!(!word.take_or_claim(MAX));
            assert_eq!(word.queue(MAX), if permits > 0 { Queued::SomeLeft } else { Queued::NoneLeft });
            word.forget_lost(child, Some(mine));
            word.end(&word.begin(MAX));
            assert_eq!((word.look(), word.queued()), (permits, 0));
        }
        // The child has other threads: what is missing may be theirs.
        let word = forked();
        word.forget_lost(child, None);
        assert_eq!((word.look(), word.queued()), (-1, 0));
    }
}
