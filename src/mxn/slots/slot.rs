//! The slot word: an LWP has the right to run green threads.
//!
//! There are `concurrency` slots, whatever the number of LWPs. `mxn::slots::concurrency` makes and retires
//! them. A slot is not a thing but a state of this word, so "one slot, one holder" cannot go wrong. A slot
//! moves by one compare-and-swap on the loser's word. The winner has it in hand ([`InHand`]) until it gives
//! it to another LWP. How many words say what is counted as they change ([`SlotCounts`]).
//!
//! Each state, and the transitions out of it:
//!
//! - NONE: no right. The LWP sleeps among the spares, or is about to notice the loss and go there.
//!   - `give` -> HELD: by the holder of an `InHand`, which took the LWP off the spare list, or starts it.
//! - HELD: it runs green threads, or sleeps idle.
//!   - `enter_blocking` -> BLOCKING, `enter_brief` -> BRIEF: by the owner.
//!   - `rest_held` -> RESTING: by the monitor.
//!   - `retake` -> NONE: by the monitor, if the LWP sleeps in the kernel, or its thread does not leave.
//!   - `retake` -> NONE: by the owner, if its slot was lent, or its kernel thread ends.
//!   - `retake` -> NONE: by a thread that lowers `concurrency`, if there is one slot too many.
//! - BLOCKING: it announced that it may block.
//!   - `exit_blocking` -> HELD: by the owner.
//!   - `rest_announced` -> RESTING: by the monitor.
//!   - `retake` -> NONE: by any thread that has work for the slot, or lowers `concurrency`.
//! - RESTING: it has slept in the kernel for long (`mxn::slots::rest`).
//!   - `end_rest` -> HELD: by the owner.
//!   - `retake` -> NONE: by any thread that has work for the slot, or lowers `concurrency`.
//! - BRIEF, with a number: as BLOCKING, but it expects to be back soon.
//!   - `exit_brief` -> HELD: by the owner.
//!   - `outstay` -> BLOCKING: by the monitor, if this very region has lasted.
//!
//! The number tells one brief region from the next. The monitor may have looked at an earlier region, which
//! is over.
//!
//! | `InHand` | from | to |
//! |---|---|---|
//! | made | `first_of_its_life`, counted before; `beyond_concurrency`, counted as lent | `give` |
//! | retaken | `retake_*`, by one compare-and-swap | `give`; `retire`, counted after |
//!
//! So the words that are not NONE and the slots in hand are together never more than are counted. While no
//! thread is in between, they are as many. A thread that lowers the number may find too few words to take
//! from while slots are in hand. It looks again later.
//!
//! An LWP that lost its slot while it ran keeps running its thread until the next dispatch, where it looks at
//! the word. For that time one thread more than `concurrency` runs, which is harmless. Its run queue stays
//! its own, and stays stealable (I6).

use crate::mxn::counter::Counter;
use crate::shim::atomic::{AtomicU32, Ordering};

const NONE: u32 = 0;
const HELD: u32 = 1;
const BLOCKING: u32 = 2;
/// The number stands above these bits.
const BRIEF: u32 = 3;
const ONE_REGION: u32 = 4;
/// Its low bits differ from those of BRIEF.
const RESTING: u32 = 4;

/// The right of one LWP to run green threads. See the file's header.
#[derive(Debug)]
pub(crate) struct SlotWord {
    word: AtomicU32,
    /// What the word said, or will have said, in the last brief region. The owner's.
    region: AtomicU32,
}

/// A brief region of one LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region(u32);

/// A slot that was taken from one LWP and not yet given to another. Losing it would cost the runtime a CPU.
#[derive(Debug)]
#[must_use = "a slot in hand must be given to an LWP"]
pub(crate) struct InHand(());

impl InHand {
    /// Makes a slot that no LWP has had yet. `concurrency` of them are made when a runtime starts, and more
    /// when that grows.
    pub(crate) fn first_of_its_life() -> Self {
        Self(())
    }

