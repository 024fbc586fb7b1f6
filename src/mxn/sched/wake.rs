//! Where a thread goes that has become runnable, and which LWP that wakes.
//!
//! Waking is reluctant: a wake-up costs as much as a hundred hand-offs. The rules:
//!
//! 1. A woken thread goes to its waker's next-slot. The thread that was there moves to the ring. **Filling an
//!    empty next-slot wakes no LWP**: as a rule the waker is about to wait. So a pair that hands something to
//!    and fro stays on one LWP.
//! 2. Stealing goes by age, not by presence (`search`).
//! 3. A steal must pay. Otherwise the thief waits longer the next time (`search`).
//! 4. A thread that is put into a ring wakes a sleeper, if no LWP searches and the last thief has not asked
//!    for quiet. As a rule, such a thread was pushed out of the next-slot.
//! 5. If a thread's wakee was stolen as stale, that thread computes on after waking. From then on its
//!    wake-ups reach a sleeper at once. This ends when the thread waits in one of two cases. If its wakee is
//!    still in the slot, the kernel had taken the CPU, and the thread did not compute. If it waits soon after
//!    its wake-up, the sleeper that it woke may have stolen the wakee. (Without the second case, a pair once
//!    torn apart by another process would wake an LWP for each hand-off, forever.)
//! 6. While any LWP runs, an LWP watches: one sleeper naps. There is no watcher after the last deep sleeper
//!    was woken. Then another event wakes the next: a push to a ring, a thief that stole more than it can
//!    run, or the monitor's next round.
//! 7. New threads run in the order of their creation. A thread that waited for another's end runs after those
//!    that are queued already. Either goes to the next-slot only if no thread is queued. So a thread that
//!    creates ten threads and joins them sleeps once, not ten times. Of several threads that are woken at
//!    once, the first goes by rule 1, and the others by this one. None pushes out the one before it.
//! 8. A thief that leaves threads in a ring wakes the next sleeper, if no LWP searches, and its own steals
//!    pay (`search`). It does so even while the last thief has asked for quiet.
//!
//! Cost: no read-modify-write to fill an empty next-slot; one to push a thread out of it.
//!
//! A waker that is on no LWP of this runtime has no next-slot. Its threads go to the injection queue, and a
//! sleeper is woken at once.

use super::placement::Placement;
use super::{Scheduler, deref, policy};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::run_queue::CAPACITY;
use crate::park::{current, observed, traced};
use crate::recorder::event::SlotCause;
use crate::shim::atomic::Ordering;

impl Scheduler {
    /// Makes a thread runnable that has slept. The caller owns it.
    #[inline]
    pub(crate) fn ready(&'static self, green: &'static Green) {
        match self.here() {
            Some((me, lwp)) if lwp.slot.is_held() && self.wakes_here() => self.ready_on(me, lwp, green),
            _ => self.ready_out_of_line(green),
        }
    }

    /// Returns `true` if a waker with a slot may queue a thread at once.
    #[inline]
    fn wakes_here(&self) -> bool {
        // Relaxed: constant, but for the trace, which may miss a wake-up.
        self.wakes_here.load(Ordering::Relaxed)
    }

    /// Makes a thread runnable that has slept, on the LWP of its waker `me`.
    #[inline(always)]
    pub(super) fn ready_on(&'static self, me: &'static Green, lwp: &'static Lwp, green: &'static Green) {
        if self.is_at_home_only(green) {
            self.ready_at_home(green);
        } else if !green.core.priority.is_normal() {
            self.ready_by_level(green);
        } else if me.ends.get() {
            self.ready_in_turn(lwp, green);
        } else if green.is_ahead() {
            self.queue_preempted(green);
            self.wake_for_queued(lwp);
        } else {
            self.ready_here(me, lwp, green);
        }
    }

    /// Makes several threads runnable that are woken at once, except the first of all, which is
    /// [`ready`](Self::ready)'s. They are `green`, and what comes from `others`. Returns how many came from
    /// `others`.
    #[inline]
    pub(crate) fn ready_behind(
        &'static self,
        green: &'static Green,
        mut others: impl FnMut() -> Option<&'static Green>,
    ) -> usize {
        let traced = observed::is_traced();
        let lwp = match self.here() {
            Some((_, lwp)) if self.placement == Placement::Anywhere => Some(lwp),
            _ => None,
        };
        let (mut next, mut count) = (green, 0);
        loop {
            match lwp {
                Some(lwp) if lwp.slot.is_held() && next.core.priority.is_normal() && !next.is_ahead() => {
                    if traced {
                        traced::readied(next.thread(), false);
                    }
                    self.ready_in_turn(lwp, next);
                }
                _ => self.ready(next),
            }
            match others() {
                Some(other) => (next, count) = (other, count + 1),
                None => return count,
            }
        }
    }

