//! How many slots there are, changed while all goes on (Solaris: `thr_setconcurrency`).
//!
//! **The problem.** A slot is on its way between two LWPs, or an LWP holds it that runs, sleeps, or is
//! blocked in the kernel. Several callers at once may want to change the number, and they may be green
//! threads themselves.
//!
//! **Rejected.** *The caller makes and ends LWPs*: that takes locks which a preempted thread may hold (I4).
//! Several callers would have to agree on what each takes. *A surplus that each LWP looks for at its
//! dispatch*: one more shared word in every switch.
//!
//! **Protocol.** Callers only say how many slots there are to be, and the last one counts. The thread that
//! keeps the reserve, and no other, makes the number so, one slot at a time.
//!
//! - *Growing*: count one slot more, and then give it to a spare. If there is none, give it to a new LWP.
//! - *Shrinking*: take a slot away by the compare-and-swap with which the monitor moves one, and then count
//!   one less. An LWP that sleeps idle is woken. One that runs notices at its next dispatch. Either finds
//!   that it has no slot, gives its queue away, and goes among the spares, like an LWP that lost its slot to
//!   another.
//!
//! If no LWP can have the slot, it is counted off again, and the next LWP that becomes a spare asks for it
//! (`notice_spare`). That LWP enters the list of spares, and then looks at the count. This thread counts the
//! slot off, and then looks at the list once more. The lock of the list orders the two: either this thread
//! finds the spare, or the spare finds a slot missing.
//!
//! The count is never less than what there is, so no look takes a runtime for asleep in which an LWP runs
//! (`monitor`). Slots that are in hand at the moment cannot be taken. The rest is tried again a little later.

use std::io;

use crate::mxn::Mxn;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::slots::slot::InHand;
use crate::recorder::event::SlotCause;
use crate::settings::invalid;

impl Mxn {
    /// Returns how many green threads run at once: the slots, as set last, or as many as there are CPUs. In
    /// the second case, the runtime may use fewer at times ([`guide::blocking`](crate::guide::blocking)).
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::Mxn::builder().concurrency(2).build()?;
    /// assert_eq!(rt.concurrency(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn concurrency(&self) -> usize {
        self.scheduler.pool.wanted() as usize
    }

    /// Sets how many green threads run at once. From then on it does not follow the number of CPUs.
    ///
    /// It returns at once, and the runtime follows a moment later. If it is to run more, spare kernel threads
    /// begin to run green threads, or new ones do. If it is to run fewer, the surplus ones stop as soon as
    /// their threads wait, yield, or have used up their time slices. What is queued there goes to the others.
    /// Of several callers, the last counts.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::Mxn::builder().concurrency(1).build()?;
    /// rt.set_concurrency(4)?;
    /// assert_eq!(rt.concurrency(), 4);
    /// assert!(rt.set_concurrency(0).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if `slots` is 0 or more than [`max_lwps`](crate::mxn::Builder::max_lwps). Another error
    /// in a fork of the process that built the runtime.
    pub fn set_concurrency(&self, slots: usize) -> io::Result<()> {
        let scheduler = &self.scheduler;
        let most = scheduler.pool.most();
        let wanted = u32::try_from(slots).ok().filter(|_| (1..=most).contains(&slots));
        let Some(wanted) = wanted else {
            return Err(invalid(format!(
                "invalid concurrency {slots}: expected 1 to {most}, the runtime's max_lwps"
            )));
        };
        if !scheduler.life.is_here() {
            return Err(io::Error::other(
                "this process is a fork, and the runtime's kernel threads are its parent's",
            ));
        }
        scheduler.pool.want(wanted);
        scheduler.reserve_state.ask();
        Ok(())
    }
}

impl Scheduler {
    /// Saves so many of the wanted slots, for the time being. Called by the monitor alone.
    pub(in crate::mxn) fn save_slots(&self, slots: u32) {
        if self.pool.save(slots) {
            self.reserve_state.ask();
        }
    }

    /// Makes as many slots as are wanted. Returns `false` if that cannot all be done now. Called by the
    /// reserve's thread alone.
    pub(in crate::mxn) fn settle_concurrency(&'static self) -> bool {
        loop {
            let settled = match self.pool.slots().cmp(&self.pool.aim()) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => self.grow(),
                std::cmp::Ordering::Greater => self.shrink(),
            };
            if !settled {
                return false;
            }
        }
    }

    /// Makes one slot more. Returns `false` if no LWP can have it now.
    fn grow(&'static self) -> bool {
        self.pool.count_slot();
        let given = self.trace_slots(SlotCause::Concurrency, || {
            let to =
                self.pool.hand_off(|| Some(InHand::first_of_its_life())).or_else(|| self.add_holder())?;
            Some((None, Some(to)))
        });
        if given {
            // An LWP is awake that was not.
            self.watch.notice_activity();
            return true;
        }
        // An LWP that could not be started has lost it again.
        self.pool.uncount_slot();
        // After that: an LWP that became a spare meanwhile saw the slot counted, and has not asked.
        self.pool.spares() > 0
    }

    /// Makes an LWP that begins with a slot. Returns `None` if there can be none.
    fn add_holder(&'static self) -> Option<&'static Lwp> {
        if !self.pool.has_room() {
            return None;
        }
        let starting = self.add_lwp(true).ok()?;
        let lwp = starting.lwp;
        self.see_started(starting).then_some(lwp)?
    }

    /// Retires one slot: of an LWP that does not use it, if there is one.
    pub(in crate::mxn) fn shrink(&'static self) -> bool {
        let taken = self.take_slot(|lwp| lwp.sleep.is_asleep().then(|| lwp.slot.retake_unannounced())?);
        let taken = taken.or_else(|| self.take_slot(|lwp| self.slots.take_open(&lwp.slot)));
        let taken = taken.or_else(|| self.take_slot(|lwp| lwp.slot.retake_unannounced()));
        let Some((lwp, slot)) = taken else { return false };
        // It may sleep idle, or be about to. It must not count among the LWPs that sleep with a slot, as in
        // `compensate`.
        self.wake_if_idle(lwp);
        self.trace_slots(SlotCause::Concurrency, || {
            slot.retire();
            self.pool.uncount_slot();
            Some((Some(lwp), None))
        })
    }

    /// Takes a slot of one of the LWPs, trying the last first, so the numbers in use stay low.
    fn take_slot(&self, take: impl Fn(&Lwp) -> Option<InHand>) -> Option<(&'static Lwp, InHand)> {
        self.pool.lwps().rev().find_map(|lwp| take(lwp).map(|slot| (lwp, slot)))
    }
}