    /// Makes a slot that is lent on top of the others, until an LWP runs dry and retires it.
    pub(crate) fn beyond_concurrency() -> Self {
        Self(())
    }

    /// Ends a slot's life: there is one less.
    pub(crate) fn retire(self) {
        let Self(()) = self;
    }
}

impl SlotWord {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(NONE), region: AtomicU32::new(BRIEF) }
    }

    /// Returns `true` if the LWP may go on dispatching. The owner's fast path: one load.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        // Relaxed: the loss is noticed at the next dispatch. A futex wake follows a `give`, and synchronises.
        self.word.load(Ordering::Relaxed) == HELD
    }

    /// Returns `true` if the LWP has no right to run green threads.
    pub(crate) fn is_none(&self) -> bool {
        self.word.load(Ordering::Relaxed) == NONE
    }

    /// Returns `true` if the LWP announced that it may block, still has its slot, and leaves it to any thread
    /// with work.
    pub(crate) fn is_blocking(&self) -> bool {
        self.word.load(Ordering::Relaxed) == BLOCKING
    }

    /// Returns `true` if the LWP still has its slot, but any thread with work may take it. The LWP has
    /// announced blocking, or is at rest.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.word.load(Ordering::Relaxed), BLOCKING | RESTING)
    }

    /// Returns `true` if the LWP has slept for so long that it counts as asleep.
    pub(crate) fn is_resting(&self) -> bool {
        self.word.load(Ordering::Relaxed) == RESTING
    }

    /// Returns the brief region that the LWP is in, if it is in one.
    pub(crate) fn region(&self) -> Option<Region> {
        // Relaxed: a look; `outstay` decides.
        let word = self.word.load(Ordering::Relaxed);
        (word % ONE_REGION == BRIEF).then_some(Region(word))
    }

    /// Gives a slot to an LWP that has none. The caller took it off the spare list, or starts it.
    pub(crate) fn give(&self, slot: InHand) {
        let InHand(()) = slot;
        // Release: pairs with the acquire with which the spare waits, so it sees what the giver saw.
        let old = self.word.swap(HELD, Ordering::AcqRel);
        debug_assert_eq!(old, NONE, "a slot was given to an LWP that has one");
    }

    /// Marks that the LWP may block from here on. Owner only. Returns `false` if the slot is gone already.
    #[must_use]
    fn enter_blocking(&self) -> bool {
        // Release: what the thread did is visible to the thread that retakes the slot and runs others.
        self.word.compare_exchange(HELD, BLOCKING, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Marks that the blocking is over. Owner only. Returns `false` if the slot was retaken.
    #[must_use]
    fn exit_blocking(&self) -> bool {
        // Acquire: pairs with the release of the threads that may have retaken and given it.
        self.word.compare_exchange(BLOCKING, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Marks that the LWP may block from here on, but not for long. Owner only. Returns `false` if the slot
    /// is gone already.
    #[must_use]
    fn enter_brief(&self) -> bool {
        // Relaxed, both: only the owner uses it.
        let region = self.region.load(Ordering::Relaxed).wrapping_add(ONE_REGION);
        self.region.store(region, Ordering::Relaxed);
        // Release: as in `enter_blocking`.
        self.word.compare_exchange(HELD, region, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Marks that the brief region is over. Owner only. Returns `false` if it had lasted, and the monitor has
    /// made it BLOCKING.
    #[must_use]
    fn exit_brief(&self) -> bool {
        // Relaxed: only the owner uses it.
        let region = self.region.load(Ordering::Relaxed);
        // Relaxed, both: only the monitor may have touched the word, and it has brought nothing along.
        self.word.compare_exchange(region, HELD, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Turns a brief region that has lasted into a usual one. Monitor only. Returns `false` if the region is
    /// over.
    #[must_use]
    fn outstay(&self, region: Region) -> bool {
        // Relaxed: the thread that retakes the slot pairs with `enter_brief`, and its release goes on through
        // this read-modify-write.
        self.word.compare_exchange(region.0, BLOCKING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Marks that an LWP that did not announce blocking has slept for long. Monitor only. Returns `false` if
    /// its slot is not held at this moment.
    #[must_use]
    fn rest_held(&self) -> bool {
        // Relaxed: for a thread that retakes the slot, this is like retaking a held slot. What the LWP has
        // done reaches it in the same way.
        self.word.compare_exchange(HELD, RESTING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Marks that an LWP that announced blocking has slept for long. Monitor only. Returns `false` if that
    /// region is over.
    #[must_use]
    fn rest_announced(&self) -> bool {
        // Relaxed: as in `outstay`.
        self.word.compare_exchange(BLOCKING, RESTING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends the LWP's rest, because it runs again. Owner only. Returns `false` if it did not rest, or its
    /// slot was retaken.
    #[must_use]
    pub(super) fn end_rest(&self) -> bool {
        // Acquire: as in `exit_blocking`.
        self.word.compare_exchange(RESTING, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot of an LWP at rest.
    #[must_use]
    fn retake_resting(&self) -> Option<InHand> {
        self.take_from(RESTING)
    }

    /// Takes the slot of an LWP that announced blocking.
    #[must_use]
    fn retake_announced(&self) -> Option<InHand> {
        self.take_from(BLOCKING)
    }

    /// Takes the slot of an LWP that holds it. Called by the monitor if the LWP sleeps in the kernel, or its
    /// thread does not leave, with work waiting. Also called by a thread that lowers `concurrency`, and by
    /// the owner.
    #[must_use]
    pub(crate) fn retake_unannounced(&self) -> Option<InHand> {
        self.take_from(HELD)
    }

    fn take_from(&self, state: u32) -> Option<InHand> {
        // AcqRel: the winner continues what the loser had. The compare-and-swap makes one winner.
        self.word
            .compare_exchange(state, NONE, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(InHand(()))
    }
}

/// How many slots of one runtime are in a state in which other threads look for them.
///
/// A count is raised before the slot word changes, and lowered afterwards by the thread that has changed it.
/// So a count is never less than the number of such slots. The transitions here do both in that order.
///
/// All accesses are relaxed. The counts are figures and hints, and fences order them where that matters
/// (`monitor::sleep`, `sched::idle`).
#[derive(Debug, Default)]
pub(crate) struct SlotCounts {
    /// Slots that any thread with work may take: of LWPs at rest, and of LWPs that announced blocking, but
    /// not briefly.
    open: AtomicU32,
    /// Those of LWPs at rest.
    resting: AtomicU32,
    /// Slots of LWPs in brief regions.
    brief: AtomicU32,
    /// `Pinned`: slots beyond `concurrency`, given back by LWPs that run dry.
    lent: AtomicU32,
}

/// How often slots have moved, and why.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Their holder slept in the kernel.
    pub(crate) compensated: Counter,
    /// Their holder computed on and would not leave.
    pub(crate) handed_off: Counter,
}

impl SlotCounts {
    /// Returns `true` if a slot may be taken, or perhaps a moment later.
    pub(crate) fn is_any_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0 || self.is_any_brief()
    }

    /// Returns `true` if an LWP is in a brief region.
    pub(crate) fn is_any_brief(&self) -> bool {
        self.brief.load(Ordering::Relaxed) > 0
    }

    /// Returns how many LWPs are at rest.
    pub(crate) fn resting(&self) -> u32 {
        self.resting.load(Ordering::Relaxed)
    }

    /// Returns how many slots are lent.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Opens the slot of an LWP that may block from here on. Owner only. Returns `false` if it is gone.
    pub(crate) fn enter_blocking(&self, slot: &SlotWord) -> bool {
        raise(&self.open, || slot.enter_blocking())
    }

    /// Ends the blocking. Owner only. Returns `false` if the slot was taken, or rests.
    pub(crate) fn exit_blocking(&self, slot: &SlotWord) -> bool {
        lower(&self.open, slot.exit_blocking())
    }

    /// Marks that an LWP may block from here on, but not for long. Owner only. Returns `false` if its slot is
    /// gone.
    pub(crate) fn enter_brief(&self, slot: &SlotWord) -> bool {
        raise(&self.brief, || slot.enter_brief())
    }

    /// Ends the brief region. Owner only. Returns `false` if it had lasted.
    pub(crate) fn exit_brief(&self, slot: &SlotWord) -> bool {
        lower(&self.brief, slot.exit_brief())
    }

    /// Opens the slot of an LWP after its brief region has lasted too long. Monitor only. Returns `false` if
    /// that region is over.
    pub(crate) fn outstay(&self, slot: &SlotWord, region: Region) -> bool {
        // It counts as one kind or the other at every moment.
        lower(&self.brief, raise(&self.open, || slot.outstay(region)))
    }

    /// Opens the held slot of an LWP that has slept for long. Monitor only. Returns `false` if it is not
    /// held.
    pub(crate) fn rest_held(&self, slot: &SlotWord) -> bool {
        raise(&self.resting, || raise(&self.open, || slot.rest_held()))
    }

    /// Puts the slot of an LWP that announced blocking to rest. Monitor only. Returns `false` if that region
    /// is over.
    pub(crate) fn rest_announced(&self, slot: &SlotWord) -> bool {
        raise(&self.resting, || slot.rest_announced())
    }

    /// Ends the rest of an LWP. Owner only. Returns `false` if it does not rest.
    pub(crate) fn end_rest(&self, slot: &SlotWord) -> bool {
        lower(&self.open, lower(&self.resting, slot.end_rest()))
    }

    /// Takes an open slot. The caller gives or retires it. If an LWP runs as a result, the caller also wakes
    /// the monitor.
    pub(crate) fn take_open(&self, slot: &SlotWord) -> Option<InHand> {
        let taken = slot.retake_announced().or_else(|| {
            let taken = slot.retake_resting();
            lower(&self.resting, taken.is_some());
            taken
        });
        lower(&self.open, taken.is_some());
        taken
    }

    /// Counts a rest off without its word, for a model of what may not be done.
    #[cfg(all(test, loom))]
    pub(crate) fn count_rest_off(&self) {
        lower(&self.open, lower(&self.resting, true));
    }

    /// Lends a slot beyond `concurrency`.
    pub(crate) fn lend(&self) -> InHand {
        self.lent.fetch_add(1, Ordering::Relaxed);
        InHand::beyond_concurrency()
    }

    /// Ends a slot for one that was lent. Gives it back in `Err` if none is lent any more.
    pub(crate) fn return_loan(&self, slot: InHand) -> Result<(), InHand> {
        if self.lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lent| lent.checked_sub(1)).is_err() {
            return Err(slot);
        }
        slot.retire();
        Ok(())
    }
}

/// Counts one more, and takes that back if `change` fails.
fn raise(count: &AtomicU32, change: impl FnOnce() -> bool) -> bool {
    count.fetch_add(1, Ordering::Relaxed);
    let changed = change();
    if !changed {
        count.fetch_sub(1, Ordering::Relaxed);
    }
    changed
}

/// Counts one less if the word `changed`.
fn lower(count: &AtomicU32, changed: bool) -> bool {
    if changed {
        count.fetch_sub(1, Ordering::Relaxed);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_may_be_taken_if_one_is_open_or_in_a_brief_region() {
        let is_any_open = |(open, brief)| {
            let (open, brief) = (AtomicU32::new(open), AtomicU32::new(brief));
            SlotCounts { open, brief, ..SlotCounts::default() }.is_any_open()
        };
        assert_eq!([(0, 0), (1, 0), (0, 1), (1, 1)].map(is_any_open), [false, true, true, true]);
    }
}

#[cfg(all(test, loom))]
mod loom_slot;
