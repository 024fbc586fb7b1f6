//! Sleeping until a word changes, without a futex: parking_lot's table of parked threads, keyed by address.
//!
//! The contract is that of `futex.rs`, word for word. The crate parking_lot compares the word under the lock
//! of the address's bucket, which a waker takes too. So to compare and to fall asleep is one step. It uses
//! the address as a key only. Its table belongs to one process, so the `_shared` calls do not reach another
//! ([`ACROSS_PROCESSES`]).

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult};

use super::moment::Moment;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Waited {
    /// Woken, or never slept, or woken for nothing: look at the word.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// `true` if the `_shared` calls reach the threads of other processes that map the same memory.
pub(crate) const ACROSS_PROCESSES: bool = false;

/// Sleeps while `word` holds `expected`, at most until `deadline`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Moment>) -> Waited {
    // Relaxed: the bucket's lock orders this load after the store of a waker that came before.
    let validate = || word.load(Ordering::Relaxed) == expected;
    let key = word.as_ptr().addr();
    let deadline = deadline.and_then(Moment::instant);
    // SAFETY: the three closures neither panic nor park. The key is shared only with waiters for the same
    // word, or for a word that was here before. The contract allows spurious wake-ups of such waiters.
    let result =
        unsafe { parking_lot_core::park(key, validate, || (), |_, _| (), DEFAULT_PARK_TOKEN, deadline) };
    match result {
        ParkResult::TimedOut => Waited::TimedOut,
        ParkResult::Unparked(_) | ParkResult::Invalid => Waited::Woken,
    }
}

/// Wakes at most `n` sleepers of the word at `word`, and returns how many.
pub(crate) fn wake(word: *const AtomicU32, n: u32) -> usize {
    let mut left = n;
    let choose = |_| {
        if left == 0 {
            return FilterOp::Stop;
        }
        left -= 1;
        FilterOp::Unpark
    };
    // SAFETY: neither closure panics or parks, and the key is used as `wait` uses it.
    let result = unsafe { parking_lot_core::unpark_filter(word.addr(), choose, |_| DEFAULT_UNPARK_TOKEN) };
    result.unparked_threads
}

/// Sleeps as [`wait`] does. A word shared with another process is not watched there.
pub(crate) fn wait_shared(word: &AtomicU32, expected: u32, deadline: Option<Moment>) -> Waited {
    wait(word, expected, deadline)
}

/// Wakes as [`wake`] does. Sleepers in another process are not reached.
pub(crate) fn wake_shared(word: *const AtomicU32, n: u32) -> usize {
    wake(word, n)
}

/// Does nothing: parking_lot's table grows with the number of threads.
pub(crate) fn grow_hash(_slots: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    include!("futex_tests.rs");

    #[test]
    fn there_is_no_table_to_grow() {
        assert!(!grow_hash(1024));
    }
}
