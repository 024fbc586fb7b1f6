//! Priorities on the run queues: who is more or less urgent than the threads in next-slots and rings.
//!
//! **The problem.** A thread of high priority must be next wherever an LWP picks, a low one last but not never, a
//! thread that is raised while it waits must not wait on where it is; and the threads of a program that knows no priorities
//! must pay nothing for that.
//!
//! **Rejected.** A ring for each level and LWP (a thread of high priority would wait behind one of low priority that runs on its
//! LWP, while others dispatch normal ones; and every look for work looks at three times as much). Priorities as a hint to
//! thieves (late). One shared list for all (`_schedlock`). For a raised thread: to find it when it is taken off its ring (that is
//! what was to be avoided); a second entry for it in the higher queue (whoever comes second must find that it is
//! gone: a read-modify-write for each dispatch of each thread).
//!
//! **The queues.** Normal threads are where they always were. High and low ones wait in a shared queue each (`inject`). One word
//! ([`Urgent`]) tells every LWP's pick by one load whether something goes before the normal path; then the way
//! leads over the dispatcher. Low threads are taken where an LWP has nothing of its own and finds nothing to steal *at once*: to
//! wait until something lies long enough to be stolen (`search`) would leave a CPU idle that a runnable thread could have; what has
//! lain for long is stolen first.
//!
//! **Nobody starves.** The monitor owes the low queue a turn whenever nobody was taken off it for `LOW_AGE`; the next
//! dispatcher pays. (By time and not by dispatches: a turn may last a slice, and a normal thread's a few nanoseconds. With the
//! clock of the monitor: dispatches of normal threads have none.) An LWP that has taken high threads for `HIGH_RUN` on end
//! takes a normal one in between.
//!
//! **Changing the priority of a thread** that may be anywhere, in this order:
//!
//! 1. The byte in its core is stored.
//! 2. The shared queues are locked one after the other: found there, the thread is moved to the one where it belongs. Whoever
//!    pushes to a shared queue asks for the priority *under its lock*.
//! 3. Not found: every LWP gets the flag `sift`, and filters its next-slot and ring at its next dispatch. (256 threads at
//!    most.)
//! 4. If it was raised, next-slots and rings are looked through at once, since an LWP may not dispatch for long. The
//!    threads before it in its ring are claimed with it, and go to the injection queue.
//!
//! **Proof** that none is left in a queue that its priority had been before 1. Shared queues: of the push and the removal, one
//! has the lock first; if it is the push, the removal finds the thread, else the push sees the new byte. Rings and
//! next-slots: only their LWP fills them, and between its look at the byte and the push it does not dispatch. If
//! the look was too early to see the new byte, then the LWP had not consumed the flag yet (which was stored with release after the
//! byte), so it consumes the flag after the push, and sifts. A thief: it takes from a ring that may not have been sifted;
//! so it sifts what it has stolen, if any priority was ever changed. If it does not see that one was, it has not consumed its own
//! flag yet, and sifts later.
//!
//! Cost of all this to normal threads: a load for each pick and for each thread that is made runnable, a store for each
//! switch (what the LWP runs).

use std::ptr::NonNull;

use super::inject::Inject;
use super::{Scheduler, deref, policy, take};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::tls::Rung;
use crate::park::priority::Priority;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::shim::{global, store_pointer_among_swaps};

/// What goes before the normal path.
///
/// | bit | means | set by | cleared by |
/// |---|---|---|---|
/// | `HIGH` | the high queue is not empty | who pushes there, under its lock | who empties it, under its lock |
/// | `OWED` | the low queue is owed a turn | the monitor | the dispatcher that pays |
#[derive(Debug)]
struct Urgent(AtomicU32);

const HIGH: u32 = 1;
const OWED: u32 = 2;

impl Urgent {
    #[inline]
    fn is_any(&self) -> bool {
        // Relaxed: seen at the next dispatch at the latest; that no LWP sleeps on it is the business of `idle`.
        self.0.load(Ordering::Relaxed) != 0
    }

    fn set(&self, bit: u32) {
        // Relaxed, here and below: the queue's lock orders what the bit speaks of.
        self.0.fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether it was set.
    fn clear(&self, bit: u32) -> bool {
        self.0.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }
}

/// The shared queues of a runtime for threads that are not of normal priority.
#[derive(Debug)]
pub(crate) struct Levels {
    urgent: Urgent,
    high: Inject<Green>,
    low: Inject<Green>,
    /// Threads taken off the low queue so far. Relaxed: the monitor compares it.
    low_turns: AtomicU32,
    /// The priority of a thread that may be in a ring has changed, once.
    sifting: AtomicBool,
}

impl Levels {
    pub(crate) fn new() -> Self {
        Self {
            urgent: Urgent(AtomicU32::new(0)),
            high: Inject::new(),
            low: Inject::new(),
            low_turns: AtomicU32::new(0),
            sifting: AtomicBool::new(false),
        }
    }

