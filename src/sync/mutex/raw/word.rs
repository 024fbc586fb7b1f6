//! The mutex's state byte, the hint beside it, and the steps that change them. The protocol in
//! [`raw`](super) says what they are for.

use crate::park::observed;
use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::{MAX_SKIPPED_WAKES, fork, store_among_swaps};

/// | bits | meaning | a thread may take it |
/// |---|---|---|
/// | 0 | free, no waiters | yes |
/// | `LOCKED` | owned, no waiters | no |
/// | `LOCKED`, `WAITERS` | owned; the next unlock wakes a waiter | no |
/// | `LOCKED`, `WAITERS`?, `WOKEN` | owned; a waiter or spinner is on its way: the unlock wakes none | no |
/// | `WAITERS`?, `WOKEN` | free; a waiter or spinner is on its way | yes |
/// | `WAITERS` | free after a spinner barged in | yes |
///
/// `WAITERS` may outlive the last waiter for a moment if that one's deadline passed, or it was
/// interrupted.
#[derive(Default)]
pub(super) struct MutexWord(pub(super) AtomicU8);

pub(super) const LOCKED: u8 = 1;
pub(super) const WAITERS: u8 = 2;
pub(super) const WOKEN: u8 = 4;

impl MutexWord {
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    #[inline]
    pub(super) fn look(&self) -> u8 {
        // Relaxed: every decision is confirmed by a compare-and-swap or with the bucket lock held.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns `true` if it is free, and no thread waits. A look before
    /// [`try_take_idle`](Self::try_take_idle) spares a thread that must wait a read-modify-write that
    /// fails.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.look() == 0
    }

    /// Takes the lock if it is free and no thread waits.
    #[inline]
    #[must_use]
    pub(super) fn try_take_idle(&self) -> bool {
        // Acquire: pairs with the release of every unlock, so that the last owner's writes are visible.
        self.0.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock in the state `seen`, which is free; others may wait. `mine` is `WOKEN` if the
    /// caller owns that bit, otherwise 0.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, seen: u8, mine: u8) -> bool {
        // Acquire: as in `try_take_idle`.
        self.0.compare_exchange(seen, (seen | LOCKED) & !mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock if no thread waits.
    #[inline]
    #[must_use]
    pub(super) fn try_release_idle(&self) -> bool {
        // Release: pairs with the acquire of every lock.
        self.0.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock in the state `seen`, which becomes `free`; this wakes no waiter.
    #[must_use]
    pub(super) fn try_release(&self, seen: u8, free: u8) -> bool {
        // Release: as in `try_release_idle`.
        self.0.compare_exchange(seen, free, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes `WOKEN` for a spinner: the unlocker then wakes no other thread.
    #[must_use]
    pub(super) fn try_claim_way(&self, seen: u8) -> bool {
        // Relaxed: a request; it publishes nothing.
        self.0.compare_exchange(seen, seen | WOKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Stores the owner's change, with the bucket lock held, where no other thread's change counts (proof
    /// (a)).
    #[inline]
    pub(super) fn store(&self, state: u8) {
        // Release: it may free the lock, as in `try_release_idle`.
        store_among_swaps!(self.0, state, Ordering::Release);
    }

    /// Announces a waiter, which gives up its `mine`. Returns `false` if the lock is free. The caller
    /// holds the bucket lock.
    #[inline]
    #[must_use]
    pub(super) fn announce_waiter(&self, mine: u8) -> bool {
        let mut seen = self.look();
        loop {
            if seen & LOCKED == 0 {
                return false;
            }
            let announced = (seen | WAITERS) & !mine;
            if announced == seen {
                // Without `WOKEN`, the owner needs the bucket lock to unlock. With it, a thread is on its
                // way.
                return true;
            }
            // Relaxed: the bucket lock orders it for the threads that act on the bit.
            match self.0.compare_exchange_weak(seen, announced, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Clears `WAITERS`: the queue is empty. The caller holds the bucket lock.
    pub(super) fn clear_waiters(&self) {
        // Relaxed: as in `announce_waiter`.
        self.0.fetch_and(!WAITERS, Ordering::Relaxed);
    }
}

/// Zero: no thread is known to wait, and the owner is not recorded. Otherwise about the number of unlocks
/// since a waiter was woken, up to [`MAX_SKIPPED_WAKES`].
///
/// Only a hint: it spares an unlock that must take the slow path a compare-and-swap that fails. So all its
/// accesses are relaxed.
#[derive(Default)]
pub(super) struct QueuedHint(pub(super) AtomicU8);

impl QueuedHint {
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Notes if threads are queued. The caller holds the bucket lock, or the mutex.
    #[inline]
    pub(super) fn set(&self, queued: bool) {
        self.0.store(u8::from(queued || observed::are_owners_recorded()), Ordering::Relaxed);
    }

    /// Counts an unlock that wakes no waiter. Returns `true` if the thread that was woken has let too many
    /// others pass. Called by the owner.
    pub(super) fn is_late(&self) -> bool {
        // It does not matter if an arrival overwrites this, or is overwritten by it.
        let unlocks = self.0.load(Ordering::Relaxed);
        self.0.store(unlocks.saturating_add(1), Ordering::Relaxed);
        // In the child of a fork, the woken thread never comes.
        unlocks >= MAX_SKIPPED_WAKES || fork::is_child()
    }
}
