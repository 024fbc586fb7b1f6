//! A flag that is set if a panic began while the lock was held.
//!
//! The flag is changed and read with the lock held, which orders it.

use std::sync::{LockResult, PoisonError};

use crate::shim::atomic::Ordering;
use crate::sync::lock::Entered;

crate::shim::swap! { use crate::shim::atomic::AtomicBool; use crate::shim::model::AtomicBool; }

/// | value | meaning | changed by |
/// |---|---|---|
/// | `false` | the last owner left the lock as usual | an owner that unwinds: `true` |
/// | `true` | poisoned | a thread that clears it: `false` |
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Returns `true` if it is set. Relaxed, here and below: the lock orders it for its owner; for others
    /// it is a look.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Sets the flag, if a panic has begun since the lock was taken. Called before the unlock.
    #[inline]
    pub(super) fn leave(&self, entered: Entered) {
        if entered.has_panicked_since() {
            self.set();
        }
    }

    #[cold]
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns `what`, within an error if the lock is poisoned. Called with the lock held.
    #[inline]
    pub(super) fn judge<T>(&self, what: T) -> LockResult<T> {
        if self.is_set() { Err(PoisonError::new(what)) } else { Ok(what) }
    }
}

#[cfg(all(test, loom))]
mod loom_poison;
