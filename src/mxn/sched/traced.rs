//! The hooks of the trace in the scheduler: what is counted and recorded of green threads and LWPs.
//!
//! **Problem.** While the trace is off, it may cost nothing, and a switch is 12 ns.
//!
//! **Solution.** Two tests that exist anyway say that the trace is on. Each dispatch tests the LWP's flags.
//! If one is set, threads switch another way, which calls the hooks. Each wake-up tests `wakes_here`, which
//! also says that threads always move; if it is not set, the wake-up is out of line.
//!
//! The dispatcher that stops a thread, and the one that runs it again, are the keepers of its account
//! (`recorder/account.rs`). Both have the thread to themselves until `mounted` is cleared, or since it was
//! found clear. A waker only notes the time.

use std::cell::Cell;

use super::Scheduler;
use crate::mxn::green::{self, Green};
use crate::mxn::lwp::{self, Lwp};
use crate::park::no_preempt::NoPreempt;
use crate::park::{current, observed, traced};
use crate::recorder::account::State;
use crate::recorder::clock;
use crate::recorder::event::{Event, Kind, SlotCause};
use crate::recorder::follow::follow;
use crate::recorder::ring::Ring;
use crate::recorder::rings::{self, NO_LWP, RingCell};
use crate::recorder::session::{self, Session};
use crate::shim::atomic::Ordering;
use crate::shim::cpu;

thread_local! {
    /// The ring of the monitor, or of the reserve's thread, that has this thread register as its own. No
    /// destructor and a constant start.
    static HELPERS: Cell<Option<&'static RingCell>> = const { Cell::new(None) };
}

impl Scheduler {
    /// Begins or ends the trace of this runtime, as `park::observed` says. May allocate.
    pub(in crate::mxn) fn follow_trace(&'static self) {
        follow(observed::is_traced, |traced| {
            if traced {
                green::open_accounts();
                // A monitor fires timers only if all LWPs are busy.
                for trace in [&self.monitor_trace, &self.reserve_trace] {
                    trace.open(self.number, NO_LWP, rings::events() / 8);
                }
            }
            // Relaxed: a wake-up that misses it is not recorded.
            self.wakes_here.store(!traced && !self.placement.moves_always(), Ordering::Relaxed);
            self.pool.lwps().for_each(|lwp| self.trace_lwp(lwp, traced));
        });
    }

    /// Does what [`follow_trace`](Self::follow_trace) does, for an LWP that has just been made. May allocate.
    /// Its kernel thread calls it.
    pub(in crate::mxn) fn join_trace(&'static self, lwp: &'static Lwp) {
        follow(observed::is_traced, |traced| self.trace_lwp(lwp, traced));
        if lwp.flags.traces()
            && let Some(listed) = lwp.trace.get()
        {
            // Otherwise its first stop would charge all of the session to it.
            listed.account().spawned(session::current(), clock::now(), 0);
        }
        record_on(lwp, || Event::new(clock::now(), Kind::LwpStart, 0).numbered(lwp.life.tid()));
    }

    /// Notes that the kernel thread of an LWP ends. Called by that thread, before another can take its place.
    pub(in crate::mxn) fn leave_trace(&self, lwp: &Lwp) {
        record_on(lwp, || Event::new(clock::now(), Kind::LwpEnd, 0));
    }

    /// Runs the monitor, or what the reserve's thread does, with a ring of its own, on the calling kernel
    /// thread.
    pub(in crate::mxn) fn trace_helper(ring: &'static RingCell, helper: impl FnOnce()) {
        HELPERS.set(Some(ring));
        helper();
        HELPERS.set(None);
    }

