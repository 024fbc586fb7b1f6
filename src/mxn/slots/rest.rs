//! LWPs at rest: their threads sleep in the kernel, perhaps for hours, while there is no other work.
//!
//! **The problem.** An LWP with a thread asleep in `read` keeps its slot as long as no other thread waits for
//! one. Suppose that such an LWP counted as running. Then, while a server waits for its next connection, an
//! idle LWP would nap and the monitor would look round, a thousand times a second.
//!
//! **Rejected.**
//!
//! - *Give the slot to a spare at once.* That takes two wake-ups. A third follows when the sleeper comes back
//!   and wants a slot. All are for nothing.
//! - *Let the sleeper say when it is back.* It runs no code of ours then.
//!
//! **Protocol.** The monitor finds that an LWP has slept for long, or that its region has lasted for long. It
//! marks the slot as RESTING (`slots::slot`). Any thread with work may take that slot, as it may take the
//! slot of an LWP that announced blocking. The LWP counts as asleep. If all LWPs do, the monitor has no
//! rounds and the idle LWPs do not nap.
//!
//! A thread that comes back on such an LWP goes on as if the LWP had lost its slot. What it makes runnable
//! goes to a shared queue, and either wakes an idle LWP or takes the slot. At its next dispatch or region,
//! the LWP takes its slot back with `end_rest`, unless another LWP has got it.
//!
//! **Proof.** The LWP leaves nothing in its own queues while its slot rests. For threads that are queued
//! elsewhere there are two fences: the waker's and the monitor's. If the waker's comes first, the monitor's
//! last look finds the thread. If the monitor's comes first, the waker finds the slot counted, takes it, and
//! wakes the monitor. A thread that ends a rest does a fence after that, and then looks whether the monitor
//! sleeps (`monitor::sleep`). The counts are never less than the slots that they count (`SlotCounts`).

use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::timer::NEVER;
use crate::shim::atomic::{Ordering, fence};

impl Scheduler {
    /// Marks the slot of an LWP that has slept for long. `announced`: the LWP had announced blocking. Monitor
    /// only.
    pub(in crate::mxn) fn rest(&self, lwp: &Lwp, announced: bool) {
        let slots = &self.slots;
        let rests = if announced { slots.rest_announced(&lwp.slot) } else { slots.rest_held(&lwp.slot) };
        if rests {
            // It may have come back and gone idle meanwhile, and must not be counted twice.
            self.wake_if_idle(lwp);
        }
    }

    /// Ends the rest of an LWP without its slot. Owner only. Returns `true` if it has its slot back.
    #[cold]
    pub(in crate::mxn) fn end_rest(&self, lwp: &Lwp) -> bool {
        let rested = self.slots.end_rest(&lwp.slot);
        if rested {
            self.watch.notice_activity();
        }
        rested
    }

    /// Ends the region that the LWP announced. Owner only. Returns `false` if its slot was taken.
    pub(in crate::mxn) fn end_region(&self, lwp: &Lwp) -> bool {
        self.slots.exit_blocking(&lwp.slot) || self.end_rest(lwp)
    }

    /// Returns `true` if LWPs that do nothing, because they are idle or at rest, have at least `slots` slots.
    /// The answer may be outdated at once.
    pub(in crate::mxn) fn do_nothing(&self, slots: u32) -> bool {
        self.idle.look().sleeping + self.slots.resting() >= slots
    }

    /// Returns `true` if the holder of every slot does nothing.
    pub(in crate::mxn) fn all_asleep(&self) -> bool {
        self.do_nothing(self.pool.slots() + self.slots.lent())
    }

    /// Returns `true` if the monitor may sleep until it is woken. It is the monitor's last look before that.
    ///
    /// An LWP that loses its slot leaves the set of descriptors, and goes among the spares. Only then does it
    /// look for DEEP. So this also looks at the set.
    pub(in crate::mxn) fn may_sleep_deeply(&self) -> bool {
        if !self.sees_descriptors()
            || !self.all_asleep()
            || self.has_shared()
            || self.pool.lwps().any(Lwp::has_stealable)
        {
            return false;
        }
        // Pairs with `Idle`'s release: before an LWP sleeps, it has counted the threads that ended on it.
        fence(Ordering::Acquire);
        self.life.is_open() || self.is_kept_open()
    }

    /// Returns `true` if the monitor [may sleep](Self::may_sleep_deeply), and no deadline is before `next`.
    /// That was the earliest when it last looked at all LWPs.
    ///
    /// Since then, a thread may have armed one on an LWP that then lost its slot in the kernel. No thread
    /// looks for DEEP on that account.
    pub(in crate::mxn) fn may_sleep_until(&self, next: u64) -> bool {
        // In this order: the fence there makes visible what was armed before the slot moved to an LWP that
        // sleeps.
        self.may_sleep_deeply() && self.next_timer() >= next
    }

    /// Returns the earliest deadline of all LWPs, on the runtime's clock.
    fn next_timer(&self) -> u64 {
        self.pool.lwps().map(|lwp| lwp.timers.next()).min().unwrap_or(NEVER)
    }

    /// Returns `true` if one of the runtime's own threads keeps a dropped runtime from ending, and no visitor
    /// does. The end of that thread will be noticed.
    fn is_kept_open(&self) -> bool {
        // A visitor that this look misses came by a thread that lives. The end of that thread wakes the
        // monitor, which looks again.
        !self.life.has_visitors() && self.live_threads() > 0
    }
}

#[cfg(all(test, loom))]
mod loom_rest;
