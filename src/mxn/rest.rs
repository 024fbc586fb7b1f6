//! LWPs at rest: their threads sleep in the kernel, perhaps for hours, and nothing else is to be done.
//!
//! **The problem.** An LWP whose thread sleeps in `read` has its slot, as long as no other thread waits for one. If that counts as running, one sleeper
//! naps and the monitor looks round, a thousand times a second, as long as a server waits for its next connection.
//!
//! **Rejected.** *The slot goes to a spare at once*: two wake-ups, a third when the sleeper comes back and wants a slot, and all for nothing.
//! *The sleeper says when it is back*: it runs no code of ours then.
//!
//! **Protocol.** The monitor finds that an LWP has slept for long, or its region has lasted for long, and marks the slot as RESTING (`lwp::slot`).
//! Anybody with work may take it, as the slot of an LWP that announced blocking. The LWP counts as asleep: if all do, monitor and sleepers sleep without a
//! deadline.
//!
//! A thread that comes back on such an LWP goes on as one that has lost its slot: what it makes runnable goes where all look, and
//! wakes an LWP, or takes the slot. At its next dispatch, and at the next region, the LWP has its slot back, unless it was taken: `end_rest`.
//!
//! **Proof.** The LWP leaves nothing in its own queues while its slot rests. For what lies elsewhere there are two fences. If the waker's comes
//! first, the monitor's last look finds the thread; if the monitor's does, the waker finds the slot counted, takes it, and wakes the
//! monitor. Whoever ends a rest does a fence after that, and then looks whether the monitor sleeps (`monitor::watch`).
//!
//! **Counts.** `Life::open` counts slots that may be taken; `Life::resting` those of them that rest. Both are raised before the word says so, and
//! lowered after it has changed, by the one who has changed it: they are never less than there are.

use super::lwp::Lwp;
use super::lwp::slot::InHand;
use super::sched::{OPEN, Scheduler};
use crate::shim::atomic::{Ordering, fence};

impl Scheduler {
    /// Monitor: marks the slot of an LWP that has slept for long, having `announced` that or not.
    pub(super) fn rest(&self, lwp: &Lwp, announced: bool) {
        // Relaxed, here and below: counts. Fences order them where it matters (`monitor::watch`, `sched::idle`).
        self.life.resting.fetch_add(1, Ordering::Relaxed);
        let rests = if announced {
            lwp.slot.rest_announced()
        } else {
            self.life.open.fetch_add(1, Ordering::Relaxed);
            let rests = lwp.slot.rest_held();
            if !rests {
                self.life.open.fetch_sub(1, Ordering::Relaxed);
            }
            rests
        };
        if !rests {
            self.life.resting.fetch_sub(1, Ordering::Relaxed);
        } else if self.idle.leave(lwp.index) {
            // It has come back and lain down meanwhile: it must not be counted twice. (The lock orders this with its last look, as in `compensate`.)
            self.watch.notice_activity();
            self.pool.rouse(lwp);
        }
    }

    /// Owner, whose slot is not held: whether it has it back.
    #[cold]
    pub(super) fn end_rest(&self, lwp: &Lwp) -> bool {
        let rested = lwp.slot.end_rest();
        if rested {
            self.life.resting.fetch_sub(1, Ordering::Relaxed);
            self.life.open.fetch_sub(1, Ordering::Relaxed);
            self.watch.notice_activity();
        }
        rested
    }

    /// Owner: the region that it announced is over. `false`: its slot was taken.
    pub(super) fn end_region(&self, lwp: &Lwp) -> bool {
        if lwp.slot.exit_blocking() {
            self.life.open.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        self.end_rest(lwp)
    }

    /// Takes the slot of an LWP that has left it to others. The caller gives or retires it, and wakes the monitor where an LWP runs by that.
    pub(super) fn take_open(&self, lwp: &Lwp) -> Option<InHand> {
        let slot = lwp.slot.retake_announced().or_else(|| {
            let slot = lwp.slot.retake_resting()?;
            self.life.resting.fetch_sub(1, Ordering::Relaxed);
            Some(slot)
        })?;
        self.life.open.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Whether LWPs with `slots` of them do nothing: idle, or at rest. A moment's truth.
    pub(super) fn do_nothing(&self, slots: u32) -> bool {
        self.idle.look().sleeping + self.life.resting.load(Ordering::Relaxed) >= slots
    }

    /// Whether every slot's holder does nothing.
    pub(super) fn all_asleep(&self) -> bool {
        self.do_nothing(self.pool.slots() + self.life.lent.load(Ordering::Relaxed))
    }

    /// The monitor's last look before it sleeps without a round to wake it.
    pub(super) fn may_sleep_deeply(&self) -> bool {
        if !self.all_asleep() || self.has_shared() || self.pool.lwps().any(Lwp::has_stealable) {
            return false;
        }
        // Those that sleep have counted the threads that ended there before.
        fence(Ordering::Acquire);
        self.life.phase.load(Ordering::Relaxed) == OPEN || self.is_kept_open()
    }

    /// Whether a thread keeps a runtime that was dropped from its end, and nobody from outside does: the thread's end will be noticed.
    fn is_kept_open(&self) -> bool {
        self.life.visitors.load(Ordering::SeqCst) == 0 && self.live_threads() > 0
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_rest.rs"]
mod loom_rest;
