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
    let fresh = fresh(&NEXT);
    OWN.set(fresh);
    fresh
}

/// Returns the next number of this count.
fn fresh(next: &AtomicU32) -> u32 {
    loop {
        // Relaxed: only the number matters.
        let fresh = next.fetch_add(1, Ordering::Relaxed);
        // After four billion threads, they begin anew.
        if fresh != 0 {
            return fresh;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock without an owner would be the thread's own.
    #[test]
    fn no_thread_gets_the_number_of_none() {
        let next = AtomicU32::new(u32::MAX);
        assert_eq!([fresh(&next), fresh(&next)], [u32::MAX, 1]);
    }
}
