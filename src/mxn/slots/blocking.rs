//! Regions that announced blocking (`thread::blocking`): does the slot go at once, or is the thread back
//! before that pays?
//!
//! **The problem.** To give a slot away and to get another costs some 40 us, with two wake-ups. A `read` that
//! finds something takes 0.3. But the thread that ends the region may be one that waits for a slot, so the
//! slot must not be kept for long.
//!
//! **Rejected.**
//!
//! - *Always at once*: calls that return at once are sixteen times slower than without the announcement.
//! - *Never, as for threads that announce nothing*: the monitor may nap for 10 ms.
//! - *To read the clock at both ends of each region*: 40 ns.
//!
//! **Protocol.** If a thread's last [`PROOF`] regions were short, it only marks its slot as BRIEF
//! (`slots::slot`). If it is back in time, it takes the mark off again. The monitor looks at such marks. One
//! that has lasted for [`SHORT`] becomes what other threads announce from the start: a slot that any thread
//! with work may take. If a thread waits when that is announced, the slot moves before the region begins.
//! Those regions are measured. One that has lasted ends the trust.
//!
//! **No thread waits for long.** While a thread waits and a slot is BRIEF, the monitor does not doze
//! (`monitor::sleep`). The thread that marks a slot and the one that queues a thread ensure that. Each does
//! so first, then does a fence, and then looks for what the other has done, and at the monitor.

mod regions;

use std::cell::Cell;

/// A region of so many ns is short. To move the slot would take about as long.
pub(crate) const SHORT: u64 = 50_000;
/// After this many short regions on end, the next is believed to be short. One that is not may keep a slot
/// from others for 0.4 ms. That is ten times what a short one has saved.
const PROOF: u32 = 4;

/// What is known of a thread's regions. The thread's own.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// How many were short, on end.
    short: Cell<u32>,
    /// When the current region began, by the runtime's clock; `None`: its slot was BRIEF then.
    since: Cell<Option<u64>>,
}

impl Record {
    /// Begins the record of another thread.
    pub(in crate::mxn) fn begin(&self) {
        self.short.set(0);
    }

    fn is_trusted(&self) -> bool {
        self.short.get() >= PROOF
    }

    fn learn(&self, short: bool) {
        self.short.set(if short { self.short.get().saturating_add(1) } else { 0 });
    }
}

#[cfg(all(test, loom))]
mod loom_blocking;

#[cfg(test)]
mod tests;
