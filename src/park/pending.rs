//! Signals that wait for one green thread.
//!
//! **Problem.** The kernel does not know green threads, so it keeps no signals for them. A thread takes its
//! own where it stops blocking them. Until then, a helper must leave its wait alone.
//!
//! **Protocol.** A sender adds the signal, and then has the helper look (`futex/errands.rs`). The helper
//! looks at the signals, and then at what the thread blocks. A thread says what it blocks, or what it waits
//! for, and then looks at its signals. A fence stands between the two steps on both sides.
//!
//! **Proof** that no signal is forgotten. Of the two fences, one comes first. If the helper's does, the
//! thread finds the signal. Otherwise the helper finds that the thread does not block it, and tells the
//! thread, again and again, until the thread has taken it.

pub(crate) mod taking;

use crate::shim::atomic::{AtomicU64, Ordering, fence};

/// The signals of one thread, the lowest bit for signal 1.
#[derive(Debug)]
pub(crate) struct Pending {
    signals: AtomicU64,
    /// What the thread waits for, although it blocks it. The thread's own.
    awaited: AtomicU64,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self { signals: AtomicU64::new(0), awaited: AtomicU64::new(0) }
    }

    /// Adds a signal by its bit. Returns `true` if it was not there. Async-signal-safe.
    pub(crate) fn add(&self, signal: u64) -> bool {
        // Release: pairs with `take`, which finds what is known of the signal.
        self.signals.fetch_or(signal, Ordering::Release) & signal == 0
    }

    /// Returns those that wait.
    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with `take`. See `Taking::is_done`.
        self.signals.load(Ordering::Acquire)
    }

    /// Returns `true` if a signal waits, by its bit. If so, it is taken after what the caller has done.
    pub(crate) fn has(&self, signal: u64) -> bool {
        // Release: pairs with `take`, so it is a read-modify-write. Acquire: pairs with it, too. If the signal
        // was taken, what the caller writes next comes after what the taker has read.
        self.signals.fetch_or(0, Ordering::AcqRel) & signal != 0
    }

    /// Takes one of these signals, and returns its number. Called by one thread at a time (`Taking`).
    pub(crate) fn take(&self, of: u64) -> Option<u32> {
        let found = self.get() & of;
        if found == 0 {
            return None;
        }
        let first = found & found.wrapping_neg();
        // Acquire: pairs with `add` and `has`. No other thread takes signals now, so it is there.
        // Release: pairs with `get`.
        self.signals.fetch_and(!first, Ordering::AcqRel);
        Some(first.trailing_zeros() + 1)
    }

    /// Makes the look of the thread at its signals come after what it has said that it blocks.
    pub(crate) fn after_mask(&self) {
        // Pairs with that of `is_wanted`.
        fence(Ordering::SeqCst);
    }

    /// Says that the thread waits for these signals. It looks at them afterwards.
    pub(crate) fn await_these(&self, signals: u64) {
        // Relaxed: the fence orders it.
        self.awaited.store(signals, Ordering::Relaxed);
        self.after_mask();
    }

    /// Returns `true` if the thread is to be told of a signal. `blocked` returns what it blocks.
    pub(crate) fn is_wanted(&self, blocked: impl FnOnce() -> u64) -> bool {
        let signals = self.get();
        // Pairs with that of `after_mask`. Relaxed: it orders the loads.
        fence(Ordering::SeqCst);
        signals & !(blocked() & !self.awaited.load(Ordering::Relaxed)) != 0
    }

    /// Forgets all signals. The thread ends, or is the only one of a forked process.
    pub(crate) fn forget(&self) {
        // Relaxed: no other thread needs to know.
        self.signals.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_taken_by_their_numbers() {
        let pending = Pending::new();
        assert!(pending.add(1 << 9) && pending.add(1 << 63) && pending.add(1) && !pending.add(1));
        assert_eq!(pending.take(1 << 8), None);
        assert_eq!(
            [!1, u64::MAX, u64::MAX, u64::MAX].map(|of| pending.take(of)),
            [Some(10), Some(1), Some(64), None]
        );
        pending.add(2);
        assert!(pending.has(2) && !pending.has(1));
        assert!(pending.is_wanted(|| 1) && !pending.is_wanted(|| 2));
        pending.await_these(2);
        assert!(pending.is_wanted(|| 2));
        pending.forget();
        assert!(!pending.is_wanted(|| 0) && pending.get() == 0);
    }
}

#[cfg(all(test, loom))]
mod loom_pending;
