//! How many slots are open, at rest, in brief regions, and lent; and how often they have moved.
//!
//! A count is raised before the slot word changes, and lowered afterwards by the thread that has changed it.
//! So a count is never less than the number of such slots. The transitions here do both in that order.
//!
//! All accesses are relaxed. The counts are figures and hints, and fences order them where that matters
//! (`monitor::sleep`, `sched::idle`).

use crate::mxn::counter::Counter;
use crate::mxn::slots::slot::{InHand, Region, SlotWord};
use crate::shim::atomic::{AtomicU32, Ordering::Relaxed};

/// How many slots of one runtime are in a state in which other threads look for them.
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
        self.open.load(Relaxed) > 0 || self.is_any_brief()
    }

    /// Returns `true` if an LWP is in a brief region.
    pub(crate) fn is_any_brief(&self) -> bool {
        self.brief.load(Relaxed) > 0
    }

    /// Returns how many LWPs are at rest.
    pub(crate) fn resting(&self) -> u32 {
        self.resting.load(Relaxed)
    }

    /// Returns how many slots are lent.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Relaxed)
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
        self.lent.fetch_add(1, Relaxed);
        InHand::beyond_concurrency()
    }

    /// Ends a slot for one that was lent. Gives it back in `Err` if none is lent any more.
    pub(crate) fn return_loan(&self, slot: InHand) -> Result<(), InHand> {
        if self.lent.fetch_update(Relaxed, Relaxed, |lent| lent.checked_sub(1)).is_err() {
            return Err(slot);
        }
        slot.retire();
        Ok(())
    }
}

/// Counts one more, and takes that back if `change` fails.
fn raise(count: &AtomicU32, change: impl FnOnce() -> bool) -> bool {
    count.fetch_add(1, Relaxed);
    let changed = change();
    if !changed {
        count.fetch_sub(1, Relaxed);
    }
    changed
}

/// Counts one less if the word `changed`.
fn lower(count: &AtomicU32, changed: bool) -> bool {
    if changed {
        count.fetch_sub(1, Relaxed);
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
