//! An LWP without work: it looks at the others, steals what has waited long enough, and at last sleeps.
//!
//! **By age, not by presence** (rule 2 of `wake`). In lock-step programs, a woken thread sits in its waker's
//! next-slot for less than a hundred nanoseconds. A thief that took it would tear a pair apart, and each
//! later hand-off would cost two cache misses. So a searcher notes what it sees ([`LwpSnapshot`]), and takes
//! only what still waits `age` later. That is the next-slot if the LWP has not dispatched meanwhile, or half
//! of the ring.
//!
//! **A thief wakes the next** (rule 8). Otherwise, of four threads that met at a barrier on sixteen CPUs, one
//! waited in a ring for most of each round. Twelve LWPs slept meanwhile.
//!
//! **An LWP that waits for this CPU goes first.** If other processes have the other CPUs, two LWPs share one.
//! While the searcher looks, the other cannot move, so all that it has looks stale. A thief that fell for
//! that tore a pair apart at each of its naps. One half was left on a stack that the other LWP stood on. That
//! LWP waited for the CPU, and the thief on that CPU waited for the stack: 4 ms a hand-off. So before the
//! searcher steals from an LWP that was last on its own CPU, it gives the CPU away. It steals if that LWP has
//! not dispatched then.
//!
//! **A look is at a few.** It goes to eight of the LWPs that may have something, and the next look to those
//! after them. The LWPs that search at once begin at different ones. (A look at 64 touched 193 lines that
//! others write.) An LWP that was lent a slot, and found nothing, goes on from there with its next loan. If
//! the processors have more than one last cache, six of the eight are LWPs that share the thief's
//! (`lwp_set::Near`), and come first.
//!
//! **On one CPU** a searcher gives the CPU away between two looks. Whatever makes a thread runnable needs
//! that CPU, be it an LWP or a kernel thread of the program. To spin for 50 us there takes as long as a
//! hundred hand-offs, for nothing.
//!
//! **A steal must pay** (rule 3). A thief that runs dry within `STEAL_PAYS` doubles its `age`. So does a
//! victim that runs dry within `ROBBED`: the work has only moved. (A thread that creates ten others and joins
//! them moves along with those that were stolen. Without the victim's verdict, the two LWPs would rob each
//! other forever, each with a cold cache.) If an LWP's `age` exceeds its spin time, it does not spin at all.
//! It asks for quiet for as long as its `age` (rule 4).
//!
//! **An LWP watches** (rule 6). While others run, a sleeper naps, if none naps yet: it is the watcher. The
//! last to sleep sleeps deeply, until shortly before its own next deadline (`lwp::lead`). Then the monitor
//! may sleep deeply too. So the thread that makes an LWP run again wakes the monitor (`notice_activity`).

use std::cell::Cell;
use std::ptr::NonNull;

use super::{Scheduler, deref, policy};
use crate::mxn::green::Green;
use crate::mxn::lwp::{First, Lwp, LwpSnapshot};
use crate::mxn::timer::{BATCH, NEVER};
use crate::park::priority::Priority;
use crate::recorder::event::Kind;
use crate::shim;
use crate::shim::atomic::{Ordering, fence};
use crate::shim::poll_set::Events;
use crate::sys::kthread::ExactTimers;

