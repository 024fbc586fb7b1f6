//! An LWP without work: it looks at the others, steals what has waited long enough, and at last sleeps.
//!
//! **By age, not by presence** (rule 2 of `wake`). In lock-step programs a woken thread sits in its waker's next-slot for
//! less than a hundred nanoseconds; a thief that took it would tear a pair apart and pay two cache misses for every
//! hand-off from then on. So a searcher notes what it sees ([`Glance`]) and takes only what still waits `age` later: the
//! next-slot if the LWP has not dispatched meanwhile, or half of the ring.
//!
//! **Nor what its own LWP would take if it could run.** Where other processes have the other CPUs, two LWPs share one: while the searcher looks,
//! the other cannot move, and all it has looks stale. A thief that fell for that tore the pair apart at each of its naps, and left one half on a
//! stack that the other LWP stood on, waiting for the CPU on which the thief waited for the stack: 4 ms a hand-off. So the
//! searcher gives its CPU away before it steals from an LWP that was last on the same one, and steals if that has not dispatched then.
//!
//! **On one CPU** a searcher gives the CPU away between two looks. Whatever makes a thread runnable needs it,
//! be it an LWP or a kernel thread of the program. To spin for 50 us there takes as long as a hundred
//! hand-offs, for nothing.
//!
//! **A steal must pay** (rule 3). A thief that runs dry within `STEAL_PAYS` doubles its `age`, and so does a victim that runs
//! dry within `ROBBED`: all there was to do has only moved. (A thread that creates ten others and joins them moves along with
//! those that were stolen; without the victim's verdict the two LWPs would rob each other for ever, each with a cold
//! cache.) One whose `age` exceeds its spin time does not spin at all, and asks for quiet until then (rule 4).
//!
//! **Somebody watches** (rule 6). A sleeper naps while others run, if none naps yet; the last to sleep sleeps deeply, until
//! its own next deadline.
//!

use std::ptr::NonNull;

use super::{Scheduler, deref, policy, take};
use crate::mxn::green::Green;
use crate::mxn::lwp::{First, Glance, Lwp, count};
use crate::mxn::timer::NEVER;
use crate::mxn::tls::Rung;
use crate::park::priority::Priority;
use crate::shim;
use crate::shim::atomic::{Ordering, fence};

