//! Priorities on the run queues: threads that are more or less urgent than those in next-slots and rings.
//!
//! **The problem.** Wherever an LWP picks, a thread of high priority must be next. One of low priority is
//! last, but must run in the end. A thread that is raised while it waits must not go on waiting where it is.
//! A program that uses no priorities must pay nothing for them.
//!
//! **Rejected.**
//!
//! - A ring for each level and LWP. A high thread would wait behind a low one that runs on its LWP, while
//!   other LWPs dispatch normal ones. Every look for work would look at three times as much.
//! - Priorities as a hint to thieves (late); one shared list for all threads (`_schedlock`).
//! - To find a raised thread when it is taken off its ring. That is the delay to be avoided.
//! - A second entry for a raised thread, in the higher queue. The second LWP to come to the thread must find
//!   that it is gone. That costs a read-modify-write for each dispatch of each thread.
//!
//! **The queues.** Normal threads stay where they are. High and low ones wait in a shared queue each
//! (`inject`). One word ([`Urgent`]) tells every pick, by one load, that something goes before the normal
//! path. The LWP then picks in its dispatcher. An LWP takes a low thread if it has nothing of its own, and
//! nothing can be stolen *at once*. To wait until another thread is old enough to be stolen (`search`) would
//! leave the CPU idle. A thread that is old enough is stolen first.
//!
//! **No thread starves.** If no thread was taken off the low queue for `LOW_AGE`, the monitor owes it a turn,
//! and the next dispatcher pays. Dispatches are no measure: one may last a slice, or a few nanoseconds. The
//! clock is the monitor's, since dispatches of normal threads have none. An LWP that has taken high threads
//! for `HIGH_RUN` on end takes a normal one in between.
//!
//! **Changing the priority of a thread** that may be anywhere, in this order:
//!
//! 1. The byte in its core is stored.
//! 2. The shared queues are locked one after the other. If the thread is found, it moves to the queue of its
//!    priority. A push to a shared queue reads the priority *under the lock*.
//! 3. If it is not found, every LWP gets the flag `sift`. At its next dispatch, it filters its next-slot and
//!    ring (256 threads at most).
//! 4. If it was raised, next-slots and rings are searched at once, since an LWP may not dispatch for long.
//!    The threads before it in its ring are claimed with it, and go to the shared queues.
//!
//! **Proof** that no thread stays in the queue of the priority that it had before 1. Shared queues: the push
//! or the removal has the lock first. If the push has, the removal finds the thread. Otherwise the push sees
//! the new byte. Rings and next-slots: only their LWP fills them, and it does not dispatch between its look
//! at the byte and the push. If that look missed the new byte, the LWP had not consumed the flag, which was
//! stored with release after the byte. So it consumes the flag after the push, and sifts. A thief may take
//! from a ring that was not sifted. So it sifts what it has stolen, if any priority was ever changed. If it
//! misses that, it has not consumed its own flag yet, and sifts later.
//!
//! Cost to normal threads: a load for each pick and each thread made runnable, a store for each switch.

use std::ptr::NonNull;

use super::{Scheduler, deref, policy};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::run_queue::inject::Inject;
use crate::park::priority::Priority;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::shim::global;

/// What goes before the normal path.
///
/// | bit | means | set by | cleared by |
/// |---|---|---|---|
/// | `HIGH` | the high queue is not empty | a push there, under its lock | what empties it, under its lock |
/// | `OWED` | the low queue is owed a turn | the monitor | the dispatcher that pays |
#[derive(Debug)]
struct Urgent(AtomicU32);

const HIGH: u32 = 1;
const OWED: u32 = 2;

impl Urgent {
    #[inline]
    fn is_any(&self) -> bool {
        // Relaxed: seen at the next dispatch at the latest. `idle` prevents that an LWP sleeps meanwhile.
        self.0.load(Ordering::Relaxed) != 0
    }

    fn set(&self, bit: u32) {
        // Relaxed, here and below: the queue's lock orders what the bit speaks of.
        self.0.fetch_or(bit, Ordering::Relaxed);
    }

    /// Clears a bit. Returns `true` if it was set.
    fn clear(&self, bit: u32) -> bool {
        self.0.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }
}

/// The shared queues of a runtime for threads that are not of normal priority.
#[derive(Debug)]
pub(crate) struct PriorityQueues {
    urgent: Urgent,
    high: Inject<Green>,
    low: Inject<Green>,
    /// How many threads were taken off the low queue so far. Relaxed: the monitor compares it.
    low_turns: AtomicU32,
    /// The priority of a thread that may be in a ring has changed at least once.
    sifting: AtomicBool,
}