    /// Whether something goes before the normal path.
    #[inline]
    pub(crate) fn are_urgent(&self) -> bool {
        self.urgent.is_any()
    }

    /// How many threads of high priority wait; may be late by one push or pop under way.
    pub(crate) fn high(&self) -> usize {
        self.high.len()
    }

    /// Whether low threads have waited for so long that they are owed a turn.
    pub(crate) fn owe_low(&self) -> bool {
        self.low.len() > 0 && self.urgent.0.load(Ordering::Relaxed) & OWED != 0
    }

    /// How many wait; may be late by one push or pop under way.
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

    /// Its atomics come into being.
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        let _ = (self.are_urgent(), self.len());
        let _ = (self.low_turns.load(Ordering::Relaxed), self.sifting.load(Ordering::Relaxed));
        Visit::close();
    }

    /// Appends a thread to the queue of its priority, or tells that it is a normal one.
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

    /// Takes a thread out, if it waits here; the caller owns it then.
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
    /// Whether anything waits in the shared queues.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        self.inject.len() > 0 || self.preempted.len() > 0 || self.levels.len() > 0
    }

    /// Puts a thread, which the caller owns, into the shared queue of its priority. Wakes nobody.
    pub(crate) fn queue_shared(&self, green: &'static Green) {
        let normal = || green.core.priority.is_normal();
        while !self.levels.push(green) && !self.inject.push_if(green.ptr(), normal) {}
    }

    /// Puts a thread that has lost its slice, which the caller owns, behind all others of its priority. Wakes nobody.
    pub(crate) fn queue_preempted(&self, green: &'static Green) {
        let noted = || {
            let normal = green.core.priority.is_normal();
            if normal {
                // Relaxed: a figure.
                self.shares.note(green.ran.load(Ordering::Relaxed));
            }
            normal
        };
        while !self.levels.push(green) && !self.preempted.push_if(green.ptr(), noted) {}
    }

    /// Makes a thread runnable that is more or less urgent than others. The caller owns it and is on an LWP.
    #[cold]
    pub(super) fn ready_by_level(&'static self, green: &'static Green) {
        // Afterwards it may be gone.
        let level = green.core.priority.get();
        self.queue_shared(green);
        self.wake_for_level(level);
    }

    /// A thread of this priority was put into a shared queue.
    pub(super) fn wake_for_level(&'static self, level: Priority) {
        self.wake_searcher();
        let look = self.idle.look();
        if level == Priority::High && look.sleeping == 0 && look.searching == 0 {
            self.request_preemption_below(level);
        }
    }

    /// What goes before the normal path; else whether it is a normal thread's turn.
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
            lwp.asked.look();
        }
        pinned
    }

    /// Whether the LWP has run high threads for long enough, while a normal one waits here.
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

    /// A low thread that this LWP may run.
    pub(super) fn take_low(&self, lwp: &Lwp) -> Option<NonNull<Green>> {
        self.levels.take_low().or_else(|| lwp.pinned.pop(Priority::Low))
    }

    /// A low thread, if there is nothing else to do on any LWP; with something to steal it is for the search to see which.
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

    /// The monitor's look at the low queue, once a round.
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

    /// `green` has got another priority (step 1 of the protocol). It may be anywhere; the caller keeps the runtime alive.
    pub(crate) fn reprioritize(&'static self, green: &'static Green) {
        // Relaxed: ordered by the flags' release, for all that consume them.
        self.levels.sifting.store(true, Ordering::Relaxed);
        if self.rung == Rung::Pinned && self.pool.lwps().any(|lwp| lwp.pinned.remove(green.ptr())) {
            return self.ready_pinned(green);
        }
        let gone = || ();
        if self.levels.remove(green)
            || self.inject.remove(green.ptr(), gone)
            || self.preempted.remove(green.ptr(), gone)
        {
            return self.move_to_level(green);
        }
        for lwp in self.pool.lwps() {
            // Release: pairs with the acquire in `sift_if_told`: see the proof.
            lwp.sift.store(true, Ordering::Release);
            lwp.asked.look();
        }
        if green.core.priority.get() > Priority::Normal
            && self.pool.lwps().any(|lwp| self.pull_out(lwp, green))
        {
            self.move_to_level(green);
        }
    }

    /// Steps 2 and 4, with the thread in hand.
    fn move_to_level(&'static self, green: &'static Green) {
        let level = green.core.priority.get();
        self.queue_shared(green);
        self.wake_for_level(level);
    }

    /// Claims a thread that waits on an LWP, with those before it, which go to the injection queue.
    fn pull_out(&self, lwp: &Lwp, green: &'static Green) -> bool {
        let it = green.ptr();
        // Acquire: as in `take`.
        let swapped = |next: &crate::shim::atomic::AtomicPtr<Green>| {
            let null = std::ptr::null_mut();
            next.compare_exchange(it.as_ptr(), null, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if lwp.next.load(Ordering::Relaxed) == it.as_ptr() && swapped(&lwp.next) {
            return true;
        }
        if lwp.ring.contains(it) {
            for _ in 0..super::local_queue::CAPACITY {
                match lwp.ring.claim() {
                    Some(oldest) if oldest == it => return true,
                    Some(oldest) => self.queue_shared(deref(oldest)),
                    None => return false,
                }
            }
        }
        false
    }

    /// Owner, at a dispatch: filters its queues if it was told to.
    #[inline]
    pub(super) fn sift_if_told(&'static self, lwp: &Lwp) {
        // Acquire: pairs with the release in `reprioritize`: see the proof.
        if lwp.sift.load(Ordering::Relaxed) && lwp.sift.swap(false, Ordering::Acquire) && self.sift(lwp) {
            self.wake_searcher();
        }
    }

    /// Owner: threads in its next-slot and ring that are not normal any more go to the queues where they belong. Whether
    /// there were any.
    #[cold]
    fn sift(&self, lwp: &Lwp) -> bool {
        let mut moved = false;
        if let Some(next) = take(&lwp.next) {
            if deref(next).core.priority.is_normal() {
                // Release: as in `ready_here`. Nobody but us fills it.
                store_pointer_among_swaps(&lwp.next, next.as_ptr(), Ordering::Release);
            } else {
                self.queue_shared(deref(next));
                moved = true;
            }
        }
        for _ in 0..lwp.ring.len() {
            let Some(green) = lwp.ring.pop() else { break };
            if !deref(green).core.priority.is_normal() || lwp.ring.push(green).is_err() {
                self.queue_shared(deref(green));
                moved = true;
            }
        }
        moved
    }

    /// A thief: what it has stolen may have been raised before (see the proof). Gives the one to run.
    #[inline]
    pub(super) fn sift_stolen(&self, lwp: &'static Lwp, first: NonNull<Green>) -> NonNull<Green> {
        // Relaxed: who does not see it has not consumed its flag yet.
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

    /// Something of this priority waits: an LWP that runs a lower thread, the lowest of all, is to dispatch as soon as it can.
    pub(crate) fn request_preemption_below(&'static self, level: Priority) {
        let mut lowest = level;
        let mut found = None;
        for lwp in self.pool.lwps().filter(|lwp| lwp.slot.is_held()) {
            // Relaxed: a hint.
            // SAFETY: null, or a green thread, which is type-stable.
            let Some(runs) = (unsafe { lwp.running.load(Ordering::Relaxed).as_ref() }) else {
                // It is about to pick, or sleeps.
                continue;
            };
            let runs = runs.core.priority.get();
            if runs < lowest {
                (lowest, found) = (runs, Some(lwp));
            }
        }
        if let Some(lwp) = found {
            lwp.asked.look();
            // It may not dispatch for long: the monitor sees to it.
            self.watch.wake();
        }
    }
}

global! {
    // Orders those who come to a runtime by a thread's handle with its end.
    static VISITS: QueueLock<()> = QueueLock::new(Rank::Pool, ());
}

/// Keeps a runtime from ending, for somebody who came by the handle of one of its threads.
pub(crate) struct Visit(&'static Scheduler);

impl Visit {
    /// The runtime of a green thread, unless the thread has ended. The caller has a counted reference.
    pub(crate) fn of(thread: ThreadRef) -> Option<Self> {
        if thread.is_lost() {
            // Its runtime is a parent process's.
            return None;
        }
        // The runtime ends after it has counted all its threads as ended, taken this lock, and then seen no visitor. If it takes
        // the lock after us, it sees us; if it took it before, we see that the thread has ended.
        VISITS.with(|()| {
            if thread.is_done() {
                return None;
            }
            let scheduler = Scheduler::of(thread);
            // Relaxed: ordered by the lock.
            scheduler.life.visitors.fetch_add(1, Ordering::Relaxed);
            Some(Self(scheduler))
        })
    }

    /// The runtime.
    pub(crate) fn scheduler(&self) -> &'static Scheduler {
        self.0
    }

    /// In a child of a fork: nobody is on the way.
    ///
    /// # Safety
    /// By the child's only thread, which is not inside [`Visit::of`].
    pub(crate) unsafe fn forget_all() {
        // SAFETY: the caller's promise.
        unsafe { VISITS.mend(|(), _| ()) };
    }

    /// For the end of a runtime: whoever comes from now on sees that its threads have ended.
    pub(crate) fn close() {
        VISITS.with(|()| ());
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // Release: shutdown, reading zero, comes after all we did.
        self.0.life.visitors.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_levels.rs"]
mod loom_levels;

#[cfg(test)]
#[path = "../tests/levels.rs"]
mod tests;
