//! LWPs at rest: their threads sleep in the kernel, perhaps for hours, while there is no other work.
//!
//! **The problem.** An LWP with a thread asleep in `read` keeps its slot as long as no other thread waits for
//! one. Suppose that such an LWP counted as running. Then, while a server waits for its next connection, an
//! idle LWP would nap and the monitor would look round, a thousand times a second.
//!
//! **Rejected.**
//!
//! - *Give the slot to a spare at once.* That takes two wake-ups, and a third when the sleeper comes back and
//!   wants a slot, all for nothing.
//! - *Let the sleeper say when it is back.* It runs no code of ours then.
//!
//! **Protocol.** The monitor finds that an LWP has slept for long, or that its region has lasted for long. It
//! marks the slot as RESTING (`lwp::slot`). Any thread with work may take that slot, as it may take the slot
//! of an LWP that announced blocking. The LWP counts as asleep. If all LWPs do, the monitor has no rounds and
//! the idle LWPs do not nap.
//!
//! A thread that comes back on such an LWP goes on as if the LWP had lost its slot. What it makes runnable
//! goes to a shared queue, and either wakes an idle LWP or takes the slot. At its next dispatch or region,
//! the LWP takes its slot back with `end_rest`, unless another LWP has got it.
//!
//! **Proof.** The LWP leaves nothing in its own queues while its slot rests. For threads that are queued
//! elsewhere there are two fences: the waker's and the monitor's. If the waker's comes first, the monitor's
//! last look finds the thread. If the monitor's comes first, the waker finds the slot counted, takes it, and
//! wakes the monitor. A thread that ends a rest does a fence after that, and then looks whether the monitor
//! sleeps (`monitor::watch`).
//!
//! **Counts.** `Life::open` counts the slots that may be taken, and `Life::resting` those of them that rest.
//! Both are raised before the slot word changes, and lowered afterwards by the thread that has changed it. So
//! a count is never less than the number of such slots.

use super::lwp::Lwp;
use super::lwp::slot::InHand;
use super::sched::{OPEN, Scheduler};
use crate::shim::atomic::{Ordering, fence};

impl Scheduler {
    /// Monitor: marks the slot of an LWP that has slept for long. `announced`: the LWP had announced
    /// blocking.
    pub(super) fn rest(&self, lwp: &Lwp, announced: bool) {
        // Relaxed, here and below: counts. Fences order them where that matters (`monitor::watch`,
        // `sched::idle`).
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
            // It has come back and gone idle meanwhile, and must not be counted twice. (The lock in `leave`
            // orders this with its last look, as in `retake_held`.)
            self.watch.notice_activity();
            self.pool.rouse(lwp);
        }
    }

    /// Owner, without its slot: ends its rest. Returns `true` if it has its slot back.
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

    /// Owner: ends the region that it announced. `false`: its slot was taken.
    pub(super) fn end_region(&self, lwp: &Lwp) -> bool {
        if lwp.slot.exit_blocking() {
            self.life.open.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        self.end_rest(lwp)
    }

    /// Takes the slot of an LWP if it is open. The caller gives or retires the slot. If an LWP runs as a
    /// result, the caller also wakes the monitor.
    pub(super) fn take_open(&self, lwp: &Lwp) -> Option<InHand> {
        let slot = lwp.slot.retake_announced().or_else(|| {
            let slot = lwp.slot.retake_resting()?;
            self.life.resting.fetch_sub(1, Ordering::Relaxed);
            Some(slot)
        })?;
        self.life.open.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Returns `true` if LWPs that do nothing, because they are idle or at rest, have at least `slots` slots.
    /// The answer may be outdated at once.
    pub(super) fn do_nothing(&self, slots: u32) -> bool {
        self.idle.look().sleeping + self.life.resting.load(Ordering::Relaxed) >= slots
    }

    /// Returns `true` if the holder of every slot does nothing.
    pub(super) fn all_asleep(&self) -> bool {
        self.do_nothing(self.pool.slots() + self.life.lent.load(Ordering::Relaxed))
    }

    /// Returns `true` if the monitor may sleep until it is woken: its last look before it does.
    pub(super) fn may_sleep_deeply(&self) -> bool {
        if !self.all_asleep() || self.has_shared() || self.pool.lwps().any(Lwp::has_stealable) {
            return false;
        }
        // Pairs with `Idle`'s release: before an LWP sleeps, it has counted the threads that ended on it.
        fence(Ordering::Acquire);
        self.life.phase.load(Ordering::Relaxed) == OPEN || self.is_kept_open()
    }

    /// Returns `true` if one of the runtime's own threads keeps a dropped runtime from ending, and no visitor
    /// does. The end of that thread will be noticed.
    fn is_kept_open(&self) -> bool {
        self.life.visitors.load(Ordering::SeqCst) == 0 && self.live_threads() > 0
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_rest.rs"]
mod loom_rest;