impl PriorityQueues {
    pub(crate) fn new() -> Self {
        Self {
            urgent: Urgent(AtomicU32::new(0)),
            high: Inject::new(),
            low: Inject::new(),
            low_turns: AtomicU32::new(0),
            sifting: AtomicBool::new(false),
        }
    }

    /// Returns `true` if something goes before the normal path.
    #[inline]
    pub(crate) fn are_urgent(&self) -> bool {
        self.urgent.is_any()
    }

    /// Returns how many threads of high priority wait; may be late by one push or pop under way.
    pub(crate) fn high(&self) -> usize {
        self.high.len()
    }

    /// Returns `true` if low threads have waited for so long that they are owed a turn.
    pub(crate) fn owe_low(&self) -> bool {
        self.low.len() > 0 && self.urgent.0.load(Ordering::Relaxed) & OWED != 0
    }

    /// Returns how many threads wait; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    pub(in crate::mxn) fn take_high(&self) -> Option<NonNull<Green>> {
        self.high.take(|| {
            self.urgent.clear(HIGH);
        })
    }

    pub(in crate::mxn) fn take_low(&self) -> Option<NonNull<Green>> {
        let low = self.low.take(|| ())?;
        self.low_turns.fetch_add(1, Ordering::Relaxed);
        Some(low)
    }

    /// Touches its atomics, so that they exist in the model.
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        let _ = (self.are_urgent(), self.len());
        let _ = (self.low_turns.load(Ordering::Relaxed), self.sifting.load(Ordering::Relaxed));
        Visit::close();
    }

    /// Appends a thread to the queue of its priority. Returns `false` if that is normal.
    fn push(&self, green: &'static Green) -> bool {
        let is = |level| green.core.priority.get() == level;
        loop {
            let level = green.core.priority.get();
            let pushed = match level {
                Priority::Normal => return false,
                Priority::High => self.high.push_if(green.ptr(), || {
                    let high = is(level);
                    if high {
                        self.urgent.set(HIGH);
                    }
                    high
                }),
                Priority::Low => self.low.push_if(green.ptr(), || is(level)),
            };
            if pushed {
                return true;
            }
        }
    }

    /// Takes a thread out, if it waits here. The caller then owns it.
    fn remove(&self, green: &'static Green) -> bool {
        let emptied = || {
            self.urgent.clear(HIGH);
        };
        self.high.remove(green.ptr(), emptied) || self.low.remove(green.ptr(), || ())
    }
}

