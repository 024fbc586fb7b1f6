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

use std::cell::Cell;

use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::timer::NEVER;

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

/// A thread was in a region when it went to sleep itself.
#[derive(Clone, Copy)]
#[must_use]
pub(in crate::mxn) struct Suspended(bool);

impl Scheduler {
    /// Announces that `green` is about to do something that may block its LWP.
    pub(in crate::mxn) fn announce(&'static self, green: &'static Green) {
        let lwp = Self::lwp_of(green);
        if !(green.regions.is_trusted() && self.announce_brief(green, lwp)) {
            self.announce_long(green, lwp);
        }
    }

    /// Marks the slot as BRIEF. Returns `false` if it is gone already.
    fn announce_brief(&self, green: &Green, lwp: &Lwp) -> bool {
        if !self.slots.enter_brief(&lwp.slot) {
            return false;
        }
        green.regions.since.set(None);
        self.watch.notice_region(|| lwp.has_queued() || self.has_shared());
        true
    }

    #[cold]
    fn announce_long(&'static self, green: &Green, lwp: &'static Lwp) {
        if !lwp.slot.is_held() {
            self.end_rest(lwp);
        }
        // If a waker misses it, the monitor's next round sees it.
        let open = self.slots.enter_blocking(&lwp.slot);
        if open && (lwp.has_queued() || lwp.timers.next() != NEVER || self.has_shared()) {
            if self.idle.look().sleeping > 0 {
                self.wake_searcher();
            } else {
                self.give_slot_away(lwp);
            }
        }
        // The time that it took to move the slot is not part of the region.
        green.regions.since.set(Some(self.clock.now()));
    }

    /// Ends what `announce` began. Returns `false` if the slot was given away.
    pub(in crate::mxn) fn retract(&'static self, green: &'static Green) -> bool {
        let (lwp, regions) = (Self::lwp_of(green), &green.regions);
        let (short, kept) = match regions.since.get() {
            Some(since) => (self.clock.now().saturating_sub(since) < SHORT, self.end_region(lwp)),
            None if self.slots.exit_brief(&lwp.slot) => return true,
            None => (false, self.end_region(lwp)),
        };
        regions.learn(short);
        kept
    }

    /// Ends a region for a thread that sleeps or yields after all. The LWP needs its slot back, or goes
    /// without.
    #[inline]
    pub(in crate::mxn) fn suspend_region(&'static self, green: &'static Green) -> Suspended {
        let inside = green.blocking.get() > 0;
        if inside {
            // Lost or not, the next dispatch looks at the slot.
            let _ = self.retract(green);
        }
        Suspended(inside)
    }

    #[inline]
    pub(in crate::mxn) fn resume_region(&'static self, green: &'static Green, region: Suspended) {
        if region.0 {
            self.announce(green);
        }
    }

    /// Returns `true` if a thread waits while a slot is BRIEF. For the monitor.
    pub(in crate::mxn) fn must_look_soon(&self) -> bool {
        self.slots.is_any_brief() && (self.has_shared() || self.pool.lwps().any(Lwp::has_stealable))
    }
}

#[cfg(all(test, loom))]
mod loom_blocking;

#[cfg(test)]
mod tests;