    /// Moves a slot from one LWP (`None`: it is one more) to the LWP that `hand_off` returns, and records
    /// that. The event goes into the ring of the calling kernel thread, if that has one.
    #[inline]
    pub(in crate::mxn) fn trace_move(
        &'static self,
        from: Option<&Lwp>,
        cause: SlotCause,
        hand_off: impl FnOnce() -> Option<&'static Lwp>,
    ) -> Option<&'static Lwp> {
        let mut to = None;
        self.trace_slots(cause, || {
            to = hand_off();
            to.map(|to| (from, Some(to)))
        });
        to
    }

    /// Makes a change of slots, which returns the LWP that lost one and the LWP that got one, and records it.
    #[inline]
    pub(in crate::mxn) fn trace_slots<'a>(
        &'static self,
        cause: SlotCause,
        change: impl FnOnce() -> Option<(Option<&'a Lwp>, Option<&'a Lwp>)>,
    ) -> bool {
        // The LWP that gets the slot may record its next event before this one.
        let now = observed::are_events_recorded().then(clock::now);
        let Some((from, to)) = change() else { return false };
        if let Some(now) = now {
            let number = |lwp: Option<&Lwp>| lwp.map(|lwp| lwp.index);
            record_here(Event::slot_move(now, self.number, number(from), number(to), cause));
        }
        true
    }

    fn trace_lwp(&'static self, lwp: &'static Lwp, traced: bool) {
        if traced {
            lwp.trace.open(self.number, lwp.index, rings::events());
        }
        lwp.flags.trace(traced);
    }

    /// Notes that `next` is about to run on `lwp`. Called by the dispatcher, which has taken it.
    pub(super) fn trace_dispatch(&'static self, lwp: &'static Lwp, next: &'static Green) {
        let session = session::current();
        let now = match lwp.stopped.take() {
            // A thread stopped here just now. One reading of the clock is enough for both.
            Some((stopped, number)) if number == session.number => stopped,
            _ => {
                let now = clock::now();
                if let Some(listed) = lwp.trace.get() {
                    listed.account().stops(session, now, State::Running, false);
                }
                if !traced::is_recorded(next.thread()) {
                    // The search is over.
                    record_on(lwp, || Event::new(now, Kind::Dispatch, 0).on_cpu(cpu_of(lwp)));
                }
                now
            }
        };
        dispatched(lwp, next, session, now);
    }

    /// Notes that `left` has stopped running on `lwp`. Called by the dispatcher, before others may run it.
    pub(super) fn trace_stop(&self, lwp: &Lwp, left: &'static Green, ended: bool, preempted: bool) {
        let (now, session) = (clock::now(), session::current());
        if ended {
            // It is still mounted, so it has no next life yet.
            traced::forget_name(left.thread());
        }
        lwp.stopped.set(Some((now, session.number)));
        stopped(
            lwp,
            left,
            session,
            now,
            if ended {
                End::Exit
            } else if preempted {
                End::Preempt
            } else {
                End::Leave
            },
        );
    }

    /// Notes that `me` leaves `lwp` to `next`. Called by `me`, which has both.
    pub(super) fn trace_switch(&self, lwp: &Lwp, me: &'static Green, next: &'static Green) {
        let (now, session) = (clock::now(), session::current());
        stopped(lwp, me, session, now, End::Leave);
        dispatched(lwp, next, session, now);
    }

    /// Notes that an LWP has no work, and looks for some. Called by its dispatcher.
    #[cold]
    pub(super) fn trace_search(&self, lwp: &Lwp) {
        lwp.stopped.set(None);
        note(lwp, State::Queued, Kind::Search);
    }

    /// Runs `sleep`, in which an LWP sleeps as `kind` says: [`Kind::Idle`] or [`Kind::Spare`].
    pub(super) fn trace_sleep<R>(&self, lwp: &Lwp, kind: Kind, sleep: impl FnOnce() -> R) -> R {
        if !lwp.flags.traces() {
            return sleep();
        }
        lwp.stopped.set(None);
        note(lwp, if kind == Kind::Idle { State::Sleeping } else { State::Blocked }, kind);
        let result = sleep();
        note(lwp, State::Queued, Kind::Search);
        result
    }

    /// Notes that an LWP has taken threads from `victim`.
    pub(super) fn trace_steal(&self, lwp: &Lwp, victim: &Lwp) {
        if lwp.flags.traces() {
            record_on(lwp, || Event::new(clock::now(), Kind::Steal, 0).numbered(victim.index));
        }
    }

    /// Notes that the running thread `green` enters or leaves a region that announced blocking.
    pub(in crate::mxn) fn trace_region(&self, lwp: &Lwp, green: &'static Green, enters: bool) {
        let now = clock::now();
        if let Some(account) = green.core.account.get() {
            account.in_kernel(session::current(), now, enters);
        }
        let kind = if enters { Kind::EnterKernel } else { Kind::LeaveKernel };
        let cpu = if enters { None } else { cpu_of(lwp) };
        record_of(lwp, green, |id| Event::new(now, kind, id).on_cpu(cpu));
    }

    /// Records what the monitor has found of an LWP: it sleeps in the kernel, or runs again. `tick`: that of
    /// the LWP at that look. Called by the monitor.
    pub(in crate::mxn) fn trace_found(&self, lwp: &Lwp, tick: u32, asleep: bool) {
        let (running, now) = (lwp.running(), clock::now());
        // If the LWP has dispatched, it was another thread. All this is a hint, and the timeline knows that.
        if lwp.tick.get() == tick
            && let (Some(green), Some(ring)) = (running, HELPERS.get())
        {
            let (kind, cpu) =
                if asleep { (Kind::FoundAsleep, None) } else { (Kind::FoundRunning, lwp.last_cpu()) };
            record_in(ring, green, |id| Event::new(now, kind, id).at_lwp(self.number, lwp.index).on_cpu(cpu));
        }
    }

    /// Makes a thread runnable that was woken, where a waker could not do so at once.
    #[cold]
    pub(super) fn ready_out_of_line(&'static self, green: &'static Green) {
        if observed::is_traced() {
            traced::readied(green.thread(), self.will_be_next(green));
        }
        match self.here() {
            Some((me, lwp)) if lwp.slot.is_held() && !self.placement.moves_always() => {
                self.ready_on(me, lwp, green);
            }
            _ => self.ready_elsewhere(green),
        }
    }

    /// Makes a new thread runnable, where its spawner could not do so at once.
    #[cold]
    pub(super) fn ready_new_out_of_line(&'static self, me: Option<&'static Green>, green: &'static Green) {
        if observed::is_traced() {
            traced::about_to_spawn();
            traced::spawned(green.thread());
        }
        match me.map(|me| (me, me.lwp())) {
            Some((me, lwp)) if lwp.slot.is_held() && !self.placement.moves_always() => {
                self.ready_new_on(me, lwp, green);
            }
            _ => self.ready_elsewhere(green),
        }
    }

    /// Returns `true` if an LWP is chosen for a thread that is woken now: it goes to its waker's next-slot,
    /// or it has a home.
    fn will_be_next(&'static self, green: &Green) -> bool {
        if self.placement.has_homes() && green.lwp.get().is_some() {
            return true;
        }
        let here = self.here().filter(|(_, lwp)| lwp.slot.is_held());
        here.is_some_and(|(me, lwp)| !lwp.has_next() && !me.ends.get() && green.core.priority.is_normal())
    }

    /// Notes that a timer or a descriptor has woken a thread. Called by the dispatcher of `lwp`, or by the
    /// monitor or the reserve's thread.
    pub(in crate::mxn) fn trace_woken(lwp: Option<&Lwp>, green: &'static Green) {
        if !observed::is_traced() {
            return;
        }
        let now = clock::now();
        if let Some(account) = green.core.account.get() {
            account.readied(now, false);
        }
        // Each ring has one writer.
        if let Some(ring) = lwp.map(|lwp| &lwp.trace).or_else(|| HELPERS.get()) {
            let runtime = green.core.backend().runtime();
            record_in(ring, green, |id| Event::new(now, Kind::Ready, id).numbered(runtime));
        }
    }
}

