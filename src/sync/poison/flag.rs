//! Whether a thread has panicked with the lock held.
//!
//! A thread may lock while it unwinds already, in a destructor, and that lock is as good as any: so what counts is whether the panic
//! began while the lock was held. Changed and looked at with the lock held, which orders it.

use std::sync::{LockResult, PoisonError};

use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::const_new;

/// | value | meaning | changed by |
/// |---|---|---|
/// | `false` | whoever had the lock left well | an owner that unwinds: `true` |
/// | `true` | poisoned | whoever clears it: `false` |
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

/// What a guard remembers: whether its thread was unwinding when it locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entered(bool);

impl Flag {
    const_new! {
        pub(super) const fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    /// Relaxed, all: who has the lock is ordered by it; for others it is a look.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// By who is about to unlock.
    #[inline]
    pub(super) fn leave(&self, entered: Entered) {
        if std::thread::panicking() && !entered.0 {
            self.set();
        }
    }

    #[cold]
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// What the holder of the lock has to say of `what` it protects.
    #[inline]
    pub(super) fn judge<T>(&self, what: T) -> LockResult<T> {
        if self.is_set() { Err(PoisonError::new(what)) } else { Ok(what) }
    }
}

impl Entered {
    /// By who has just locked.
    #[inline]
    pub(super) fn now() -> Self {
        Self(std::thread::panicking())
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_poison.rs"]
mod loom_poison;