    /// Makes a new thread runnable. The caller owns it. `me`: the calling thread, if it is this runtime's.
    #[inline]
    pub(crate) fn ready_new(&'static self, me: Option<&'static Green>, green: &'static Green) {
        match me.map(|me| (me, me.lwp())) {
            Some((me, lwp)) if lwp.slot.is_held() && self.wakes_here() => self.ready_new_on(me, lwp, green),
            _ => self.ready_new_out_of_line(me, green),
        }
    }

    /// Makes a new thread runnable, on the LWP of its spawner `me`.
    #[inline(always)]
    pub(super) fn ready_new_on(&'static self, me: &'static Green, lwp: &'static Lwp, green: &'static Green) {
        lwp.queue.next.blame(Some(me.ptr()));
        if green.core.priority.is_normal() {
            self.ready_in_turn(lwp, green);
        } else {
            self.ready_by_level(green);
        }
    }

    /// Fills the next-slot if no thread waits there or in the ring. Otherwise appends to the ring (rule 7).
    #[inline]
    fn ready_in_turn(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if lwp.queue.is_empty() {
            lwp.queue.next.fill(green.ptr());
        } else {
            self.queue_in_ring(lwp, green);
            self.wake_for_queued(lwp);
        }
    }

    /// Returns `true` if a thread may run on one LWP only, because it has a home and has run there.
    #[inline]
    fn is_at_home_only(&self, green: &Green) -> bool {
        self.placement.has_homes() && green.lwp.get().is_some()
    }

    /// Returns the calling green thread and its LWP, if it is one of this runtime's.
    #[inline]
    pub(crate) fn here(&'static self) -> Option<(&'static Green, &'static Lwp)> {
        let me = current::try_current()?;
        if !std::ptr::addr_eq(me.backend(), self) {
            return None;
        }
        // SAFETY: its backend is this scheduler.
        let me = unsafe { Green::of(me) };
        Some((me, me.lwp()))
    }

    /// Puts a thread into the next-slot (rule 1).
    #[inline]
    pub(super) fn ready_here(&'static self, me: &'static Green, lwp: &'static Lwp, green: &'static Green) {
        lwp.queue.next.blame(Some(me.ptr()));
        if lwp.queue.next.is_empty() {
            lwp.queue.next.fill(green.ptr());
            if me.wakes_early() {
                self.wake_early(lwp);
            }
        } else {
            self.push_out(lwp, green);
        }
    }

    /// Wakes a sleeper after the next-slot was filled (rule 5).
    #[cold]
    fn wake_early(&'static self, lwp: &'static Lwp) {
        if self.idle.look().sleeping > 0 {
            self.wake_searcher();
        }
        // The wake-up itself does not count as computing.
        lwp.woke_early_at.set(self.clock.now());
    }

    /// Judges whether a thread that has been waking others early computed on after the last wake-up (rule 5).
    /// Called when it waits.
    #[cold]
    pub(super) fn judge_waker(&self, me: &Green, lwp: &Lwp) {
        let still_there = lwp.has_next();
        if still_there || self.clock.now().saturating_sub(lwp.woke_early_at.get()) < policy::SOON {
            me.set_wakes_early(false);
        }
    }

    /// Fills a next-slot that has a thread, and moves that one to the ring (rule 1).
    fn push_out(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if let Some(pushed_out) = lwp.queue.next.replace(green.ptr()) {
            self.queue_behind(lwp, deref(pushed_out));
            self.wake_for_queued(lwp);
        }
    }

    /// Wakes a sleeper, if that pays, for a thread that was just put into the ring (rule 4).
    #[inline]
    fn wake_for_queued(&'static self, lwp: &'static Lwp) {
        if self.idle.look().sleeping > 0 {
            let skip = lwp.skip.get();
            // If no LWP watches, all but those that run sleep deeply, and the one that is woken will watch.
            if skip == 0 || !self.idle.is_watched() {
                self.wake_if_worth_it(lwp);
            } else {
                lwp.skip.set(skip - 1);
            }
        }
    }

    /// Puts a thread at the end of an LWP's ring, or into the shared queues if the ring is full. Called on
    /// that LWP.
    pub(crate) fn queue_behind(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if self.is_at_home_only(green) {
            self.ready_at_home(green);
        } else if !green.core.priority.is_normal() {
            self.ready_by_level(green);
        } else if self.placement.moves_always() {
            self.inject.push(green.ptr());
            self.wake_searcher();
        } else {
            self.queue_in_ring(lwp, green);
        }
    }

    /// Puts a thread before all others of this LWP, which it was taken from a moment ago.
    #[cold]
    pub(super) fn put_first(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if self.placement.moves_always() || lwp.has_next() {
            return self.queue_behind(lwp, green);
        }
        // If a thief finds it there, no waker is to blame.
        lwp.queue.next.blame(None);
        lwp.queue.next.fill(green.ptr());
    }

    /// Does what `queue_behind` does, for a normal thread that may run anywhere.
    #[inline]
    fn queue_in_ring(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if lwp.queue.ring.push(green.ptr()).is_err() {
            self.overflow(lwp, green);
        }
    }

