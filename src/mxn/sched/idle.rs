//! How LWPs sleep and search, and when a thread that makes another runnable must wake an LWP.
//!
//! A wake-up of a sleeping LWP costs its waker 12 us and itself 30, which is a hundred hand-offs. So wakers
//! are reluctant (`sched::wake` has the rules). This file only ensures that nothing gets lost all the same.
//!
//! To sleep, an LWP does this:
//!
//! 1. It counts itself, and enters the set of sleepers (`enter`).
//! 2. It passes a fence.
//! 3. It looks at every queue once more. If it finds a thread, it leaves the set (`leave`) and takes that.
//! 4. It sleeps on its own futex word until it is out of the set.
//!
//! To make a thread runnable that no LWP is sure to look at soon (`wake_one`), a waker does this:
//!
//! 1. It puts the thread on a queue.
//! 2. It passes a fence.
//! 3. If an LWP searches, that LWP will see the thread: before it sleeps, it looks at all queues once more (1
//!    to 3 above). Otherwise, if an LWP sleeps, the waker takes it out of the set, counts it as a searcher,
//!    and wakes it.
//!
//! Proof. If the sleeper's fence comes first, the waker's step 3 sees that the sleeper is counted, and finds
//! it in the set. If the waker's comes first, the sleeper's step 3 sees the thread. Both fences are SeqCst.
//! Without either, both steps can miss, as the negative models show.
//!
//! An LWP counts itself before it enters, and is counted off after it was taken out. So the number of
//! sleepers is never less than the set has. A waker that finds fewer in the set than are counted has met one
//! on its way in or out. The one on its way in looks at all queues after that.
//!
//! A searcher that finds one thread does not sleep, and may run that one forever. So the last to search looks
//! at the injection queue when it stops, after a fence of its own (`end_search`). Either it sees what a waker
//! left to it, or that waker's step 3 sees that no LWP searches.
//!
//! Pushing to one's own ring has no fence. A ring's owner is awake, and while any LWP is awake, the napping
//! sleeper or the monitor watches. So what the owner leaves lying is found by its age.

use crate::mxn::lwp_set::LwpSet;
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Counts of sleeping and searching LWPs in one word, so a waker reads both at once.
///
/// | bits | count of |
/// |---|---|
/// | 0..16 | LWPs in the set of sleepers, or on their way in or out |
/// | 16..32 | LWPs that search: they have found no work yet, or were woken to look |
#[derive(Debug)]
struct Counts(AtomicU32);

const SLEEPING: u32 = 1;
const SEARCHING: u32 = 1 << 16;

/// The sleepers of a runtime, and the counts beside them.
#[derive(Debug)]
pub(crate) struct Idle {
    counts: Counts,
    /// LWPs that sleep.
    sleepers: LwpSet,
    /// The last to come: it is the first to be woken, because its caches are warm. A hint.
    last: AtomicU32,
    /// A sleeper naps, to look at what the others leave lying.
    watched: AtomicBool,
    /// Before this time (of the runtime's clock), to wake a sleeper for a thread pushed out of a next-slot
    /// does not pay.
    quiet_until: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) sleeping: u32,
    pub(crate) searching: u32,
}

impl Idle {
    /// Makes the set for at most `lwps` LWPs. Allocates here and nowhere else (I4).
    pub(crate) fn new(lwps: usize) -> Self {
        Self {
            counts: Counts(AtomicU32::new(0)),
            sleepers: LwpSet::new(lwps),
            last: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            quiet_until: AtomicU64::new(0),
        }
    }

