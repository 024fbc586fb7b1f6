//! The word of a `Once`.

use crate::park::thread::ThreadCore;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::const_new;

/// | bits | value | meaning | next by |
/// |---|---|---|---|
/// | 0, 1 | [`Phase::Fresh`] | not done | who comes first: `Runs` |
/// | | [`Phase::Failed`] | a closure has panicked, or given an error | who does not mind: `Runs` |
/// | | [`Phase::Runs`] | a closure runs | who runs it: `Done` or `Failed` |
/// | | [`Phase::Done`] | a closure has returned; all other bits are clear | nobody |
/// | 2 | `WAITERS` | somebody waits, or has and given up | set with the bucket lock held; cleared by the end of a closure |
/// | from 3 | an address | in `Runs`: the core of the thread that runs it; not followed, only compared | with the phase |
pub(super) struct Word(AtomicUsize);

/// How far it is.
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

/// What a look has seen.
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

    /// Nobody has begun, and nobody waits.
    #[inline]
    pub(super) fn is_fresh(self) -> bool {
        self.0 == Phase::Fresh as usize
    }

    /// Of one that runs: whether the thread whose core is at `place` runs it.
    pub(super) fn is_run_by(self, place: usize) -> bool {
        self.0 & !FLAGS == place
    }
}

impl Word {
    const_new! {
        pub(super) const fn new(phase: Phase) -> Self {
            Self(AtomicUsize::new(phase as usize))
        }
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.look().0 == Phase::Done as usize
    }

    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Acquire: pairs with `end`: what the closure did is visible to who sees it done.
        Seen(self.0.load(Ordering::Acquire))
    }

    /// From `seen` -> `Runs`, by the thread whose core is at `place`.
    #[inline]
    #[must_use]
    pub(super) fn try_run(&self, seen: Seen, place: usize) -> bool {
        let runs = place | Phase::Runs as usize | seen.0 & WAITERS;
        // Acquire: pairs with the `end` of a closure that has failed. Relaxed on failure: the caller looks again.
        self.0.compare_exchange(seen.0, runs, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `Runs` -> `phase`, by the thread that runs it; whether anybody waits.
    #[inline]
    #[must_use]
    pub(super) fn end(&self, phase: Phase) -> bool {
        // Release: pairs with `look` and `try_run`.
        self.0.swap(phase as usize, Ordering::Release) & WAITERS != 0
    }

    /// With the bucket lock held: says that somebody waits, if `waits` says so of the phase.
    #[must_use]
    pub(super) fn announce(&self, waits: impl Fn(Phase) -> bool) -> bool {
        // Relaxed, here and below: who is not queued looks again, and the bucket lock orders the bit for those who act on it.
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