    /// Empties half of a full ring into the shared queues, where all LWPs look. The new thread follows.
    #[cold]
    fn overflow(&'static self, lwp: &'static Lwp, green: &'static Green) {
        for _ in 0..CAPACITY / 2 {
            let Some(old) = lwp.queue.ring.pop() else { break };
            self.queue_shared(deref(old));
        }
        self.queue_shared(green);
        self.wake_searcher();
    }

    /// Wakes a sleeper if that pays (rule 4). Out of line: it happens only while an LWP sleeps.
    #[cold]
    fn wake_if_worth_it(&'static self, lwp: &'static Lwp) {
        let quiet = if self.idle.look().searching > 0 {
            false
        } else if self.clock.now() < self.idle.quiet_until() {
            true
        } else {
            lwp.counters.wakes.add_alone();
            self.wake_searcher();
            false
        };
        // While the answer is to be quiet, the clock is read ever more rarely.
        let skipped = if quiet { (2 * lwp.skipped.get()).min(policy::MOST_PUSHES) } else { policy::PUSHES };
        lwp.skipped.set(skipped);
        lwp.skip.set(skipped - 1);
    }

    /// Puts a thread into a shared queue, from wherever the caller is, and wakes an LWP to look there.
    #[cold]
    pub(crate) fn ready_elsewhere(&'static self, green: &'static Green) {
        if !self.life.is_here() {
            // This process has no LWP to run it, and the queue's lock may be held forever.
            return;
        }
        // The caller owns the thread, and that keeps the runtime alive until it is queued. From then on, this
        // count does. Until it is over, the monitor does not sleep deeply.
        self.life.enter();
        self.queue_without_slot(green);
        self.life.leave();
    }

    /// Moves the threads that wait on an LWP without a slot to the shared queues, where all LWPs look. An LWP
    /// that always has something to do does not steal. Called from anywhere.
    #[cold]
    pub(crate) fn evacuate(&'static self, lwp: &'static Lwp) {
        // As many as there can be at a time: the thread of that LWP may go on, and wake others.
        for _ in 0..=CAPACITY {
            let Some(green) = lwp.queue.claim() else { return };
            self.ready_elsewhere(deref(green));
        }
    }

    /// Sends a thread back to the LWP that it began on, whatever that is doing.
    #[cold]
    pub(super) fn ready_at_home(&'static self, green: &'static Green) {
        let home = green.lwp();
        home.pinned.push(green.ptr(), || green.core.priority.get());
        if home.pinned.has_high() {
            home.flags.look();
        }
        if !self.wake_if_idle(home) && self.pool.leave_spares(home) {
            self.lend_to(home);
            self.watch.notice_activity();
            self.wake_lwp(home);
        }
    }

    /// Wakes an LWP if it sleeps idle, or is about to. Returns `true` if it does.
    ///
    /// The sleeper enters the set before its last look, and the caller looks for it there. Either that last
    /// look sees what the caller has done before, or the caller finds the sleeper (`lwp_set`).
    pub(in crate::mxn) fn wake_if_idle(&self, lwp: &Lwp) -> bool {
        let sleeps = self.idle.leave(lwp.index);
        if sleeps {
            self.watch.notice_activity();
            self.wake_lwp(lwp);
        }
        sleeps
    }

    /// Queues a thread from an LWP without a slot, or from none, for any LWP that may run it.
    pub(crate) fn queue_without_slot(&'static self, green: &'static Green) {
        if self.is_at_home_only(green) {
            self.ready_at_home(green);
        } else {
            self.ready_by_level(green);
        }
    }

    /// Gives a slot beyond `concurrency` to an LWP that has none, because its threads can run nowhere else.
    /// The caller took it off the spare list.
    pub(super) fn lend_to(&'static self, lwp: &'static Lwp) {
        self.trace_move(None, SlotCause::Home, || {
            self.pool.give(lwp, self.slots.lend());
            Some(lwp)
        });
    }

    /// Gives the slot of an LWP without work back, if any slot is lent. Returns `true` if it did.
    pub(super) fn return_loan(&self, lwp: &Lwp) -> bool {
        if self.slots.lent() == 0 {
            return false;
        }
        // A thread that lowers `concurrency` may have been faster.
        let Some(slot) = lwp.slot.retake_unannounced() else { return true };
        // If another LWP has returned the last loan, this one keeps its slot.
        self.slots.return_loan(slot).map_err(|slot| self.pool.give(lwp, slot)).is_ok()
    }

    /// Wakes a sleeping LWP to search, unless one searches already. If none sleeps idle, takes the slot of an
    /// LWP that announced blocking, or rests.
    pub(crate) fn wake_searcher(&'static self) {
        match self.idle.wake_one(self.near.here()) {
            Some(index) => {
                self.watch.notice_activity();
                self.wake_lwp(self.pool.lwp(index));
            }
            None if self.slots.is_any_open() && self.idle.look().searching == 0 => {
                self.retake_announced();
            }
            None => {}
        }
    }
}

#[cfg(all(test, loom))]
mod loom_wake;

#[cfg(test)]
mod tests;
