//! Regions that announced blocking (`thread::blocking`): does the slot go at once, or is the thread back before that pays?
//!
//! **The problem.** To give a slot away and to get another costs some 40 us, with two wake-ups; a `read` that finds something takes 0.3. But
//! who waits for a slot may be the one that ends the region, so it must not be kept for long.
//!
//! **Rejected.** *Always at once*: calls that return at once are sixteen times slower than if nothing is said. *Never, as for
//! those that say nothing*: the monitor may nap for 10 ms. *To read the clock at both ends of each region*: 40 ns.
//!
//! **Protocol.** A thread whose last [`PROOF`] regions were short marks its slot as BRIEF (`lwp::slot`), and that is all; if it is back in
//! time, it takes the mark off again. The monitor looks at such marks, and turns one that has lasted for [`SHORT`] into what the others
//! announce: a slot that anybody with work may take. Any other thread announces that from the start; if somebody waits, the slot
//! moves before the thread goes on. Those regions are measured. One that has lasted ends the trust.
//!
//! **Who waits does not wait for long.** While somebody waits and a slot is BRIEF, the monitor does not doze (`monitor::watch`). Who marks a slot and who
//! queues a thread see to it: each does so first, then a fence, and then looks for the other's doing and at the monitor.

use std::cell::Cell;

use super::green::Green;
use super::lwp::Lwp;
use super::lwp::slot::Region;
use super::sched::Scheduler;
use super::timer::NEVER;
use crate::shim::atomic::Ordering;

/// A region of so many ns is short: to move the slot would take about as long.
pub(crate) const SHORT: u64 = 50_000;
/// So many short regions on end, and the next is believed to be short. One that is not may keep a slot from others for 0.4 ms, ten
/// times what one that is has saved.
const PROOF: u32 = 4;

/// What is known of a thread's regions. Its own.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// How many were short, on end.
    short: Cell<u32>,
    /// When the one that it is in began, by the runtime's clock; `None`: its slot was BRIEF then.
    since: Cell<Option<u64>>,
}

impl Record {
    /// The thread is another.
    pub(super) fn begin(&self) {
        self.short.set(0);
    }

    fn is_trusted(&self) -> bool {
        self.short.get() >= PROOF
    }

    fn learn(&self, short: bool) {
        self.short.set(if short { self.short.get().saturating_add(1) } else { 0 });
    }
}

/// Whether a thread was in a region when it went to sleep itself.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct Suspended(bool);

impl Scheduler {
    /// `green` is about to do something that may block its LWP.
    pub(super) fn announce(&'static self, green: &'static Green) {
        let lwp = Self::lwp_of(green);
        if !(green.regions.is_trusted() && self.announce_brief(green, lwp)) {
            self.announce_long(green, lwp);
        }
    }

    /// `false`: the slot is gone already.
    fn announce_brief(&self, green: &Green, lwp: &Lwp) -> bool {
        // Relaxed: `notice_region` orders it.
        self.life.brief.fetch_add(1, Ordering::Relaxed);
        if !lwp.slot.enter_brief() {
            self.life.brief.fetch_sub(1, Ordering::Relaxed);
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
        // Relaxed: a hint for wakers, who miss it at worst until the monitor's next round.
        self.life.open.fetch_add(1, Ordering::Relaxed);
        if !lwp.slot.enter_blocking() {
            self.life.open.fetch_sub(1, Ordering::Relaxed);
        } else if lwp.has_queued() || lwp.timers.next() != NEVER || self.has_shared() {
            if self.idle.look().sleeping > 0 {
                self.wake_searcher();
            } else {
                self.give_slot_away(lwp);
            }
        }
        // What moving the slot took is not the region's.
        green.regions.since.set(Some(self.clock.now()));
    }

    /// The end of `announce`. `false`: the slot was given away.
    pub(super) fn retract(&'static self, green: &'static Green) -> bool {
        let (lwp, regions) = (Self::lwp_of(green), &green.regions);
        let (short, kept) = match regions.since.get() {
            Some(since) => (self.clock.now().saturating_sub(since) < SHORT, self.end_region(lwp)),
            None if lwp.slot.exit_brief() => {
                self.life.brief.fetch_sub(1, Ordering::Relaxed);
                return true;
            }
            None => (false, self.end_region(lwp)),
        };
        regions.learn(short);
        kept
    }

    /// A thread in a region sleeps or yields after all: the LWP needs its slot back, or goes without.
    #[inline]
    pub(super) fn suspend_region(&'static self, green: &'static Green) -> Suspended {
        let inside = green.blocking.get() > 0;
        if inside {
            // Lost or not: the next dispatch looks at the slot.
            let _ = self.retract(green);
        }
        Suspended(inside)
    }

    #[inline]
    pub(super) fn resume_region(&'static self, green: &'static Green, region: Suspended) {
        if region.0 {
            self.announce(green);
        }
    }

    /// Monitor: this region has lasted. `false`: it is over.
    pub(super) fn outstay(&self, lwp: &Lwp, region: Region) -> bool {
        // It counts as one kind or the other, whoever looks. Relaxed, all: as where they are counted.
        self.life.open.fetch_add(1, Ordering::Relaxed);
        let lasts = lwp.slot.outstay(region);
        let over = if lasts { &self.life.brief } else { &self.life.open };
        over.fetch_sub(1, Ordering::Relaxed);
        lasts
    }

    /// Monitor: whether somebody waits while a slot is BRIEF.
    pub(super) fn must_look_soon(&self) -> bool {
        // Relaxed: the monitor's fence orders it.
        self.life.brief.load(Ordering::Relaxed) > 0
            && (self.has_shared() || self.pool.lwps().any(Lwp::has_stealable))
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_region.rs"]
mod loom_region;
