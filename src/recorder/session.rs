//! The periods in which times are counted, and events recorded: each begins when that is switched on.

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

/// When events were last switched on.
static EVENTS_BEGAN: AtomicU64 = AtomicU64::new(0);
/// Of how many threads one records events.
static ONE_OF: AtomicU32 = AtomicU32::new(1);
/// The highest mixed identity that records events.
static HIGHEST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Begins the recording of events, of one thread in `one_of`. Called by one thread at a time, before events
/// are switched on.
pub(crate) fn begin_events(now: u64, one_of: u32) {
    // Relaxed, all: threads that still see the old values record for a moment as before.
    EVENTS_BEGAN.store(now, Ordering::Relaxed);
    ONE_OF.store(one_of, Ordering::Relaxed);
    HIGHEST.store(u64::MAX / u64::from(one_of.max(1)), Ordering::Relaxed);
}

/// Returns when events were last switched on, and of how many threads one records them.
pub(crate) fn events() -> (u64, u32) {
    // Relaxed, both: figures.
    (EVENTS_BEGAN.load(Ordering::Relaxed), ONE_OF.load(Ordering::Relaxed))
}

/// Returns `true` if the thread with this identity records events, while events are recorded.
///
/// Identities are mixed: a program may start threads of two kinds in turn, and a sample is to have both.
#[inline]
pub(crate) fn samples(id: u64) -> bool {
    // Relaxed: a figure.
    id.wrapping_mul(MIX) <= HIGHEST.load(Ordering::Relaxed)
}

/// 2^64 by the golden ratio: the multiples of successive numbers lie far apart (Knuth, *The Art of Computer
/// Programming*, 6.4).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_one_thread_of_so_many_whatever_their_order() {
        for one_of in [1_u64, 2, 3, 16, 1000] {
            let is_in = |id: u64| id.wrapping_mul(MIX) <= u64::MAX / one_of;
            for step in [1, 2, 16, 64] {
                let found = (1..=100_000).filter(|n| is_in(n * step)).count() as u64;
                assert!(found.abs_diff(100_000 / one_of) <= 12, "{found} of {one_of}");
            }
        }
    }
}
