//! Moving slots to a spare: from an LWP that sleeps in the kernel, or that has a thread which does not leave.
//!
//! A slot moves by one compare-and-swap on the loser's word (`slots::slot`). No code here makes a kernel
//! thread. If there is no spare, nothing moves, and the thread that keeps the reserve is told
//! ([`reserve`](super::reserve)).

use crate::mxn::lwp::Lwp;
use crate::mxn::lwp::preempt_request::Preemption;
use crate::mxn::sched::Scheduler;
use crate::mxn::slots::slot::InHand;
use crate::recorder::event::SlotCause;
use crate::sys::preempt;

impl Scheduler {
    /// Asks a thread to leave, by signal.
    pub(in crate::mxn) fn ask_to_leave(&'static self, lwp: &Lwp, asked: Preemption) -> bool {
        lwp.request.ask(asked);
        lwp.request.announce_signal();
        let tid = lwp.life.tid();
        let sent = preempt::send(tid.cast_signed()).is_ok();
        if !sent {
            lwp.request.retract_signal();
        }
        sent
    }

    /// Moves the slot of an LWP to a spare, because its thread does not leave.
    pub(in crate::mxn) fn hand_off(&'static self, lwp: &'static Lwp) -> bool {
        self.retake_held(lwp, SlotCause::Computes)
    }

    /// Moves a slot to a spare LWP, and asks for the next spare. `from` is the LWP that loses it; `None`: it
    /// is one more.
    fn move_slot(
        &'static self,
        from: Option<&Lwp>,
        cause: SlotCause,
        take: impl FnOnce() -> Option<InHand>,
    ) -> bool {
        let to = self.trace_move(from, cause, || self.pool.hand_off(take));
        if to.is_some() {
            let counter = match cause {
                SlotCause::Computes => &self.moves.handed_off,
                _ => &self.moves.compensated,
            };
            counter.add();
        }
        self.reserve_state.ask();
        to.is_some()
    }

    /// Moves the slot of an LWP that sleeps in the kernel.
    pub(in crate::mxn) fn compensate(&'static self, lwp: &'static Lwp) -> bool {
        self.retake_held(lwp, SlotCause::InKernel)
    }

    /// Moves the slot of an LWP that knows nothing of it.
    fn retake_held(&'static self, lwp: &'static Lwp, cause: SlotCause) -> bool {
        let moved = self.move_slot(Some(lwp), cause, || lwp.slot.retake_unannounced());
        if moved {
            // By now it may be back, and idle. It must not count among the LWPs that sleep with a slot, so it
            // is woken and goes to the spares.
            self.wake_if_idle(lwp);
        }
        moved
    }

    /// Lends one slot more, until its LWP runs dry (`Pinned`), because of what the thread of another LWP
    /// does.
    pub(in crate::mxn) fn lend_slot(&'static self, cause: SlotCause) -> bool {
        self.move_slot(None, cause, || Some(self.slots.lend()))
    }

    /// Takes the slot of an LWP that announced blocking, or rests, because work waits for a slot.
    #[cold]
    pub(crate) fn retake_announced(&'static self) {
        match self.pool.active(0).find(|lwp| lwp.slot.is_open()) {
            Some(lwp) => {
                self.retake(lwp);
            }
            // The LWPs in brief regions will be back soon, or the monitor sees that they are not.
            None => self.watch.hurry(),
        }
    }

    /// Moves the slot of an LWP that announced blocking, or rests.
    pub(in crate::mxn) fn retake(&'static self, lwp: &Lwp) -> bool {
        let moved = self.move_slot(Some(lwp), SlotCause::Open, || self.slots.take_open(&lwp.slot));
        // If the slot moved, an LWP runs that did not count as running. If there was no spare, the monitor
        // moves the slot as soon as there is one.
        self.watch.notice_activity();
        moved
    }
}
