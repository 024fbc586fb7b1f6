//! Where a thread goes that has become runnable, and whom that wakes.
//!
//! Waking is reluctant: a wake-up costs as much as a hundred hand-offs. The rules:
//!
//! 1. A woken thread goes to its waker's next-slot; who was there moves to the ring. **Filling an empty
//!    next-slot wakes nobody**: the waker is about to wait, as a rule, and a pair that hands something to and fro stays on
//!    one LWP.
//! 2. Stealing goes by age, not by presence (`search`).
//! 3. A steal must pay, or the thief waits longer the next time (`search`).
//! 4. A thread that is put into a ring (pushed out of the next-slot, as a rule) wakes a sleeper, if nobody searches and the
//!    last thief has not asked for quiet.
//! 5. A thread whose wakee was stolen as stale computes on after waking: from then on its wake-ups reach a sleeper at once,
//!    until it waits with its wakee still in the slot, or soon after its wake-up. (Where the kernel had taken its CPU, nobody computed. And while it
//!    wakes a sleeper, that one steals its wakee: without the second condition a pair once torn apart by another process wakes an LWP for
//!    each hand-off, for ever.)
//! 6. While any LWP runs, somebody watches: one sleeper naps. Where none does, because the last that slept deeply was
//!    woken, the next thread that is put into a ring wakes one, or a thief that has stolen more than it can run, or the
//!    monitor in its next round.
//! 7. New threads run in the order of their making, and who was waiting for a thread's end runs after those that are
//!    queued already: only if nobody is does either go to the next-slot. So who creates ten threads and joins them
//!    sleeps once and not ten times. Of several that are woken at once, the first goes by rule 1, and the others by this one:
//!    none pushes the one before it out.
//!
//! Cost: no read-modify-write to fill an empty next-slot, one to push somebody out of it.
//!
//! Whoever is on no LWP of this runtime has no next-slot: such threads go to the injection queue, and a sleeper is
//! woken at once.

use super::{Scheduler, deref, policy, take};
use crate::mxn::green::Green;
use crate::mxn::lwp::slot::InHand;
use crate::mxn::lwp::{Lwp, count};
use crate::mxn::tls::Rung;
use crate::park::current;
use crate::shim::atomic::Ordering;
use crate::shim::store_pointer_among_swaps;

