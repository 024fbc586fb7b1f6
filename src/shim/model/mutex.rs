//! The mutex, over loom's.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Expiries, Lazy, also_unwinding};

/// A lock that protects a value, without poisoning. (In a model: over `loom::sync::Mutex`.)
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]. Unlocks it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// Access to the value of a locked [`Mutex`], with a share of the mutex.
#[cfg(feature = "arc_lock")]
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

/// The lock, without the data.
///
/// This guards a flag by loom's lock, for a moment at a time. `loom::sync::Mutex` cannot be the lock itself:
/// loom takes a thread that is about to try for one that waits, and reports deadlocks that do not exist.
pub struct RawMutex {
    state: Lazy<MutexState>,
    expiries: Expiries,
}

#[derive(Default)]
struct MutexState {
    lock: loom::sync::Mutex<Lock>,
    /// All waiters try again. One of them may be next, or a thread that has not waited.
    freed: loom::sync::Condvar,
}

#[derive(Default)]
struct Lock {
    is_taken: bool,
    waiting: usize,
}

impl RawMutex {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self { state: Lazy::new(), expiries: Expiries::new() }
    }

    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn state(&self) -> (&MutexState, loom::sync::MutexGuard<'_, Lock>) {
        let state = self.state.get(MutexState::default);
        (state, state.lock.lock().expect("no poison"))
    }

    pub(super) fn acquire(&self) {
        let (state, mut lock) = self.state();
        while lock.is_taken {
            lock.waiting += 1;
            lock = state.freed.wait(lock).expect("no poison");
            lock.waiting -= 1;
        }
        lock.is_taken = true;
    }

    fn try_acquire(&self) -> bool {
        let (_, mut lock) = self.state();
        !std::mem::replace(&mut lock.is_taken, true)
    }

    /// Acquires the lock if it is free; otherwise the deadline passes.
    fn acquire_or_expire(&self) -> bool {
        let acquired = self.try_acquire();
        if !acquired {
            self.expiries.one_more();
        }
        acquired
    }

    pub(super) fn release(&self) {
        also_unwinding(|| {
            let (state, mut lock) = self.state();
            let was_taken = std::mem::take(&mut lock.is_taken);
            let waiting = lock.waiting;
            drop(lock);
            assert!(was_taken, "unlocked a mutex that is not locked");
            if waiting > 0 {
                state.freed.notify_all();
            }
        });
    }

    fn is_taken(&self) -> bool {
        self.state().1.is_taken
    }
}

/// When a wait ends without success.
#[derive(Clone, Copy)]
pub(super) enum Deadline {
    Never,
    May,
}

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex").finish_non_exhaustive()
    }
}

// SAFETY: loom's lock excludes.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        self.acquire();
    }

    fn try_lock(&self) -> bool {
        self.try_acquire()
    }

    unsafe fn unlock(&self) {
        self.release();
    }

    fn is_locked(&self) -> bool {
        self.is_taken()
    }
}

// SAFETY: loom's lock excludes.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        self.release();
    }
}

// SAFETY: loom's lock excludes. `false` means that the lock was not taken.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, _timeout: Duration) -> bool {
        self.acquire_or_expire()
    }

    fn try_lock_until(&self, _deadline: Instant) -> bool {
        self.acquire_or_expire()
    }
}
