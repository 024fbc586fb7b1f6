//! A lock in one word that several processes map: three states and a futex.
//!
//! **Problem.** Nothing of one process (an address, a queue, a hint where the owner runs) means anything in another.
//!
//! **Rejected.** A counter of waiters beside the lock: a process that dies while it waits would leave it wrong.
//!
//! **Protocol.** Lock: `FREE -> LOCKED`; if that fails, wait awake a little, then swap in `CONTENDED`, which takes the lock if it was free,
//! and sleep while that is the value. Unlock: swap in `FREE`; if the word was `CONTENDED`, wake one.
//!
//! **Proof.** Who sleeps has swapped in `CONTENDED` before, and so has everybody who takes the lock after a sleep, so the word is
//! `CONTENDED` whenever the lock is taken and somebody sleeps; then the unlock wakes one, who swaps in `CONTENDED` again. One
//! who gives up at its deadline leaves `CONTENDED` behind, which costs one wake of nobody.
//!
//! **Cost** in read-modify-writes: lock 1, unlock 1.

use std::time::{Duration, Instant};

use crate::park::shared_futex;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::const_new;
use crate::time;

/// The algorithm, without the data: see [`Mutex`](super::Mutex).
///
/// May be unlocked by another thread, or process, than the one that locked it.
#[repr(transparent)]
pub struct RawMutex(Word);

/// | value | meaning |
/// |---|---|
/// | `FREE` | anybody may take it |
/// | `LOCKED` | taken, and nobody sleeps |
/// | `CONTENDED` | taken, and somebody may sleep |
#[repr(transparent)]
struct Word(AtomicU32);

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

impl Word {
    #[inline]
    #[must_use]
    fn try_take(&self) -> bool {
        // Acquire: pairs with the release of `give`, so that the last owner's writes are visible.
        self.0.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it if it is free, and says that somebody may sleep if it is not.
    #[must_use]
    fn take_contended(&self) -> bool {
        // Acquire: as in `try_take`.
        self.0.swap(CONTENDED, Ordering::Acquire) == FREE
    }

    #[inline]
    fn look(&self) -> u32 {
        // Relaxed: only a look.
        self.0.load(Ordering::Relaxed)
    }

    /// Frees it; whether somebody may sleep.
    #[inline]
    #[must_use]
    fn give(&self) -> bool {
        // Release: pairs with `try_take` and `take_contended`.
        self.0.swap(FREE, Ordering::Release) == CONTENDED
    }
}

impl RawMutex {
    const_new! {
        /// A free lock; a zeroed one is free too.
        #[must_use]
        pub const fn new() -> Self {
            Self(Word(AtomicU32::new(FREE)))
        }
    }

    #[inline]
    fn acquire(&self, deadline: Option<Instant>) -> bool {
        self.0.try_take() || self.acquire_slow(deadline)
    }

    #[cold]
    fn acquire_slow(&self, deadline: Option<Instant>) -> bool {
        if shared_futex::wait_awake(|| self.0.look() == FREE && self.0.try_take()) {
            return true;
        }
        while !self.0.take_contended() {
            if time::has_passed(deadline) {
                return false;
            }
            let _ = shared_futex::wait(&self.0.0, CONTENDED, deadline);
        }
        true
    }

    #[inline]
    pub(super) fn release(&self) {
        if self.0.give() {
            // The memory may be unmapped by now, if the next owner was fast: the kernel then finds nobody.
            shared_futex::wake(&self.0.0, 1);
        }
    }

    pub(super) fn acquire_again(&self) {
        let locked = self.acquire(None);
        debug_assert!(locked);
    }
}

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawMutex").field("locked", &(self.0.look() != FREE)).finish()
    }
}

// SAFETY: `acquire` gives the lock to one caller at a time, until `release`.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.acquire_again();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.release();
    }

    fn is_locked(&self) -> bool {
        self.0.look() != FREE
    }
}

// SAFETY: as above; `false` means that the lock was not taken.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.0.try_take() || self.acquire_slow(time::after(timeout))
    }

    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.acquire(Some(deadline))
    }
}
