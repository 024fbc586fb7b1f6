//! The word of a `Once`.

use crate::park::thread::ThreadCore;
use crate::shim::atomic::{AtomicUsize, Ordering};

/// | bits | value | meaning | next by |
/// |---|---|---|---|
/// | 0, 1 | [`Phase::Fresh`] | not done | the first thread to come: `Runs` |
/// | | [`Phase::Failed`] | a closure has panicked, or returned an error | a thread that ignores it: `Runs` |
/// | | [`Phase::Runs`] | a closure runs | the thread that runs it: `Done` or `Failed` |
/// | | [`Phase::Done`] | a closure has returned; all other bits are clear | - |
/// | 2 | `WAITERS` | a thread waits, or has given up | set by a waiter; cleared by the end of a closure |
/// | from 3 | an address | in `Runs`: the core of the thread that runs it | with the phase |
///
/// `WAITERS` is set with the bucket lock held. The address is not followed, only compared.
pub(super) struct Word(AtomicUsize);

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Fresh,
    Failed,
    Runs,
    Done,
}

const PHASE: usize = 3;
const WAITERS: usize = 4;
const FLAGS: usize = PHASE | WAITERS;

const _: () = assert!(align_of::<ThreadCore>() > FLAGS);

/// The word at one look.
#[derive(Clone, Copy)]
pub(super) struct Seen(usize);

impl Seen {
    #[inline]
    pub(super) fn phase(self) -> Phase {
        match self.0 & PHASE {
            0 => Phase::Fresh,
            1 => Phase::Failed,
            2 => Phase::Runs,
            _ => Phase::Done,
        }
    }

    /// Returns `true` if no thread has begun, and none waits.
    #[inline]
    pub(super) fn is_fresh(self) -> bool {
        self.0 == Phase::Fresh as usize
    }

    /// Returns `true` if the thread with the core at `runner` runs the closure. The phase is `Runs`.
    pub(super) fn is_run_by(self, runner: usize) -> bool {
        self.0 & !FLAGS == runner
    }
}

impl Word {
    pub(super) const fn new(phase: Phase) -> Self {
        Self(AtomicUsize::new(phase as usize))
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.look().0 == Phase::Done as usize
    }

    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Acquire: pairs with the release of `end`: a thread that sees it done sees what the closure did.
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Changes the word from `seen` to `Runs`, by the thread with the core at `runner`.
    #[inline]
    #[must_use]
    pub(super) fn try_run(&self, seen: Seen, runner: usize) -> bool {
        let runs = runner | Phase::Runs as usize | seen.0 & WAITERS;
        // Acquire: pairs with the release of `end`, of a closure that has failed. Relaxed on failure: the
        // caller looks again.
        self.0.compare_exchange(seen.0, runs, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Changes the word from `Runs` to `phase`, by the thread that runs it. Returns `true` if a thread
    /// waits.
    #[inline]
    #[must_use]
    pub(super) fn end(&self, phase: Phase) -> bool {
        // Release: pairs with the acquires of `look` and `try_run`.
        self.0.swap(phase as usize, Ordering::Release) & WAITERS != 0
    }

    /// Notes that a thread waits, if `waits` returns `true` for the phase. The caller holds the bucket
    /// lock.
    #[must_use]
    pub(super) fn announce(&self, waits: impl Fn(Phase) -> bool) -> bool {
        // Relaxed, here and below: a thread that is not queued looks again. The bucket lock orders the
        // bit for threads that act on it.
        let mut seen = Seen(self.0.load(Ordering::Relaxed));
        while waits(seen.phase()) {
            if seen.0 & WAITERS != 0 {
                return true;
            }
            let announced = seen.0 | WAITERS;
            match self.0.compare_exchange_weak(seen.0, announced, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Seen(now),
            }
        }
        false
    }
}
