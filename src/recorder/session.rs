//! The period in which times are counted: it begins when the accounting is switched on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One period in which times are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Which one; 0 before the first.
    pub(crate) number: u32,
    /// When it began, by `recorder::clock`.
    pub(crate) began: u64,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Begins another session. Called by one thread at a time.
pub(crate) fn begin(now: u64) {
    // Relaxed: the number orders it.
    BEGAN.store(now, Ordering::Relaxed);
    // Release: pairs with `current`.
    NUMBER.fetch_add(1, Ordering::Release);
}

/// Returns the current session, or the last.
#[inline]
pub(crate) fn current() -> Session {
    // Acquire: pairs with `begin`.
    let number = NUMBER.load(Ordering::Acquire);
    Session { number, began: BEGAN.load(Ordering::Relaxed) }
}