/// What the monitor remembers of the low queue.
#[derive(Debug, Default)]
pub(crate) struct Aging {
    turns: u32,
    since: u64,
}

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

    /// Puts a thread, which the caller owns and which lost its slice, last of its priority. Wakes no LWP.
    pub(crate) fn queue_preempted(&self, green: &'static Green) {
        let noted = || {
            let normal = green.core.priority.is_normal();
            if normal {
                self.shares.note(green.ran());
            }
            normal
        };
        while !self.levels.push(green) && !self.preempted.push_if(green.ptr(), noted) {}
    }

    /// Makes a thread, which the caller owns, runnable by way of the shared queue of its priority.
    #[cold]
    pub(super) fn ready_by_level(&'static self, green: &'static Green) {
        // Afterwards the thread may be gone.
        let level = green.core.priority.get();
        self.queue_shared(green);
        self.wake_for_level(level);
    }

    /// Wakes an LWP for a thread of this priority that was put into a shared queue.
    pub(super) fn wake_for_level(&'static self, level: Priority) {
        self.wake_searcher();
        // If an LWP searches, it finds the thread. Otherwise none slept, or the woken one has found work.
        if level == Priority::High && self.idle.look().searching == 0 {
            self.request_preemption_below(level);
        }
    }

    /// Takes what goes before the normal path. `Err(true)`: it is a normal thread's turn.
    #[cold]
    pub(super) fn pick_urgent(&'static self, lwp: &'static Lwp) -> Result<NonNull<Green>, bool> {
        if self.levels.urgent.clear(OWED)
            && let Some(low) = self.levels.take_low()
        {
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

    /// Returns `true` if the LWP has run high threads for long enough, while a normal one waits here.
    fn is_normal_owed(&self, lwp: &Lwp) -> bool {
        let (now, tick) = (self.clock.now(), lwp.tick.get());
        let mut run = lwp.high_run.get();
        let interrupted = tick.wrapping_sub(run.tick) > 1;
        let owed = !interrupted
            && now.saturating_sub(run.since) >= policy::HIGH_RUN
            && (lwp.has_queued() || self.inject.len() > 0 || self.preempted.len() > 0);
        if interrupted || owed {
            run.since = now;
        }
        run.tick = tick;
        lwp.high_run.set(run);
        owed
    }

    /// Takes a low thread that this LWP may run.
    pub(super) fn take_low(&self, lwp: &Lwp) -> Option<NonNull<Green>> {
        self.levels.take_low().or_else(|| lwp.pinned.pop(Priority::Low))
    }

    /// Takes a low thread if no LWP has anything else. If there is something to steal, the search decides.
    pub(super) fn pick_low(&self, lwp: &Lwp) -> Option<NonNull<Green>> {
        if self.levels.low.len() + lwp.pinned.len() == 0 {
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
        let levels = &self.levels;
        // Relaxed: see its field.
        let turns = levels.low_turns.load(Ordering::Relaxed);
        if levels.low.len() == 0 || turns != aging.turns {
            (aging.turns, aging.since) = (turns, 0);
            return;
        }
        let now = self.clock.now();
        if aging.since == 0 {
            aging.since = now;
        } else if now.saturating_sub(aging.since) >= policy::LOW_AGE {
            aging.since = now;
            levels.urgent.set(OWED);
        }
    }

    /// Moves `green`, wherever it is, after its priority has changed. The caller keeps the runtime alive.
    pub(crate) fn reprioritize(&'static self, green: &'static Green) {
        // Relaxed: for each LWP that consumes its flag, the flag's release orders this.
        self.levels.sifting.store(true, Ordering::Relaxed);
        if self.placement.has_homes() && self.pool.lwps().any(|lwp| lwp.pinned.remove(green.ptr())) {
            return self.ready_at_home(green);
        }
        let gone = || ();
        if self.levels.remove(green)
            || self.inject.remove(green.ptr(), gone)
            || self.preempted.remove(green.ptr(), gone)
        {
            return self.move_to_level(green);
        }
        for lwp in self.pool.lwps() {
            lwp.ask_to_sift();
            lwp.flags.look();
        }
        if green.core.priority.get() > Priority::Normal
            && self.pool.lwps().any(|lwp| self.pull_out(lwp, green))
        {
            self.move_to_level(green);
        }
    }

    /// Moves a thread that was found in step 2 or 4.
    fn move_to_level(&'static self, green: &'static Green) {
        let level = green.core.priority.get();
        self.queue_shared(green);
        self.wake_for_level(level);
    }

    /// Claims a thread that waits on an LWP, with those before it. These go to the shared queues.
    fn pull_out(&self, lwp: &Lwp, green: &'static Green) -> bool {
        lwp.queue.remove(green.ptr(), |before| self.queue_shared(deref(before)))
    }

    /// Filters the queues of the LWP at a dispatch, if it was told to. Owner only.
    #[inline]
    pub(super) fn sift_if_told(&'static self, lwp: &Lwp) {
        if lwp.take_sift() && self.sift(lwp) {
            self.wake_searcher();
        }
    }

    /// Moves the threads in the next-slot and ring that are not normal to their queues. Returns `true` if
    /// there were any. Owner only.
    #[cold]
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
    pub(super) fn sift_stolen(&self, lwp: &'static Lwp, first: NonNull<Green>) -> NonNull<Green> {
        // Relaxed: a thief that does not see it has not consumed its flag yet.
        if !self.levels.sifting.load(Ordering::Relaxed) {
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

global! {
    // Orders visits, which come by a thread's handle, with the end of the runtime.
    static VISITS: QueueLock<()> = QueueLock::new(Rank::Pool, ());
}

/// Keeps a runtime from ending while code that came by the handle of one of its threads uses it.
pub(crate) struct Visit(&'static Scheduler);

impl Visit {
    /// Visits the runtime of a green thread, unless that has ended. The caller has a counted reference.
    pub(crate) fn of(thread: ThreadRef) -> Option<Self> {
        if thread.is_lost() {
            // Its runtime is a parent process's.
            return None;
        }
        // A runtime that ends counts all its threads as ended, takes this lock, and then must see no visitor.
        // If it takes the lock after this code, it sees the visitor. If it took it before, `is_done` says so.
        VISITS.with(|()| {
            if thread.is_done() {
                return None;
            }
            let scheduler = Scheduler::of(thread);
            scheduler.life.enter_locked();
            Some(Self(scheduler))
        })
    }

    /// Returns the runtime.
    pub(crate) fn scheduler(&self) -> &'static Scheduler {
        self.0
    }

    /// Makes the lock usable in a child of a fork, where no visit is under way.
    ///
    /// # Safety
    /// Called by the child's only thread, which is not inside [`Visit::of`].
    pub(crate) unsafe fn forget_all() {
        // SAFETY: the caller's promise.
        unsafe { VISITS.mend(|(), _| ()) };
    }

    /// Makes all later visits see that the threads have ended. Called at the end of a runtime.
    pub(crate) fn close() {
        VISITS.with(|()| ());
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.life.leave();
    }
}

#[cfg(all(test, loom))]
mod loom_priority;

#[cfg(test)]
mod tests;
