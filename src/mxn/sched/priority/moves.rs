//! How a scheduler queues, picks and moves threads by their priority. The header of `priority` has the
//! protocol.

use std::ptr::NonNull;

use super::Aging;
use crate::mxn::green::Green;
use crate::mxn::lwp::{HighRun, Lwp};
use crate::mxn::sched::{Scheduler, deref, policy};
use crate::park::priority::Priority;

impl Scheduler {
    /// Returns `true` if anything waits in the shared queues.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        self.inject.len() > 0 || self.preempted.len() > 0 || self.levels.len() > 0
    }

    /// Puts a thread, which the caller owns, into the shared queue of its priority. Wakes no LWP.
    pub(crate) fn queue_shared(&self, green: &'static Green) {
        let normal = || green.core.priority.is_normal();
        while !self.levels.push(green) && !self.inject.push_if(green.ptr(), normal) {}
    }

    /// Makes a thread, which the caller owns, runnable by way of the shared queue of its priority.
    #[cold]
    pub(in crate::mxn::sched) fn ready_by_level(&'static self, green: &'static Green) {
        // Afterwards the thread may be gone.
        let level = green.core.priority.get();
        self.queue_shared(green);
        self.wake_for_level(level);
    }

    /// Wakes an LWP for a thread of this priority that was put into a shared queue.
    pub(in crate::mxn::sched) fn wake_for_level(&'static self, level: Priority) {
        self.wake_searcher();
        // If an LWP searches, it finds the thread. Otherwise none slept, or the woken one has found work.
        if level == Priority::High && self.idle.look().searching == 0 {
            self.request_preemption_below(level);
        }
    }

    /// Takes what goes before the normal path. `Err(true)`: it is a normal thread's turn.
    #[cold]
    pub(in crate::mxn::sched) fn pick_urgent(
        &'static self,
        lwp: &'static Lwp,
    ) -> Result<NonNull<Green>, bool> {
        if let Some(low) = self.levels.take_owed() {
            return Ok(low);
        }
        if self.is_normal_owed(lwp) {
            return Err(true);
        }
        if let Some(high) = self.levels.take_high() {
            return Ok(high);
        }
        let pinned = lwp.pinned.pop(Priority::High).ok_or(false);
        if lwp.pinned.has_high() {
            lwp.flags.look();
        }
        pinned
    }

    /// Returns `true` if the LWP has run high threads for long enough, or cannot run the first of them, while
    /// a normal one waits here.
    pub(super) fn is_normal_owed(&self, lwp: &Lwp) -> bool {
        let (now, tick) = (self.clock.now(), lwp.tick.get());
        let mut run = lwp.high_run.get();
        let interrupted = tick.wrapping_sub(run.tick) > 1;
        let owed = !interrupted
            && (run.is_held_up || now.saturating_sub(run.since) >= policy::HIGH_RUN)
            && (lwp.has_queued() || self.inject.len() > 0 || self.preempted.len() > 0);
        if interrupted || owed {
            run.since = now;
        }
        lwp.high_run.set(HighRun { tick, is_held_up: false, ..run });
        owed
    }

    /// Takes a low thread that this LWP may run.
    pub(in crate::mxn::sched) fn take_low(&self, lwp: &Lwp) -> Option<NonNull<Green>> {
        self.levels.take_low().or_else(|| lwp.pinned.pop(Priority::Low))
    }

    /// Takes a low thread if no LWP has anything else. If there is something to steal, the search decides.
    pub(in crate::mxn::sched) fn pick_low(&self, lwp: &Lwp) -> Option<NonNull<Green>> {
        if self.levels.low() + lwp.pinned.len() == 0 {
            return None;
        }
        let elsewhere = |other: &Lwp| !std::ptr::eq(other, lwp) && other.has_queued();
        if self.pool.lwps().any(elsewhere) {
            return None;
        }
        self.take_low(lwp)
    }

    /// Looks at the low queue for the monitor, once a round.
    pub(crate) fn age_low(&self, aging: &mut Aging) {
        self.levels.age(aging, || self.clock.now());
    }

    /// Moves `green`, wherever it is, after its priority has changed. The caller keeps the runtime alive.
    pub(crate) fn reprioritize(&'static self, green: &'static Green) {
        self.levels.expect_sifting();
        if self.placement.has_homes() && self.pool.lwps().any(|lwp| lwp.pinned.remove(green.ptr())) {
            return self.ready_at_home(green);
        }
        let gone = || ();
        if self.levels.remove(green)
            || self.inject.remove(green.ptr(), gone)
            || self.preempted.remove(green.ptr(), gone)
        {
            return self.ready_by_level(green);
        }
        for lwp in self.pool.lwps() {
            lwp.flags.sift();
        }
        if green.core.priority.get() > Priority::Normal
            && self.pool.lwps().any(|lwp| self.pull_out(lwp, green))
        {
            self.ready_by_level(green);
        }
    }

    /// Claims a thread that waits on an LWP, with those before it. These go to the shared queues.
    pub(super) fn pull_out(&self, lwp: &Lwp, green: &'static Green) -> bool {
        lwp.queue.remove(green.ptr(), |before| self.queue_shared(deref(before)))
    }

    /// Filters the queues of the LWP at a dispatch. Owner only.
    #[cold]
    pub(in crate::mxn::sched) fn sift_own(&'static self, lwp: &Lwp) {
        if self.sift(lwp) {
            self.wake_searcher();
        }
    }

    /// Moves the threads in the next-slot and ring that are not normal to their queues. Returns `true` if
    /// there were any. Owner only.
    fn sift(&self, lwp: &Lwp) -> bool {
        let mut moved = false;
        if let Some(next) = lwp.queue.next.take() {
            if deref(next).core.priority.is_normal() {
                lwp.queue.next.fill(next);
            } else {
                self.queue_shared(deref(next));
                moved = true;
            }
        }
        for _ in 0..lwp.queue.ring.len() {
            let Some(green) = lwp.queue.ring.pop() else { break };
            if !deref(green).core.priority.is_normal() || lwp.queue.ring.push(green).is_err() {
                self.queue_shared(deref(green));
                moved = true;
            }
        }
        moved
    }

    /// Sifts what a thief has stolen: it may have been raised before. Returns the thread to run.
    #[inline]
    pub(in crate::mxn::sched) fn sift_stolen(
        &self,
        lwp: &'static Lwp,
        first: NonNull<Green>,
    ) -> NonNull<Green> {
        if !self.levels.may_need_sifting() {
            return first;
        }
        self.sift(lwp);
        match self.levels.take_high() {
            Some(high) => {
                self.queue_shared(deref(first));
                high
            }
            None => first,
        }
    }

    /// Makes the LWP that runs the lowest thread, if that is below `level`, dispatch as soon as it can.
    pub(crate) fn request_preemption_below(&'static self, level: Priority) {
        let mut lowest = level;
        let mut found = None;
        for lwp in self.pool.lwps().filter(|lwp| lwp.slot.is_held()) {
            let Some(runs) = lwp.running() else {
                // It is about to pick, or sleeps.
                continue;
            };
            let runs = runs.core.priority.get();
            if runs < lowest {
                (lowest, found) = (runs, Some(lwp));
            }
        }
        if let Some(lwp) = found {
            lwp.flags.look();
            // It may not dispatch for long, so the monitor is to look at it.
            self.watch.wake();
        }
    }
}