impl Scheduler {
    /// Looks for work until there is some. Returns `None` if the slot is gone, or the runtime stops.
    pub(super) fn search(&'static self, lwp: &'static Lwp) -> Option<&'static Green> {
        let mut now = self.clock.now();
        let mut age = self.judge_last_steal(lwp, now);
        let mut nap = policy::MIN_NAP;
        let mut trial = false;
        let mut searching = self.idle.begin_search(self.pool.slots());
        let mut spin = if age <= policy::SPIN { policy::SPIN } else { 0 };
        if self.slots.lent() > 0 {
            // The thread for which a slot was lent may lie in the ring of the LWP that is stuck.
            (age, spin) = (policy::MIN_AGE, policy::TRIAL);
        }
        if spin == 0 {
            self.idle.be_quiet_until(now + age);
        }
        lwp.search.begin(lwp.tick.get(), lwp.index, |chance| self.pool.start_in_turn(chance));
        let mut next_poll = 0;
        loop {
            let until = now + spin;
            while searching && now < until {
                if let Some(green) = self.look_around(lwp, now, age) {
                    return Some(self.found(lwp, green));
                }
                if now >= next_poll {
                    next_poll = now + policy::BETWEEN_POLLS;
                    if self.poll_descriptors(lwp)
                        && let Some(green) = lwp.queue.ring.pop()
                    {
                        return Some(self.found(lwp, green));
                    }
                    lwp.counters.ran_dry.add_alone();
                }
                if lwp.search.in_the_way.take() {
                    searching = self.step_aside();
                }
                if self.is_on_one_cpu() {
                    // A thread that makes work is not on another CPU. It waits for this one.
                    shim::yield_cpu();
                } else {
                    for _ in 0..policy::PAUSES {
                        shim::spin_hint();
                    }
                }
                now = self.clock.now();
            }
            if trial {
                // The wake-up was for nothing.
                let again_and_again = lwp.search.age.get() == policy::MAX_AGE;
                lwp.search.double_age(policy::MAX_AGE);
                let quiet = if again_and_again { policy::LONG_QUIET } else { lwp.search.age.get() };
                self.idle.be_quiet_until(now + quiet);
                trial = false;
            }
            if self.return_loan(lwp) {
                if searching {
                    self.end_search();
                }
                return None;
            }
            match self.sleep(lwp, searching, &mut nap) {
                Slept::Woken => {
                    trial = true;
                    // One trial at the least age. If it does not pay, the earlier age counts again.
                    (age, spin) = (policy::MIN_AGE, policy::TRIAL);
                }
                Slept::Napped => spin = policy::GLIMPSE + lwp.lead.take(),
                Slept::Found(green) => return Some(self.found(lwp, green)),
                Slept::Over => {
                    self.idle.end_search();
                    return None;
                }
            }
            // However the sleep ended, the sleeper left the set as a searcher.
            searching = true;
            now = self.clock.now();
        }
    }

    /// Ends the search because work was found, and makes other LWPs look for the rest.
    fn found(&'static self, lwp: &Lwp, green: NonNull<Green>) -> &'static Green {
        let was_last = self.idle.end_search();
        self.wake_for_backlog();
        let left_some = lwp.search.left_some.take();
        // The second condition: the watcher has found something, or was woken, so no other LWP looks at
        // what was stolen with it.
        if was_last
            && (self.has_shared()
                || !lwp.queue.ring.is_empty() && !self.idle.is_watched()
                || left_some && lwp.search.age.get() <= policy::SPIN)
        {
            self.wake_searcher();
        }
        deref(green)
    }

    /// Wakes two LWPs while more threads wait in the injection queue than LWPs run. Each of them does the
    /// same. If each woke one, 64 LWPs would be awake after 64 wake-ups in a row; so they are after seven.
    fn wake_for_backlog(&self) {
        for _ in 0..2 {
            let sleeping = self.idle.look().sleeping;
            let running = self.pool.slots().saturating_sub(sleeping);
            if sleeping == 0 || self.inject.len() <= running as usize {
                return;
            }
            let Some(index) = self.idle.take_sleeper(self.near.here()) else { return };
            self.wake_lwp(self.pool.lwp(index));
        }
    }

    /// Ends a search that has found nothing. A waker that left a thread to this searcher did not wake
    /// another.
    fn end_search(&'static self) {
        if self.idle.end_search() && self.has_shared() {
            self.wake_searcher();
        }
    }

    /// Gives the CPU to the LWP that waits for it. The caller may get it back only after milliseconds, so
    /// it does not count as a searcher meanwhile. Returns `true` if it searches again.
    fn step_aside(&'static self) -> bool {
        self.end_search();
        shim::yield_cpu();
        self.idle.begin_search(self.pool.slots())
    }

    /// Judges whether the last steals paid (rule 3). Returns the age to go by.
    fn judge_last_steal(&self, lwp: &Lwp, now: u64) -> u64 {
        let recent = |at: u64, span: u64| at != 0 && now.saturating_sub(at) < span;
        let stole_at = lwp.search.stole_at.replace(0);
        let robbed_at = lwp.take_robbed_at();
        let age = &lwp.search.age;
        if recent(stole_at, policy::STEAL_PAYS) || recent(robbed_at, policy::ROBBED) {
            lwp.search.double_age(policy::MAX_AGE);
        } else if stole_at != 0 {
            age.set(policy::MIN_AGE);
        }
        age.get()
    }

    /// Looks at everything once. Takes what is injected or due at once, and what others have only if it has
    /// waited for `age`.
    fn look_around(&'static self, lwp: &'static Lwp, now: u64, age: u64) -> Option<NonNull<Green>> {
        if let Some(green) = self.look_at_own(lwp, now) {
            return Some(green);
        }
        if !self.pool.has_others_active(lwp) {
            return self.take_low(lwp);
        }
        for victim in self.victims(lwp) {
            if victim.timers.next() <= now && self.fire_timers(victim, lwp) {
                return lwp.queue.ring.pop();
            }
            if let Some(green) = self.steal(victim, lwp, now, age) {
                lwp.search.stole_at.set(now);
                lwp.search.left_some.set(!victim.queue.ring.is_empty() || !lwp.queue.ring.is_empty());
                victim.was_robbed(now);
                lwp.counters.steals.add_alone();
                self.trace_steal(lwp, victim);
                return Some(self.sift_stolen(lwp, green));
            }
        }
        self.take_low(lwp)
    }

    /// Returns the LWPs to look at next: the ones after those that this LWP has looked at last, and first
    /// those that are near. The search repeats the look, and so comes to all of them.
    fn victims(&self, lwp: &'static Lwp) -> impl Iterator<Item = &'static Lwp> {
        let near = self.near.settle(lwp);
        let after = move |next: &'static Cell<u32>, are_near: bool, most: usize| {
            let is_wanted = move |victim: &&'static Lwp| {
                near.is_none_or(|near| near.contains(victim.index) == are_near) && !std::ptr::eq(*victim, lwp)
            };
            let wanted = self.pool.active(next.get()).filter(is_wanted).take(most);
            wanted.inspect(|victim| next.set(victim.index + 1))
        };
        let far = if near.is_some() { policy::FAR_VICTIMS } else { 0 };
        let nearest = after(&lwp.search.next_victim, true, policy::VICTIMS - far);
        nearest.chain(after(&lwp.search.next_far, false, far))
    }

    /// Takes what needs no stealing and is not of low priority.
    fn look_at_own(&'static self, lwp: &'static Lwp, now: u64) -> Option<NonNull<Green>> {
        if lwp.timers.next() <= now {
            self.fire_timers(lwp, lwp);
        }
        self.levels
            .take_high()
            .or_else(|| lwp.queue.ring.pop())
            .or_else(|| lwp.queue.next.take())
            .or_else(|| lwp.pinned.pop(Priority::Normal))
            .or_else(|| self.pop_injected(lwp))
            .or_else(|| self.pop_preempted())
    }

    /// Takes what has waited on `victim` for `age`: from its next-slot, or half of its ring.
    fn steal(&self, victim: &'static Lwp, lwp: &'static Lwp, now: u64, age: u64) -> Option<NonNull<Green>> {
        if !victim.has_stealable() {
            return None;
        }
        // If another LWP looks at it this moment, that will do.
        victim.snapshot.try_with(|snapshot| self.compare(snapshot, victim, lwp, now, age)).flatten()
    }

    /// Steals from an LWP that never runs dry, before this LWP runs a preempted thread that has had its
    /// share. Otherwise the threads that arrive there would take turns on that LWP alone.
    #[cold]
    pub(super) fn steal_beside_preempted(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        if self.preempted.len() == 0 || !self.preempted_have_their_share() {
            return None;
        }
        let (now, age) = (self.clock.now(), lwp.search.age.get());
        for victim in self.victims(lwp).filter(|other| other.slot.is_held()) {
            if let Some(green) = self.steal(victim, lwp, now, age) {
                lwp.counters.steals.add_alone();
                return Some(self.sift_stolen(lwp, green));
            }
        }
        None
    }

    /// Takes some of the threads that wait on another LWP, if more than twice as many wait there. Called at a
    /// fair tick of an LWP that never runs dry. It looks at the other LWPs in turn.
    pub(super) fn balance(&'static self, lwp: &'static Lwp, turn: u32) {
        // It searches never, and may have moved.
        self.near.settle(lwp);
        let first = self.pool.active(self.pool.start_in_turn(turn)).next();
        let Some(victim) = first.filter(|first| !std::ptr::eq(*first, lwp)) else { return };
        let (theirs, ours) = (victim.queue.ring.len(), lwp.queue.ring.len());
        if theirs <= 2 * ours + policy::BALANCED {
            return;
        }
        // Half of the difference: the threads that have waited longest.
        for _ in 0..((theirs - ours) / 2).min(policy::INJECT_BATCH) {
            let Some(green) = victim.queue.ring.claim() else { break };
            self.put_back(lwp, deref(green));
        }
        lwp.counters.steals.add_alone();
    }

    /// Compares a victim's queues with the last look, and takes what has not moved for `age`.
    fn compare(
        &self,
        snapshot: &mut LwpSnapshot,
        victim: &'static Lwp,
        lwp: &'static Lwp,
        now: u64,
        age: u64,
    ) -> Option<NonNull<Green>> {
        let next = victim.queue.next.look();
        let tick = victim.tick.get();
        snapshot.had_its_turn &= tick == snapshot.tick;
        if next.is_none() || next != snapshot.next || tick != snapshot.tick {
            (snapshot.next, snapshot.tick, snapshot.next_since) = (next, tick, now);
        } else if now.saturating_sub(snapshot.next_since) >= age {
            if Self::is_in_the_way(snapshot, lwp) {
                return None;
            }
            snapshot.next = None;
            if let Some(green) = victim.queue.next.take() {
                self.blame_waker(victim);
                return Some(green);
            }
        }
        if !victim.queue.ring.still_waits(snapshot.ring) {
            (snapshot.ring, snapshot.ring_since) = (victim.queue.ring.look(), now);
        } else if now.saturating_sub(snapshot.ring_since) >= age {
            if Self::is_in_the_way(snapshot, lwp) {
                return None;
            }
            let green = victim.queue.ring.steal_into(&lwp.queue.ring);
            (snapshot.ring, snapshot.ring_since) = (victim.queue.ring.look(), now);
            return green;
        }
        None
    }

    /// Returns `true` if the LWP that is looked at waits for the CPU that this one has. That LWP is to have
    /// it first, once.
    fn is_in_the_way(snapshot: &mut LwpSnapshot, lwp: &Lwp) -> bool {
        if snapshot.had_its_turn || !snapshot.is_kept_from_running(&lwp.search) {
            return false;
        }
        snapshot.had_its_turn = true;
        lwp.search.in_the_way.set(true);
        true
    }

    /// Lets the thread that filled a next-slot, and then computed on, wake others at once from now on (rule
    /// 5).
    fn blame_waker(&self, victim: &Lwp) {
        if let Some(waker) = victim.queue.next.filled_by() {
            // It may be another thread by now: the hint goes to the wrong one, at worst.
            deref(waker).set_wakes_early(true);
        }
    }

    /// Sleeps until woken, or until there is something to look at. `searched`: the LWP counts as a searcher.
    fn sleep(&'static self, lwp: &'static Lwp, searched: bool, nap: &mut u64) -> Slept {
        lwp.counters.ran_dry.add_alone();
        lwp.sleep.prepare();
        self.idle.enter(lwp.index, searched);
        // After the fence of `enter`: what is queued from here on is queued by a thread that finds this LWP
        // in the set.
        if let Some(over) = self.last_look(lwp) {
            if self.idle.leave(lwp.index) {
                lwp.sleep.cancel();
                // This LWP was in the set. The monitor may have seen all asleep, at last.
                self.watch.notice_activity();
            } else {
                // Another thread wakes this LWP at this moment. The next sleep must not find that wake-up.
                lwp.wait(None);
            }
            return over;
        }
        let others_run = !self.do_nothing(self.pool.slots());
        let watching = others_run && self.idle.watch();
        let nap_until = if watching { self.clock.now() + *nap } else { NEVER };
        let mut events = Events::new();
        let woken = self.trace_sleep(lwp, Kind::Idle, || self.sleep_ahead(lwp, nap_until, &mut events));
        if watching {
            self.idle.unwatch();
        }
        if woken || !self.idle.leave(lwp.index) {
            if !woken {
                // Another thread wakes this LWP at this moment.
                lwp.wait(None);
            }
            self.descriptors_are_ready(&events, Some(lwp));
            // It may also have been woken because its slot was retired or moved. Then it must not begin to
            // run another thread.
            return if self.life.is_stopping() || !lwp.slot.is_held() { Slept::Over } else { Slept::Woken };
        }
        lwp.sleep.cancel();
        // This LWP may have slept for long, or all others may sleep by now, so the monitor must watch it.
        self.watch.notice_activity();
        if self.descriptors_are_ready(&events, Some(lwp)) > 0
            && let Some(green) = self.look_at_own(lwp, self.clock.now())
        {
            return Slept::Found(green);
        }
        if watching {
            *nap = (2 * *nap).min(policy::MAX_NAP);
        }
        Slept::Napped
    }

    /// Sleeps until woken (`true`), until the deadline `next`, or until the end of a nap. Only a nap may last
    /// longer.
    fn wait(&self, lwp: &Lwp, next: u64, nap_until: u64) -> bool {
        let _exact = (next < nap_until).then(ExactTimers::begin);
        lwp.wait(self.clock.moment(next.min(nap_until)))
    }

    /// Looks at all queues once more: step 3 of the idle protocol.
    fn last_look(&'static self, lwp: &'static Lwp) -> Option<Slept> {
        if self.life.is_stopping() || !lwp.slot.is_held() {
            return Some(Slept::Over);
        }
        self.look_at_own(lwp, self.clock.now()).or_else(|| self.take_low(lwp)).map(Slept::Found)
    }

    /// Gives away what an LWP without a slot has, and sleeps among the spares until it is given one.
    /// Returns `false` if the runtime stops, or if there are more spares than needed.
    pub(super) fn wait_for_slot(&'static self, lwp: &'static Lwp) -> bool {
        // The thread that it ran without a slot may have been the last of a dropped runtime.
        self.watch.notice_activity();
        while let Some(green) = lwp.queue.ring.pop().or_else(|| lwp.queue.next.take()) {
            self.queue_shared(deref(green));
        }
        if self.has_shared() {
            self.wake_searcher();
        }
        self.pool.leave_active(lwp);
        // What it will be given a slot for may be held up by a thread that was preempted.
        lwp.look_first.set(First::Preempted);
        lwp.life.show_spare_since(self.clock.now());
        let mut not_before = 0;
        loop {
            lwp.sleep.prepare();
            let spares = self.pool.enter_spares(lwp);
            self.notice_spare(spares);
            // Pairs with the fence of `stop`, which comes before the wake-ups of all LWPs.
            fence(Ordering::SeqCst);
            if self.life.is_stopping() {
                return false;
            }
            if lwp.pinned.len() > 0 && self.pool.leave_spares(lwp) {
                lwp.sleep.cancel();
                self.lend_to(lwp);
                self.watch.notice_activity();
                return true;
            }
            // Timers that were armed on this LWP still fire on it.
            // If many are due at once, there is a pause between two batches.
            let next = lwp.timers.next().max(not_before);
            let woken = self.trace_sleep(lwp, Kind::Spare, || self.wait(lwp, next, NEVER));
            if !woken && self.pool.leave_spares(lwp) {
                lwp.sleep.cancel();
                self.fire_elsewhere(lwp, Some(lwp), BATCH);
                let now = self.clock.now();
                if lwp.timers.next() <= now {
                    not_before = now + policy::BETWEEN_BATCHES;
                }
                self.wake_searcher();
                continue;
            }
            if !woken {
                lwp.wait(None);
            }
            if lwp.slot.is_held() || self.end_rest(lwp) {
                return true;
            }
            if self.life.is_stopping() || lwp.sleep.is_retired() {
                return false;
            }
        }
    }
}

/// How a sleep ended.
enum Slept {
    /// Another thread woke the LWP to look.
    Woken,
    /// A nap or a deadline is over.
    Napped,
    /// The last look found a thread.
    Found(NonNull<Green>),
    /// The slot is gone, or the runtime stops.
    Over,
}

#[cfg(all(test, loom))]
mod loom_saved_slot;
#[cfg(all(test, loom))]
mod loom_search;

#[cfg(test)]
mod lines_tests;

#[cfg(test)]
mod near_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod sleep_tests;
