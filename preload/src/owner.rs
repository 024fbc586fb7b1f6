//! Numbers of threads, for locks that know their owner.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number that the next thread gets. Zero is none.
static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of the running thread. A green thread has its own, as it has its own thread-locals.
pub(crate) fn own() -> u32 {
    let own = OWN.get();
    if own != 0 {
        return own;
    }
    // Relaxed: only the number matters.
    let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
    OWN.set(fresh);
    fresh
}