/// How a thread stopped running.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It ended.
    Exit,
    /// Its slice was over.
    Preempt,
    /// It waits, or has yielded.
    Leave,
}

fn stopped(lwp: &Lwp, left: &'static Green, session: Session, now: u64, end: End) {
    let awaits = if end == End::Exit { None } else { left.core.awaits() };
    if let Some(account) = left.core.account.get() {
        let state = awaits.map_or(State::Queued, |(reason, _)| traced::state_of(reason));
        account.stops(session, now, state, end == End::Preempt);
    }
    record_of(lwp, left, |id| match (end, awaits) {
        (End::Exit, _) => Event::new(now, Kind::Exit, id),
        (_, Some((reason, at))) => traced::block_event(now, id, reason, at),
        (End::Preempt, None) => Event::new(now, Kind::Preempt, id),
        (End::Leave, None) => Event::new(now, Kind::Yield, id),
    });
}

/// Returns the CPU that an LWP runs on, if that can be had at once: mostly by one load. Called on that LWP.
fn cpu_of(lwp: &Lwp) -> Option<u32> {
    lwp.search.cpu().or_else(cpu::quick)
}

fn dispatched(lwp: &Lwp, next: &'static Green, session: Session, mut now: u64) {
    let cpu = cpu_of(lwp);
    if let Some(account) = next.core.account.get() {
        now = account.not_before(now);
        // Charged to the LWP, whose own count it is: this code runs there.
        if let Some(waited) = account.runs(session, now, lwp.index, cpu)
            && let Some(listed) = lwp.trace.get()
        {
            listed.waits().add(session, clock::nanos(waited));
        }
    }
    record_of(lwp, next, |id| Event::new(now, Kind::Dispatch, id).on_cpu(cpu));
}

