//! How a thread of a scheduler enters and leaves a region that announced blocking. The header of `blocking`
//! has the protocol.

use super::SHORT;
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::timer::NEVER;

impl Scheduler {
    /// Announces that `green` is about to do something that may block its LWP.
    pub(in crate::mxn) fn announce(&'static self, green: &'static Green) {
        let lwp = green.lwp();
        if lwp.flags.traces() {
            self.trace_region(lwp, green, true);
        }
        if !(green.regions.is_trusted() && self.announce_brief(green, lwp)) {
            self.announce_long(green, lwp);
        }
    }

    /// Marks the slot as BRIEF. Returns `false` if it is gone already.
    pub(super) fn announce_brief(&self, green: &Green, lwp: &Lwp) -> bool {
        if !self.slots.enter_brief(&lwp.slot) {
            return false;
        }
        green.regions.since.set(None);
        self.watch.notice_region(|| lwp.has_queued() || self.has_shared());
        true
    }

    #[cold]
    pub(super) fn announce_long(&'static self, green: &Green, lwp: &'static Lwp) {
        if !lwp.slot.is_held() {
            self.end_rest(lwp);
        }
        // If a waker misses it, the monitor's next round sees it.
        let open = self.slots.enter_blocking(&lwp.slot);
        if open && (lwp.has_queued() || lwp.timers.next() != NEVER || self.has_shared()) {
            if self.idle.look().sleeping > 0 {
                self.wake_searcher();
            } else {
                self.retake(lwp);
            }
        }
        // The time that it took to move the slot is not part of the region.
        green.regions.since.set(Some(self.clock.now()));
    }

    /// Ends what `announce` began. Returns `false` if the slot was given away.
    pub(in crate::mxn) fn retract(&'static self, green: &'static Green) -> bool {
        let (lwp, regions) = (green.lwp(), &green.regions);
        if lwp.flags.traces() {
            self.trace_region(lwp, green, false);
        }
        let (short, kept) = match regions.since.get() {
            Some(since) => (self.clock.now().saturating_sub(since) < SHORT, self.end_region(lwp)),
            None if self.slots.exit_brief(&lwp.slot) => return true,
            None => (false, self.end_region(lwp)),
        };
        regions.learn(short);
        kept
    }

    /// Returns `true` if a thread waits while a slot is BRIEF. For the monitor.
    pub(in crate::mxn) fn must_look_soon(&self) -> bool {
        self.slots.is_any_brief() && (self.has_shared() || self.pool.lwps().any(Lwp::has_stealable))
    }
}
