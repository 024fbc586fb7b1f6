//! Moving slots: from an LWP that sleeps in the kernel, or whose thread does not leave, to a spare.
//!
//! A slot moves by one compare-and-swap on the loser's word (`lwp::slot`). Nobody here makes a kernel thread: where there is no spare, nothing moves,
//! and the thread that keeps the reserve is told ([`reserve`](super::reserve)).

use crate::mxn::lwp::Lwp;
use crate::mxn::lwp::request::Asked;
use crate::mxn::lwp::slot::InHand;
use crate::mxn::sched::Scheduler;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::sys::preempt;

impl Scheduler {
    /// Asks a thread to leave, by signal.
    pub(in crate::mxn) fn ask_to_leave(&'static self, lwp: &Lwp, asked: Asked) -> bool {
        lwp.request.ask(asked);
        lwp.request.announce_signal();
        // Relaxed: it was read with acquire for the kernel's word on it.
        let tid = lwp.tid.load(Ordering::Relaxed);
        let sent = preempt::send(tid.cast_signed()).is_ok();
        if !sent {
            lwp.request.retract_signal();
        }
        sent
    }

    /// The slot of an LWP whose thread does not leave goes to a spare.
    pub(super) fn hand_off(&'static self, lwp: &'static Lwp) -> bool {
        self.retake_held(lwp, &self.watch.handed_off)
    }

    /// Moves a slot to a spare LWP, and sees to the next spare.
    fn move_slot(&'static self, take: impl FnOnce() -> Option<InHand>, counter: &AtomicU64) -> bool {
        let moved = self.pool.hand_off(take);
        // Relaxed: the monitor and announcing LWPs count; exactness is not needed.
        let counter = if moved { counter } else { &self.watch.starved };
        counter.fetch_add(1, Ordering::Relaxed);
        self.refill_reserve();
        moved
    }

    /// Moves the slot of an LWP that sleeps in the kernel.
    pub(in crate::mxn) fn compensate(&'static self, lwp: &'static Lwp) -> bool {
        self.retake_held(lwp, &self.watch.compensated)
    }

    /// Moves the slot of an LWP that knows nothing of it.
    fn retake_held(&'static self, lwp: &'static Lwp, counter: &AtomicU64) -> bool {
        let moved = self.move_slot(|| lwp.slot.retake_unannounced(), counter);
        // By now it may be back, and idle. Nobody may count it among those who sleep with a slot: up, and to the spares. (The
        // lock in `leave` orders this with its last look: either it sees that the slot is gone, or we see it listed.)
        if moved && self.idle.leave(lwp.index) {
            self.watch.notice_activity();
            self.pool.rouse(lwp);
        }
        moved
    }

    /// Rung 3: one slot more, until its LWP runs dry.
    pub(super) fn lend_slot(&'static self, counter: &AtomicU64) -> bool {
        let lend = || {
            self.life.lent.fetch_add(1, Ordering::Relaxed);
            Some(InHand::beyond_concurrency())
        };
        self.move_slot(lend, counter)
    }

    /// Takes the slot of an LWP that announced blocking, or rests: work waits for a slot.
    #[cold]
    pub(crate) fn retake_announced(&'static self) {
        match self.pool.lwps().find(|lwp| lwp.slot.is_open()) {
            Some(lwp) => {
                self.retake(lwp);
            }
            // Who is to be back soon will be, or the monitor sees that it is not.
            None => self.watch.hurry(),
        }
    }

    /// Moves the slot of an LWP that announced blocking, or rests.
    pub(in crate::mxn) fn retake(&'static self, lwp: &Lwp) -> bool {
        let moved = self.move_slot(|| self.take_open(lwp), &self.watch.compensated);
        // If the slot moved, an LWP runs that did not count as running. If there was no spare, the monitor
        // moves the slot as soon as there is one.
        self.watch.notice_activity();
        moved
    }

    /// The calling LWP's own slot, announced as blocking, goes to a spare at once.
    #[cold]
    pub(crate) fn give_slot_away(&'static self, lwp: &Lwp) {
        self.retake(lwp);
    }
}
