//! Who sleeps, who searches, and who must wake whom.
//!
//! A wake-up of a sleeping LWP costs its waker 12 us and itself 30, a hundred hand-offs; so wakers are reluctant
//! (`sched::wake` has the rules), and what is said here is only how nothing gets lost all the same.
//!
//! Sleeping, by the LWP:
//!
//! 1. enter the list of sleepers and count itself, under the lock (`enter`)
//! 2. fence
//! 3. look at every queue once more; found something: `leave`, and take it
//! 4. sleep on its own futex word until it is off the list
//!
//! Making a thread runnable that no LWP is sure to look at soon (`wake_one`):
//!
//! 1. put the thread on a queue
//! 2. fence
//! 3. somebody searches: he will see it, since a searcher looks at all queues once more before he sleeps (1 to 3).
//!    Else somebody sleeps: take him off the list, count him as a searcher, and wake him
//!
//! Proof. Either the sleeper's fence comes first, and then the waker's step 3 sees the sleeper counted; or the waker's
//! comes first, and then the sleeper's step 3 sees the thread. (SeqCst fences on both sides; without either one both can
//! miss, which is what the negative models show.)
//!
//! A searcher that finds one thread does not sleep, and may run that one for ever. So the last to search looks at the
//! injection queue when it stops, after a fence of its own (`end_search`): either it sees what a waker left to it, or that
//! waker's step 3 sees that nobody searches any more.
//!
//! Pushing to one's own ring has no fence: a ring's owner is awake, and while any LWP is awake somebody watches (the
//! napping sleeper, or the monitor), so what its owner leaves lying is found by its age.

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Counts of sleeping and searching LWPs in one word, so that a waker reads both at once.
///
/// | bits | count of |
/// |---|---|
/// | 0..16 | LWPs on the list of sleepers |
/// | 16..32 | LWPs that search: looked for work and found none yet, or were woken to look |
#[derive(Debug)]
struct Counts(AtomicU32);

const SLEEPING: u32 = 1;
const SEARCHING: u32 = 1 << 16;

/// The list of sleepers of a runtime, and the counts beside it.
#[derive(Debug)]
pub(crate) struct Idle {
    counts: Counts,
    /// LWPs that sleep, by number; the last to come is the first to be woken (its caches are warm).
    sleepers: QueueLock<Vec<u32>>,
    /// Whether a sleeper naps, to look at what the others leave lying.
    watched: AtomicBool,
    /// Before this time (of the runtime's clock) it does not pay to wake a sleeper for what was pushed out of a next-slot.
    quiet_until: AtomicU64,
}

/// What a moment's look at the counts says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) sleeping: u32,
    pub(crate) searching: u32,
}

impl Idle {
    /// For at most `lwps` LWPs; allocates here, and nowhere else (I4).
    pub(crate) fn new(lwps: usize) -> Self {
        Self {
            counts: Counts(AtomicU32::new(0)),
            sleepers: QueueLock::new(Rank::Scheduler, Vec::with_capacity(lwps)),
            watched: AtomicBool::new(false),
            quiet_until: AtomicU64::new(0),
        }
    }

    /// The counts, without any order: for hints.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        let counts = self.counts.0.load(Ordering::Relaxed);
        Look { sleeping: counts % SEARCHING, searching: counts / SEARCHING }
    }

    /// Counts the caller as a searcher, unless half of the `awake` LWPs search already.
    #[must_use]
    pub(crate) fn begin_search(&self, slots: u32) -> bool {
        let look = self.look();
        let awake = slots.saturating_sub(look.sleeping);
        if 2 * look.searching >= awake.max(1) {
            return false;
        }
        // SeqCst fences elsewhere order it; the count itself needs nothing.
        self.counts.0.fetch_add(SEARCHING, Ordering::Relaxed);
        true
    }

    /// The caller searches no more, because it found something. True if it was the last: what else there is may need
    /// another, so the caller looks once more, and wakes one.
    pub(crate) fn end_search(&self) -> bool {
        if self.counts.0.fetch_sub(SEARCHING, Ordering::Relaxed) / SEARCHING != 1 {
            return false;
        }
        // Pairs with the fence of `wake_one`: who left a thread to us, because we searched, is seen by our next look.
        fence(Ordering::SeqCst);
        true
    }

    /// Enters the list of sleepers. The caller must look at all queues after this, and `leave` if it finds anything.
    pub(crate) fn enter(&self, lwp: u32, searched: bool) {
        self.sleepers.with(|sleepers| {
            sleepers.push(lwp);
            let change = if searched { SLEEPING.wrapping_sub(SEARCHING) } else { SLEEPING };
            // Release: a thread that finds this LWP asleep sees what it has counted before
            // (`rest::may_sleep_deeply`).
            self.counts.0.fetch_add(change, Ordering::Release);
        });
        // Pairs with the fence of `wake_one`: see the proof.
        fence(Ordering::SeqCst);
    }

    /// Leaves the list, as a searcher. `false`: somebody took the caller off it before, counted it as a searcher, and its
    /// wake-up is on the way.
    #[must_use]
    pub(crate) fn leave(&self, lwp: u32) -> bool {
        self.sleepers.with(|sleepers| {
            let Some(at) = sleepers.iter().rposition(|&s| s == lwp) else { return false };
            sleepers.remove(at);
            self.counts.0.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::Relaxed);
            true
        })
    }

    /// After a thread was put where no LWP is sure to look soon: the LWP that the caller must wake, if any. It counts as
    /// a searcher already.
    #[must_use]
    pub(crate) fn wake_one(&self) -> Option<u32> {
        // Pairs with the fence of `enter`: see the proof.
        fence(Ordering::SeqCst);
        let look = self.look();
        if look.sleeping == 0 || look.searching > 0 {
            return None;
        }
        self.take_sleeper()
    }

    /// Takes a sleeper off the list, whoever searches.
    #[must_use]
    pub(crate) fn take_sleeper(&self) -> Option<u32> {
        self.sleepers.with(|sleepers| {
            let lwp = sleepers.pop()?;
            self.counts.0.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::Relaxed);
            Some(lwp)
        })
    }

    /// The caller would nap and watch: true if nobody does yet. Undone by `unwatch`.
    #[must_use]
    pub(crate) fn watch(&self) -> bool {
        // Relaxed: a role, not data; two watchers or none for a moment do no harm (the monitor looks too).
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// The watcher naps no more.
    pub(crate) fn unwatch(&self) {
        self.watched.store(false, Ordering::Relaxed);
    }

    /// Whether somebody naps and looks.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// The time before which waking a sleeper for little does not pay.
    #[inline]
    pub(crate) fn quiet_until(&self) -> u64 {
        self.quiet_until.load(Ordering::Relaxed)
    }

    /// A sleeper whose steals did not pay says until when to leave it alone.
    pub(crate) fn be_quiet_until(&self, at: u64) {
        self.quiet_until.store(at, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_idle.rs"]
mod loom_idle;
