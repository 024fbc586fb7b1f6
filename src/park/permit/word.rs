//! The word of a permit: its states, and what each party changes in it.

use crate::shim::atomic::{AtomicU32, Ordering};

/// A thread's token.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | `EMPTY` | no token; the thread runs, or is a kernel thread that spins | see below |
/// | `PARKED` | the thread is asleep | see below |
/// | `NOTIFIED` | a token waits | the thread: `EMPTY` |
/// | `INTERRUPTED` | an interrupt has ended the sleep; no token | the thread: `EMPTY`; unpark: `NOTIFIED` |
///
/// `EMPTY` becomes:
///
/// - `PARKED`, by the thread
/// - `NOTIFIED`, by any unpark
/// - `INTERRUPTED`, by an interrupt of a thread that spins
///
/// `PARKED` becomes:
///
/// - `NOTIFIED`, by an unpark, which wakes the thread
/// - `EMPTY`, by the deadline, which makes the thread runnable
/// - `INTERRUPTED`, by an interrupt, which wakes the thread
///
/// An unpark that changes `INTERRUPTED` wakes no thread.
#[derive(Debug)]
pub(crate) struct Permit(AtomicU32);

pub(super) const EMPTY: u32 = 0;
pub(super) const PARKED: u32 = 1;
/// The lowest value that says that a sleep is over.
pub(super) const NOTIFIED: u32 = 2;
pub(super) const INTERRUPTED: u32 = 3;

impl Permit {
    /// Creates a permit without a token.
    pub(in crate::park) fn new() -> Self {
        Self(AtomicU32::new(EMPTY))
    }

    /// Takes the token away before the core's next life.
    pub(in crate::park) fn reset(&self) {
        // Relaxed: no other thread has a reference yet.
        self.0.store(EMPTY, Ordering::Relaxed);
    }

    /// Takes over the token of another core, when the same thread goes on with this one.
    pub(in crate::park) fn inherit(&self, from: &Self) {
        // Relaxed, both: there is no other thread. The thread runs, so the word says only if it has a token.
        self.0.store(from.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns `true` if this word says that the thread is asleep. A look from outside.
    pub(crate) fn is_parked(&self) -> bool {
        self.0.load(Ordering::Acquire) == PARKED
    }

    /// Returns the word on which a kernel thread waits.
    #[inline]
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.0
    }

    /// Returns the word. Called by the thread itself, on its way into its sleep.
    #[inline]
    pub(super) fn look(&self) -> u32 {
        // Relaxed: what the waker wrote is visible after `finish`, which acquires.
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the token if there is one. Called by the thread itself.
    #[inline]
    #[must_use]
    pub(super) fn try_consume(&self) -> bool {
        // Relaxed: only a look. Acquire on the swap: pairs with every `post` up to the one it reads.
        self.0.load(Ordering::Relaxed) == NOTIFIED && self.0.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Changes `EMPTY` to `PARKED`. Called by the thread itself. Returns `false` if a token is there, or the
    /// sleep is over.
    #[inline]
    #[must_use]
    pub(super) fn publish(&self) -> bool {
        // Release: pairs with the acquire of `post`, so a waker sees what this thread did before it parked.
        // Relaxed on failure: the consuming swap comes after.
        self.0.compare_exchange(EMPTY, PARKED, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Stores `NOTIFIED`. Called by any thread. Returns `true` if the thread was asleep; the caller then
    /// wakes it.
    #[inline]
    #[must_use]
    pub(super) fn post(&self) -> bool {
        // Release: pairs with `try_consume` and `finish`. Acquire: pairs with `publish`. Always a write (see
        // the proof in `permit.rs`).
        self.0.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// Changes `PARKED` to `EMPTY`, because the deadline has passed. If it returns `true`, the caller makes
    /// the thread runnable.
    #[must_use]
    pub(super) fn expire(&self) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Relaxed on failure: an unpark has won.
        self.0.compare_exchange(PARKED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Changes `from` to `INTERRUPTED`, because the thread was interrupted. If it returns `true`, the caller
    /// wakes the thread.
    #[must_use]
    pub(super) fn interrupt(&self, from: u32) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Release: the next unpark comes after it, and so does
        // the thread. Relaxed on failure: another party has won, or the thread is committing.
        self.0.compare_exchange(from, INTERRUPTED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Stores `EMPTY`. Called by the thread after its sleep. Returns what was there.
    #[inline]
    pub(super) fn finish(&self) -> u32 {
        // Acquire: pairs with `post` and `interrupt`. A swap, since a token may arrive at this moment.
        self.0.swap(EMPTY, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod loom_permit;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_from_outside_finds_parked_threads() {
        let permit = Permit::new();
        assert!(!permit.is_parked());
        assert!(permit.publish() && permit.is_parked());
        assert!(permit.post() && !permit.is_parked());
        assert!(permit.try_consume() && !permit.is_parked());
        assert!(permit.publish() && permit.interrupt(PARKED) && !permit.is_parked());
    }
}