    /// Returns the counts without any order, for hints.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        let counts = self.counts.0.load(Ordering::Relaxed);
        Look { sleeping: counts % SEARCHING, searching: counts / SEARCHING }
    }

    /// Counts the caller as a searcher, unless half of the LWPs that are awake search already.
    #[must_use]
    pub(crate) fn begin_search(&self, slots: u32) -> bool {
        let look = self.look();
        let awake = slots.saturating_sub(look.sleeping);
        if 2 * look.searching >= awake.max(1) {
            return false;
        }
        // Relaxed: fences elsewhere (SeqCst) order it.
        self.counts.0.fetch_add(SEARCHING, Ordering::Relaxed);
        true
    }

    /// Ends the caller's search, because it found something. Returns `true` if it was the last searcher. Then
    /// the caller looks once more, and wakes another LWP if there is more.
    pub(crate) fn end_search(&self) -> bool {
        if self.counts.0.fetch_sub(SEARCHING, Ordering::Relaxed) / SEARCHING != 1 {
            return false;
        }
        // Pairs with the fence of `wake_one`. If a waker left a thread to this searcher, the caller's next
        // look sees it.
        fence(Ordering::SeqCst);
        true
    }

    /// Enters the set of sleepers. The caller must look at all queues after this, and `leave` if it finds
    /// anything.
    pub(crate) fn enter(&self, lwp: u32, searched: bool) {
        let change = if searched { SLEEPING.wrapping_sub(SEARCHING) } else { SLEEPING };
        // Release: a thread that finds this LWP asleep sees what it has counted before
        // (`rest::may_sleep_deeply`).
        self.counts.0.fetch_add(change, Ordering::Release);
        // Relaxed: a hint.
        self.last.store(lwp, Ordering::Relaxed);
        // It is new there, with one exception. At the end of the runtime, all are woken where they lie, and
        // an LWP may begin another life in which it sees the end.
        self.sleepers.insert(lwp);
        // Pairs with the fence of `wake_one`: see the proof.
        fence(Ordering::SeqCst);
    }

    /// Takes an LWP out of the set, as a searcher. Returns `false` if another thread took it out before. That
    /// thread has counted it as a searcher, and its wake-up is on the way.
    #[must_use]
    pub(crate) fn leave(&self, lwp: u32) -> bool {
        let left = self.sleepers.remove(lwp);
        if left {
            self.count_as_searcher();
        }
        left
    }

    /// Returns the LWP that the caller must wake, if any, after it put a thread where no LWP is sure to look
    /// soon. That LWP counts as a searcher already. One of those that are `near` goes before the others.
    #[must_use]
    pub(crate) fn wake_one(&self, near: Option<&LwpSet>) -> Option<u32> {
        // Pairs with the fence of `enter`: see the proof.
        fence(Ordering::SeqCst);
        let look = self.look();
        if look.sleeping == 0 || look.searching > 0 {
            return None;
        }
        self.take_sleeper(near)
    }

    /// Takes a sleeper out of the set, even if another LWP searches: one of those that are `near`, if it can.
    #[must_use]
    pub(crate) fn take_sleeper(&self, near: Option<&LwpSet>) -> Option<u32> {
        // Relaxed: a hint.
        let taken = self.sleepers.take(self.last.load(Ordering::Relaxed), near);
        taken.inspect(|_| self.count_as_searcher())
    }

    /// Counts an LWP that was taken out of the set.
    fn count_as_searcher(&self) {
        // Relaxed: the fences of `wake_one`, `enter` and `end_search` order it.
        self.counts.0.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::Relaxed);
    }

    /// Takes the role of the watcher, which naps. Returns `false` if another LWP has it. Undone by `unwatch`.
    #[must_use]
    pub(crate) fn watch(&self) -> bool {
        // Relaxed: a role, not data. Two watchers or none for a moment do no harm, because the monitor looks
        // too.
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Gives the role of the watcher back.
    pub(crate) fn unwatch(&self) {
        self.watched.store(false, Ordering::Relaxed);
    }

    /// Returns `true` if an LWP naps and looks.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Returns the time before which waking a sleeper for little does not pay.
    #[inline]
    pub(crate) fn quiet_until(&self) -> u64 {
        self.quiet_until.load(Ordering::Relaxed)
    }

    /// Tells wakers until when to leave the caller alone. The caller is a sleeper, and its steals did not
    /// pay.
    pub(crate) fn be_quiet_until(&self, at: u64) {
        self.quiet_until.store(at, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Idle {
    pub(crate) fn sleepers(&self) -> &LwpSet {
        &self.sleepers
    }
}

#[cfg(all(test, loom))]
mod loom_idle;