impl Scheduler {
    /// Makes a thread runnable that sleeps no more. The caller owns it.
    #[inline]
    pub(crate) fn ready(&'static self, green: &'static Green) {
        match self.here() {
            Some((me, lwp)) if lwp.slot.is_held() && !self.settings.migrate_always => {
                if self.rung == Rung::Pinned && green.lwp.get().is_some() {
                    self.ready_pinned(green);
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
            _ => self.ready_elsewhere(green),
        }
    }

    /// [`ready`](Self::ready) of several that are woken at once, but for the first of all: `green`, and what comes from `others`, whose
    /// number it gives.
    #[inline]
    pub(crate) fn ready_behind(
        &'static self,
        green: &'static Green,
        mut others: impl FnMut() -> Option<&'static Green>,
    ) -> usize {
        let lwp = match self.here() {
            Some((_, lwp)) if self.rung != Rung::Pinned && !self.settings.migrate_always => Some(lwp),
            _ => None,
        };
        let (mut next, mut count) = (green, 0);
        loop {
            match lwp {
                Some(lwp) if lwp.slot.is_held() && next.core.priority.is_normal() && !next.is_ahead() => {
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

    /// Makes a new thread runnable. The caller owns it.
    #[inline]
    pub(crate) fn ready_new(&'static self, green: &'static Green) {
        match self.here() {
            Some((me, lwp)) if lwp.slot.is_held() && !self.settings.migrate_always => {
                // Relaxed: asked by thieves, as a hint.
                lwp.next_by.store(me.ptr().as_ptr(), Ordering::Relaxed);
                if green.core.priority.is_normal() {
                    self.ready_in_turn(lwp, green);
                } else {
                    self.ready_by_level(green);
                }
            }
            _ => self.ready_elsewhere(green),
        }
    }

    /// Rule 7: into the next-slot if nobody waits there, else behind all others.
    #[inline]
    fn ready_in_turn(&'static self, lwp: &'static Lwp, green: &'static Green) {
        // Relaxed and Release: as in `ready_here`.
        if lwp.next.load(Ordering::Relaxed).is_null() && lwp.ring.is_empty() {
            store_pointer_among_swaps(&lwp.next, green.ptr().as_ptr(), Ordering::Release);
        } else {
            self.queue_in_ring(lwp, green);
            self.wake_for_queued(lwp);
        }
    }

    /// The calling green thread and its LWP, if it is one of this runtime's.
    #[inline]
    pub(crate) fn here(&'static self) -> Option<(&'static Green, &'static Lwp)> {
        let me = current::try_current()?;
        if !std::ptr::addr_eq(me.backend(), self) {
            return None;
        }
        // SAFETY: its backend is this scheduler.
        let me = unsafe { Green::of(me) };
        Some((me, Self::lwp_of(me)))
    }

    /// Rule 1: into the next-slot.
    #[inline]
    pub(super) fn ready_here(&'static self, me: &'static Green, lwp: &'static Lwp, green: &'static Green) {
        // Relaxed: asked by thieves, as a hint.
        lwp.next_by.store(me.ptr().as_ptr(), Ordering::Relaxed);
        // Relaxed: our own stores, or a thief's null.
        if lwp.next.load(Ordering::Relaxed).is_null() {
            // Only this LWP fills its next-slot, and thieves only empty it: an empty one stays empty, and a store will do.
            // Release: pairs with the acquire of `take`.
            store_pointer_among_swaps(&lwp.next, green.ptr().as_ptr(), Ordering::Release);
            if me.wakes_early() {
                self.wake_early(lwp);
            }
        } else {
            self.push_out(lwp, green);
        }
    }

    /// Rule 5, after the next-slot was filled.
    #[cold]
    fn wake_early(&'static self, lwp: &'static Lwp) {
        if self.idle.look().sleeping > 0 {
            self.wake_searcher();
        }
        // The wake-up itself is no computing.
        lwp.woke_early_at.set(self.clock.now());
    }

    /// Rule 5, when a thread waits that has been waking others early: whether it computed on after the last time.
    #[cold]
    pub(super) fn judge_waker(&self, me: &Green, lwp: &Lwp) {
        // Relaxed, both: hints.
        let still_there = !lwp.next.load(Ordering::Relaxed).is_null();
        if still_there || self.clock.now().saturating_sub(lwp.woke_early_at.get()) < policy::SOON {
            me.wakes_early.store(false, Ordering::Relaxed);
        }
    }

    /// Rule 1, with somebody in the next-slot: he moves to the ring.
    fn push_out(&'static self, lwp: &'static Lwp, green: &'static Green) {
        // AcqRel: release pairs with the acquire of `take`; acquire because the old one is ours now.
        let pushed_out = lwp.next.swap(green.ptr().as_ptr(), Ordering::AcqRel);
        // SAFETY: null (a thief was faster), or a green thread.
        if let Some(pushed_out) = unsafe { pushed_out.as_ref() } {
            self.queue_behind(lwp, pushed_out);
            self.wake_for_queued(lwp);
        }
    }

    /// Rule 4, for a thread that was just put into the ring.
    #[inline]
    fn wake_for_queued(&'static self, lwp: &'static Lwp) {
        if self.idle.look().sleeping > 0 {
            let skip = lwp.skip.get();
            // Where nobody watches, all sleep deeply but those that run: the one that is woken will watch.
            if skip == 0 || !self.idle.is_watched() {
                self.wake_if_worth_it(lwp);
            } else {
                lwp.skip.set(skip - 1);
            }
        }
    }

    /// To the end of an LWP's ring, or to the injection queue if that is full. Called on that LWP.
    pub(crate) fn queue_behind(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if self.rung == Rung::Pinned && green.lwp.get().is_some() {
            self.ready_pinned(green);
        } else if !green.core.priority.is_normal() {
            self.ready_by_level(green);
        } else if self.settings.migrate_always {
            self.inject.push(green.ptr());
            self.wake_searcher();
        } else {
            self.queue_in_ring(lwp, green);
        }
    }

    /// Puts a thread, which was taken off the queues of this LWP a moment ago, before all others there.
    #[cold]
    pub(super) fn put_first(&'static self, lwp: &'static Lwp, green: &'static Green) {
        // Relaxed and Release: as in `ready_here`.
        if self.settings.migrate_always || !lwp.next.load(Ordering::Relaxed).is_null() {
            return self.queue_behind(lwp, green);
        }
        // If a thief finds it there, no waker is to blame.
        lwp.next_by.store(std::ptr::null_mut(), Ordering::Relaxed);
        store_pointer_among_swaps(&lwp.next, green.ptr().as_ptr(), Ordering::Release);
    }

    /// `queue_behind` for a normal thread that may run anywhere.
    #[inline]
    fn queue_in_ring(&'static self, lwp: &'static Lwp, green: &'static Green) {
        if lwp.ring.push(green.ptr()).is_err() {
            self.overflow(lwp, green);
        }
    }

    /// A full ring: half of it and the new thread go where everybody looks.
    #[cold]
    fn overflow(&'static self, lwp: &'static Lwp, green: &'static Green) {
        for _ in 0..super::local_queue::CAPACITY / 2 {
            let Some(old) = lwp.ring.pop() else { break };
            self.queue_shared(deref(old));
        }
        self.queue_shared(green);
        self.wake_searcher();
    }

    /// Rule 4. Out of line: it happens only while an LWP sleeps.
    #[cold]
    fn wake_if_worth_it(&'static self, lwp: &'static Lwp) {
        let quiet = if self.idle.look().searching > 0 {
            false
        } else if self.clock.now() < self.idle.quiet_until() {
            true
        } else {
            count(&lwp.counters.wakes);
            self.wake_searcher();
            false
        };
        // As long as there is to be quiet, the clock is asked ever more rarely.
        let skipped = if quiet { (2 * lwp.skipped.get()).min(policy::MOST_PUSHES) } else { policy::PUSHES };
        lwp.skipped.set(skipped);
        lwp.skip.set(skipped - 1);
    }

    /// Onto the injection queue, from wherever the caller is; somebody is woken to look there.
    #[cold]
    pub(crate) fn ready_elsewhere(&'static self, green: &'static Green) {
        if !self.life.process.is_mine() {
            // Nobody is here to run it, and the queue's lock may be held for ever.
            return;
        }
        // SeqCst: shutdown reads it after the counts of threads. The thread we own keeps the runtime alive until it is
        // queued; this count does so until we have left.
        self.life.visitors.fetch_add(1, Ordering::SeqCst);
        if self.rung == Rung::Pinned && green.lwp.get().is_some() {
            self.ready_pinned(green);
        } else {
            self.ready_by_level(green);
        }
        // Release: if shutdown reads zero, it sees all that was done here. (Until then the monitor does not
        // sleep deeply.)
        self.life.visitors.fetch_sub(1, Ordering::Release);
    }

    /// Those who wait on an LWP that has no slot go where everybody looks: who always has something to do steals from nobody. From wherever the
    /// caller is.
    #[cold]
    pub(crate) fn evacuate(&'static self, lwp: &'static Lwp) {
        // No more than there can be at a time: its thread may go on, and wake others.
        for _ in 0..=super::local_queue::CAPACITY {
            let Some(green) = take(&lwp.next).or_else(|| lwp.ring.claim()) else { return };
            self.ready_elsewhere(deref(green));
        }
    }

    /// Rung 3: back to the LWP that it began on, whatever that is doing.
    #[cold]
    pub(super) fn ready_pinned(&'static self, green: &'static Green) {
        let home = Self::lwp_of(green);
        home.pinned.push(green.ptr(), || green.core.priority.get());
        if home.pinned.has_high() {
            home.asked.look();
        }
        // The lock in `leave` orders this with the sleeper's last look: either it sees the thread, or we see it listed.
        if self.idle.leave(home.index) {
            self.watch.notice_activity();
            self.pool.rouse(home);
        } else if self.pool.leave_spares(home) {
            self.lend_to(home);
            self.watch.notice_activity();
            self.pool.rouse(home);
        }
    }

    /// Queues the running thread, whose LWP has lost its slot, for any LWP that has one.
    pub(crate) fn queue_without_slot(&'static self, green: &'static Green) {
        if self.rung == Rung::Pinned {
            self.ready_pinned(green);
        } else {
            self.ready_by_level(green);
        }
    }

    /// Rung 3: gives a slot more than there are to an LWP that has none and that the caller took off the spare list: its
    /// threads can run nowhere else.
    pub(super) fn lend_to(&self, lwp: &Lwp) {
        self.life.lent.fetch_add(1, Ordering::Relaxed);
        lwp.slot.give(InHand::beyond_concurrency());
    }

    /// Rung 3: an LWP without work gives its slot back, if any is lent. True if it did.
    pub(super) fn return_loan(&self, lwp: &Lwp) -> bool {
        // Relaxed, both: a number.
        if self.life.lent.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Who shrinks `concurrency` may have been faster.
        let Some(slot) = lwp.slot.retake_unannounced() else { return true };
        let less = |lent: u32| lent.checked_sub(1);
        if self.life.lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            // Another has returned the last loan.
            lwp.slot.give(slot);
            return false;
        }
        slot.retire();
        true
    }

    /// Wakes a sleeping LWP to search, unless one searches already. If none sleeps idle, takes the slot of an
    /// LWP that announced blocking, or rests.
    pub(crate) fn wake_searcher(&'static self) {
        match self.idle.wake_one() {
            Some(index) => {
                self.watch.notice_activity();
                self.pool.rouse(self.pool.lwp(index));
            }
            None if self.life.is_any_open() && self.idle.look().searching == 0 => {
                self.retake_announced();
            }
            None => {}
        }
    }
}