impl Scheduler {
    /// Looks for work until there is some, or the slot is gone, or the runtime stops (`None`).
    pub(super) fn search(&'static self, lwp: &'static Lwp) -> Option<&'static Green> {
        let mut now = self.clock.now();
        let mut age = self.judge_last_steal(lwp, now);
        let mut nap = policy::MIN_NAP;
        let mut trial = false;
        let mut searching = self.idle.begin_search(self.pool.slots());
        let mut spin = if age <= policy::SPIN { policy::SPIN } else { 0 };
        if self.rung == Rung::Pinned && self.life.lent.load(Ordering::Relaxed) > 0 {
            // What a slot was lent for may lie in the ring of the LWP that is stuck.
            (age, spin) = (policy::MIN_AGE, policy::TRIAL);
        }
        if spin == 0 {
            self.idle.be_quiet_until(now + age);
        }
        loop {
            let until = now + spin;
            while searching && now < until {
                if let Some(green) = self.look_around(lwp, now, age) {
                    return Some(self.found(lwp, green));
                }
                if lwp.search.in_the_way.take() {
                    searching = self.step_aside();
                }
                if self.one_cpu.load(Ordering::Relaxed) {
                    // A thread that makes work is not on another CPU: it waits for this one.
                    shim::yield_cpu();
                } else {
                    for _ in 0..policy::PAUSES {
                        shim::spin_hint();
                    }
                }
                now = self.clock.now();
            }
            if trial {
                // Woken for nothing.
                let again_and_again = lwp.search.age.get() == policy::MAX_AGE;
                lwp.search.double_age(policy::MAX_AGE);
                let quiet = if again_and_again { policy::LONG_QUIET } else { lwp.search.age.get() };
                self.idle.be_quiet_until(now + quiet);
                trial = false;
            }
            if self.rung == Rung::Pinned && self.return_loan(lwp) {
                if searching {
                    self.end_search();
                }
                return None;
            }
            match self.sleep(lwp, searching, &mut nap) {
                Slept::Woken => {
                    trial = true;
                    // One trial at the least age, whatever has been; if it does not pay, what has been counts again.
                    (age, spin) = (policy::MIN_AGE, policy::TRIAL);
                }
                Slept::Napped => spin = policy::GLIMPSE,
                Slept::Found(green) => return Some(self.found(lwp, green)),
                Slept::Over => {
                    self.idle.end_search();
                    return None;
                }
            }
            // However it ended, the sleeper left the list as a searcher.
            searching = true;
            now = self.clock.now();
        }
    }

    /// Work was found: search no more, and see to it that another looks for the rest.
    fn found(&'static self, lwp: &Lwp, green: NonNull<Green>) -> &'static Green {
        // The second: who watched has found something, or was woken, and nobody else looks at what was stolen with it.
        if self.idle.end_search() && (self.has_shared() || !lwp.ring.is_empty() && !self.idle.is_watched()) {
            self.wake_searcher();
        }
        deref(green)
    }

    /// Searches no more, and has found nothing: who has left something to us, because we searched, did not wake another.
    fn end_search(&'static self) {
        if self.idle.end_search() && self.has_shared() {
            self.wake_searcher();
        }
    }

    /// Gives the CPU to the LWP that waits for it. It may be back only after milliseconds, so nobody is to count on us meanwhile. Whether we
    /// still search.
    fn step_aside(&'static self) -> bool {
        self.end_search();
        shim::yield_cpu();
        self.idle.begin_search(self.pool.slots())
    }

    /// Rule 3: whether the last steals paid. Gives the age to go by.
    fn judge_last_steal(&self, lwp: &Lwp, now: u64) -> u64 {
        let recent = |at: u64, span: u64| at != 0 && now.saturating_sub(at) < span;
        let stole_at = lwp.search.stole_at.replace(0);
        // Relaxed: a hint, by whoever stole from us.
        let robbed_at = lwp.robbed_at.swap(0, Ordering::Relaxed);
        let age = &lwp.search.age;
        if recent(stole_at, policy::STEAL_PAYS) || recent(robbed_at, policy::ROBBED) {
            lwp.search.double_age(policy::MAX_AGE);
        } else if stole_at != 0 {
            age.set(policy::MIN_AGE);
        }
        age.get()
    }

    /// One look at everything: what is injected or due is taken at once, what others have only if it has waited for `age`.
    fn look_around(&'static self, lwp: &'static Lwp, now: u64, age: u64) -> Option<NonNull<Green>> {
        if let Some(green) = self.look_at_own(lwp, now) {
            return Some(green);
        }
        for victim in self.pool.lwps() {
            if std::ptr::eq(victim, lwp) {
                continue;
            }
            if victim.timers.next() <= now && self.fire_timers(victim, lwp) {
                return lwp.ring.pop();
            }
            if let Some(green) = self.steal(victim, lwp, now, age) {
                lwp.search.stole_at.set(now);
                victim.robbed_at.store(now, Ordering::Relaxed);
                count(&lwp.counters.steals);
                return Some(self.sift_stolen(lwp, green));
            }
        }
        self.take_low(lwp)
    }

    /// What needs no stealing and is not of low priority.
    fn look_at_own(&'static self, lwp: &'static Lwp, now: u64) -> Option<NonNull<Green>> {
        if lwp.timers.next() <= now {
            self.fire_timers(lwp, lwp);
        }
        self.levels
            .take_high()
            .or_else(|| lwp.ring.pop())
            .or_else(|| take(&lwp.next))
            .or_else(|| lwp.pinned.pop(Priority::Normal))
            .or_else(|| self.pop_injected(lwp))
            .or_else(|| self.pop_preempted())
    }

    /// Takes from `victim` what has waited for `age`: from its next-slot, or half of its ring.
    fn steal(&self, victim: &'static Lwp, lwp: &'static Lwp, now: u64, age: u64) -> Option<NonNull<Green>> {
        if !victim.has_stealable() {
            return None;
        }
        // Another looks at it this moment: that will do.
        victim.glance.try_with(|glance| self.compare(glance, victim, lwp, now, age)).flatten()
    }

    /// Steals from an LWP that never runs dry, before this LWP runs a preempted thread that has had its
    /// share. Otherwise the threads that arrive there would take turns on that LWP alone.
    #[cold]
    pub(super) fn steal_beside_preempted(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        if self.preempted.len() == 0 || self.rung == Rung::Pinned || !self.preempted_have_their_share() {
            return None;
        }
        let (now, age) = (self.clock.now(), lwp.search.age.get());
        let others = self.pool.lwps().filter(|other| !std::ptr::eq(*other, lwp) && other.slot.is_held());
        for victim in others {
            if let Some(green) = self.steal(victim, lwp, now, age) {
                count(&lwp.counters.steals);
                return Some(self.sift_stolen(lwp, green));
            }
        }
        None
    }

    /// At a fair tick of an LWP that never runs dry: takes some of the threads that wait on another LWP, if
    /// more than twice as many wait there. It looks at the other LWPs in turn.
    pub(super) fn balance(&'static self, lwp: &'static Lwp, turn: u32) {
        let Some(victim) = self.pool.in_turn(turn) else { return };
        if std::ptr::eq(victim, lwp) || self.settings.migrate_always {
            return;
        }
        let (theirs, ours) = (victim.ring.len(), lwp.ring.len());
        if theirs <= 2 * ours + policy::BALANCED {
            return;
        }
        // Half of the difference: the threads that have waited longest.
        for _ in 0..((theirs - ours) / 2).min(policy::INJECT_BATCH) {
            let Some(green) = victim.ring.claim() else { break };
            self.put_back(lwp, deref(green));
        }
        count(&lwp.counters.steals);
    }

    /// Compares a victim's queues with the last look, and takes what has not moved for `age`.
    fn compare(
        &self,
        glance: &mut Glance,
        victim: &'static Lwp,
        lwp: &'static Lwp,
        now: u64,
        age: u64,
    ) -> Option<NonNull<Green>> {
        let next = NonNull::new(victim.next.load(Ordering::Relaxed));
        let tick = victim.tick.get();
        glance.had_its_turn &= tick == glance.tick;
        if next.is_none() || next != glance.next || tick != glance.tick {
            (glance.next, glance.tick, glance.next_since) = (next, tick, now);
        } else if now.saturating_sub(glance.next_since) >= age {
            if Self::is_in_the_way(glance, lwp) {
                return None;
            }
            glance.next = None;
            if let Some(green) = take(&victim.next) {
                self.blame_waker(victim);
                return Some(green);
            }
        }
        if !victim.ring.still_waits(glance.ring) {
            (glance.ring, glance.ring_since) = (victim.ring.look(), now);
        } else if now.saturating_sub(glance.ring_since) >= age {
            if Self::is_in_the_way(glance, lwp) {
                return None;
            }
            let green = victim.ring.steal_into(&lwp.ring);
            (glance.ring, glance.ring_since) = (victim.ring.look(), now);
            return green;
        }
        None
    }

    /// Whether the LWP that is looked at waits for the very CPU that this one has: that is to have it first, once.
    fn is_in_the_way(glance: &mut Glance, lwp: &Lwp) -> bool {
        if glance.had_its_turn || !glance.is_kept_from_running(&lwp.search) {
            return false;
        }
        glance.had_its_turn = true;
        lwp.search.in_the_way.set(true);
        true
    }

    /// Rule 5: who filled a next-slot and then computed on wakes others at once from now on.
    fn blame_waker(&self, victim: &Lwp) {
        let waker = victim.next_by.load(Ordering::Relaxed);
        // SAFETY: null, or a green thread: type-stable, so at worst the hint goes to the wrong one.
        if let Some(waker) = unsafe { waker.as_ref() } {
            waker.wakes_early.store(true, Ordering::Relaxed);
        }
    }

    /// Sleeps until woken, or until there is something to look at.
    fn sleep(&'static self, lwp: &'static Lwp, searched: bool, nap: &mut u64) -> Slept {
        self.pool.make_bed(lwp);
        self.idle.enter(lwp.index, searched);
        // After the fence of `enter`: whoever queues something from here on finds us on the list.
        if let Some(over) = self.last_look(lwp) {
            if self.idle.leave(lwp.index) {
                self.pool.get_up(lwp);
                // We were on the list: the monitor may have seen all asleep at last.
                self.watch.notice_activity();
            } else {
                self.pool.sleep(lwp, None);
            }
            return over;
        }
        let others_run = !self.do_nothing(self.pool.slots());
        let watching = others_run && self.idle.watch();
        let deadline = if watching { self.clock.now() + *nap } else { NEVER }.min(lwp.timers.next());
        let woken = self.pool.sleep(lwp, self.clock.instant(deadline));
        if watching {
            self.idle.unwatch();
        }
        if woken || !self.idle.leave(lwp.index) {
            if !woken {
                // Somebody is waking us this moment.
                self.pool.sleep(lwp, None);
            }
            // Roused also because its slot was retired, or moved: then it must not begin to run another thread.
            return if self.is_stopping() || !lwp.slot.is_held() { Slept::Over } else { Slept::Woken };
        }
        self.pool.get_up(lwp);
        // We may have slept for long, or all the others may sleep by now: somebody must watch us.
        self.watch.notice_activity();
        if watching {
            *nap = (2 * *nap).min(policy::MAX_NAP);
        }
        Slept::Napped
    }

    /// Step 3 of the idle protocol.
    fn last_look(&'static self, lwp: &'static Lwp) -> Option<Slept> {
        if self.is_stopping() || !lwp.slot.is_held() {
            return Some(Slept::Over);
        }
        self.look_at_own(lwp, self.clock.now()).or_else(|| self.take_low(lwp)).map(Slept::Found)
    }

    /// An LWP without a slot: gives away what it has, and sleeps among the spares until it is given one. `false`: the
    /// runtime stops, or there are more spares than are needed.
    pub(super) fn wait_for_slot(&'static self, lwp: &'static Lwp) -> bool {
        // The thread that it ran without a slot may have been the last of a dropped runtime.
        self.watch.notice_activity();
        while let Some(green) = lwp.ring.pop().or_else(|| take(&lwp.next)) {
            self.queue_shared(deref(green));
        }
        if self.has_shared() {
            self.wake_searcher();
        }
        // What it will be given a slot for may be held up by a thread that was preempted.
        lwp.look_first.set(First::Preempted);
        lwp.spare_since.store(self.clock.now(), Ordering::Relaxed);
        loop {
            self.pool.make_bed(lwp);
            let spares = self.pool.enter_spares(lwp);
            self.notice_spare(spares);
            // Pairs with the fence of `stop`, which comes before the wake-ups of all beds.
            fence(Ordering::SeqCst);
            if self.is_stopping() {
                return false;
            }
            if lwp.pinned.len() > 0 && self.pool.leave_spares(lwp) {
                self.pool.get_up(lwp);
                self.lend_to(lwp);
                self.watch.notice_activity();
                return true;
            }
            // What was armed here is still looked at from here.
            let woken = self.pool.sleep(lwp, self.clock.instant(lwp.timers.next()));
            if !woken && self.pool.leave_spares(lwp) {
                self.pool.get_up(lwp);
                lwp.timers.fire(self.clock.now(), |thread| {
                    // SAFETY: only green threads arm entries in these heaps.
                    let green = unsafe { Green::of(thread) };
                    if self.rung == Rung::Pinned {
                        self.ready_pinned(green)
                    } else {
                        self.queue_shared(green);
                    }
                });
                self.wake_searcher();
                continue;
            }
            if !woken {
                self.pool.sleep(lwp, None);
            }
            if lwp.slot.is_held() {
                return true;
            }
            if self.is_stopping() || self.pool.is_dismissed(lwp) {
                return false;
            }
        }
    }
}

/// How a sleep ended.
enum Slept {
    /// Somebody woke us to look.
    Woken,
    /// A nap or a deadline is over.
    Napped,
    /// There was something after all.
    Found(NonNull<Green>),
    /// The slot is gone, or the runtime stops.
    Over,
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_search.rs"]
mod loom_search;
