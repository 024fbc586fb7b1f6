//! Figures for looks from outside.

use crate::shim::atomic::{AtomicU64, Ordering};

/// How often something has happened.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Called by the only thread that writes this counter: no read-modify-write.
    #[inline]
    pub(crate) fn add_alone(&self) {
        // Release: shutdown must see what came before the count of an end.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Adds one, from any thread. Returns how many there were before.
    pub(crate) fn add(&self) -> u64 {
        // Relaxed: a figure.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the figure, and sees what came before it was reached.
    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with `add_alone`.
        self.0.load(Ordering::Acquire)
    }
}