/// Notes what an LWP does, if it runs no thread. Called on that LWP.
fn note(lwp: &Lwp, state: State, kind: Kind) {
    if let Some(listed) = lwp.trace.get() {
        let now = clock::now();
        listed.account().stops(session::current(), now, state, false);
        if observed::are_events_recorded() {
            listed.ring().push(Event::new(now, kind, 0));
        }
    }
}

/// Records an event of a thread, if events of it are recorded. Called on that LWP.
fn record_of(lwp: &Lwp, green: &'static Green, event: impl FnOnce(u64) -> Event) {
    record_in(&lwp.trace, green, event);
}

/// Does the same in this ring. Called on the kernel thread that writes into it.
fn record_in(ring: &RingCell, green: &'static Green, event: impl FnOnce(u64) -> Event) {
    if traced::is_recorded(green.thread())
        && let Some(listed) = ring.get()
    {
        listed.ring().push(event(green.core.id().get()));
    }
}

/// Records an event of an LWP. Called on that LWP.
fn record_on(lwp: &Lwp, event: impl FnOnce() -> Event) {
    if observed::are_events_recorded()
        && let Some(listed) = lwp.trace.get()
    {
        listed.ring().push(event());
    }
}

/// Records an event in the ring of the calling kernel thread, whatever runs there, if it has one.
#[cold]
fn record_here(event: Event) {
    // A green thread must not lose its LWP while it writes into the ring of that.
    let _no_preempt = NoPreempt::hold();
    if let Some(ring) = ring_here() {
        ring.push(event);
    }
}

/// Returns the ring of the calling kernel thread: of an LWP with its own stack, of a monitor, or of the
/// running thread.
fn ring_here() -> Option<&'static Ring> {
    // First, because on `Pinned` threads share the register with their LWP.
    let own = lwp::dispatches().map(|lwp| &lwp.trace).or_else(|| HELPERS.get());
    match own {
        Some(ring) => Some(ring.get()?.ring()),
        None => {
            let me = current::try_current()?;
            me.backend().ring(&me)
        }
    }
}
