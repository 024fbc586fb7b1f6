//! The scheduler of one `mxn` runtime: what its LWPs share, and what each of them does next.
//!
//! **The problem** is Solaris' `_schedlock`: one lock for the user-level scheduler, taken on every operation.
//! Here each LWP has its own queue (`run_queue`), and others steal from that (`search`). What no LWP owns
//! goes through an injection queue (`inject`). A thread that waits picks its successor itself and switches to
//! it directly (`switch`). Only if it finds none does it go back to the dispatcher, which searches and sleeps
//! (`idle`).
//!
//! **Rejected**:
//!
//! - one shared queue, which is the `_schedlock`
//! - always to go through the dispatcher (5 ns on a yield, 18 on a spawn)
//! - to wake an LWP for every thread that becomes runnable (`wake` has the measurements)
//!
//! No code here allocates, frees, logs or starts kernel threads (I4). Every lock in it is a `QueueLock`.

mod alarm;
pub(crate) mod fair_share;
pub(crate) mod idle;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod poll;
pub(crate) mod priority;
mod search;
pub(crate) mod switch;
pub(crate) mod traced;
mod wake;

use std::io;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::fair_share::FairShare;
use self::idle::Idle;
use self::placement::Placement;
use self::priority::PriorityQueues;
use super::config::Settings;
use super::green::Green;
use super::kernel_threads::KernelThreads;
use super::life::Life;
use super::lwp::{First, HighRun, Lwp};
use super::lwp_set::Near;
use super::monitor::sleep::MonitorState;
use super::run_queue::CAPACITY;
use super::run_queue::inject::Inject;
use super::slots::pool::LwpPool;
use super::slots::reserve::ReserveState;
use super::slots::slot::{Moves, SlotCounts};
use super::timer::{self, AT_ONCE, Clock, NEVER};
use crate::fiber::ThreadRegister;
use crate::fiber::stack::SizeClass;
use crate::park::backend::Backend;
use crate::park::priority::Priority;
use crate::park::thread::ThreadRef;
use crate::reactor::poller::Poller;
use crate::recorder::rings::RingCell;
use crate::runtime::registry;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::sys::caches::Caches;
use crate::thread::kernel::Reaper;

/// What the LWPs of one runtime share.
///
/// Each part that is written has cache lines of its own. What every dispatch reads is never, or rarely,
/// written. On the lines of a part that is, one LWP's write would be a miss for all others.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) settings: Settings,
    /// Its number in the process.
    pub(crate) number: u32,
    /// Of `settings.stack_size`.
    pub(crate) stack_class: SizeClass,
    pub(crate) rung: ThreadRegister,
    pub(crate) placement: Placement,
    /// A waker may queue a thread on its own LWP at once: threads do not always move, and nothing is traced.
    wakes_here: AtomicBool,
    /// What the monitor has recorded: the timers that it has fired.
    pub(in crate::mxn) monitor_trace: RingCell,
    pub(in crate::mxn) reserve_trace: RingCell,
    pub(crate) clock: Clock,
    pub(crate) inject: CachePadded<Inject<Green>>,
    /// Threads that lost their slice. They go behind all that yielded or woke.
    pub(crate) preempted: CachePadded<Inject<Green>>,
    /// The order among the preempted threads and the fresh ones.
    pub(crate) shares: CachePadded<FairShare>,
    /// Threads are preempted by signal.
    pub(crate) signals: bool,
    /// All LWPs share one CPU, so whatever one of them waits for needs that CPU. Written by the monitor; a
    /// hint.
    one_cpu: AtomicBool,
    /// The time slice of threads that have none of their own, in ns.
    pub(crate) slice: u64,
    pub(crate) near: Near,
    pub(crate) levels: CachePadded<PriorityQueues>,
    pub(crate) idle: CachePadded<Idle>,
    /// The descriptors that its green threads wait for.
    pub(crate) poller: CachePadded<Poller>,
    pub(crate) pool: LwpPool,
    pub(crate) slots: CachePadded<SlotCounts>,
    pub(crate) moves: CachePadded<Moves>,
    /// How the monitor sleeps, and how it is woken. (The LWP that naps is [`Idle::watch`]'s.)
    pub(crate) watch: CachePadded<MonitorState>,
    pub(crate) reserve_state: CachePadded<ReserveState>,
    pub(crate) life: CachePadded<Life>,
    /// The runtime's kernel threads. What drops the runtime joins them.
    pub(crate) kernel_threads: KernelThreads,
    /// What bound threads that were detached leave to be joined.
    pub(crate) reaper: Reaper,
}

impl Scheduler {
    /// Makes a scheduler without kernel threads. `signals`: threads are preempted by signal.
    pub(super) fn new(settings: Settings, rung: ThreadRegister, signals: bool) -> io::Result<Self> {
        let number = registry::take_number();
        // Few LWPs are all looked at anyway.
        let caches = if settings.concurrency > policy::VICTIMS { Caches::of_this_machine() } else { None };
        Ok(Self {
            number,
            stack_class: SizeClass::of(settings.stack_size)?,
            rung,
            placement: Placement::new(rung, settings.migrate_always),
            wakes_here: AtomicBool::new(!settings.migrate_always),
            monitor_trace: RingCell::new(),
            reserve_trace: RingCell::new(),
            clock: Clock::new(),
            inject: CachePadded::new(Inject::new()),
            preempted: CachePadded::new(Inject::new()),
            shares: CachePadded::new(FairShare::new()),
            signals,
            one_cpu: AtomicBool::new(false),
            slice: settings.slice(),
            levels: CachePadded::new(PriorityQueues::new()),
            near: Near::new(settings.max_lwps, caches),
            idle: CachePadded::new(Idle::new(settings.max_lwps)),
            poller: CachePadded::new(Poller::new()),
            pool: LwpPool::new(settings.max_lwps, settings.concurrency, settings.follows_cpus),
            slots: CachePadded::default(),
            moves: CachePadded::default(),
            watch: CachePadded::default(),
            reserve_state: CachePadded::default(),
            life: CachePadded::new(Life::new()?),
            kernel_threads: KernelThreads::new(),
            reaper: Reaper::new(),
            settings,
        })
    }

    /// Returns the scheduler of a green thread.
    #[inline]
    pub(crate) fn of(thread: ThreadRef) -> &'static Scheduler {
        let backend: *const dyn Backend = thread.backend();
        // SAFETY: the backend of a green thread is its scheduler, which outlives its threads.
        unsafe { &*backend.cast::<Scheduler>() }
    }

    /// Returns `true` if all LWPs share one CPU.
    pub(crate) fn is_on_one_cpu(&self) -> bool {
        // Relaxed: a hint.
        self.one_cpu.load(Ordering::Relaxed)
    }

    /// Sets what [`is_on_one_cpu`](Self::is_on_one_cpu) returns. Called at the start, and by the monitor.
    pub(crate) fn set_on_one_cpu(&self, it_is: bool) {
        // Relaxed: a hint.
        self.one_cpu.store(it_is, Ordering::Relaxed);
    }

    /// Returns `true` if one thread runs at a time: there is one slot, or one CPU.
    pub(crate) fn runs_one_at_a_time(&self) -> bool {
        self.pool.aim() == 1 || self.is_on_one_cpu()
    }

    /// Does what others have asked of this LWP before it takes a thread. Returns `true` if it is to look.
    fn do_what_is_asked(&'static self, lwp: &'static Lwp) -> bool {
        let asked = lwp.flags.take();
        if asked.sift {
            self.sift_own(lwp);
        }
        asked.look
    }

    /// Takes a thread for the dispatcher, if that needs no search.
    fn pick(&'static self, lwp: &'static Lwp) -> Option<&'static Green> {
        let now = self.do_what_is_asked(lwp);
        let first = lwp.look_first.take();
        let preempted = match first {
            First::Preempted => self.pop_preempted(),
            First::Oldest => self.pop_oldest(),
            First::Own | First::Injected => None,
        };
        if let Some(green) = preempted {
            return Some(deref(green));
        }
        // This does not count again: it is the fair tick at which `pick_next` comes here.
        let tick = lwp.tick.get();
        let mut in_turn = now || tick.is_multiple_of(policy::FAIR_TICK);
        if in_turn {
            self.fire_timers(lwp, lwp);
            self.poll_descriptors(lwp);
        }
        let mut normal_is_owed = false;
        if self.levels.are_urgent() || lwp.pinned.has_high() {
            match self.pick_urgent(lwp) {
                Ok(green) => return Some(deref(green)),
                Err(owed) => normal_is_owed = owed,
            }
            in_turn |= normal_is_owed;
        }
        if let Some(fresh) = self.pick_fresh(lwp, first == First::Injected, in_turn) {
            return Some(deref(self.or_one_behind(lwp, fresh)));
        }
        (if normal_is_owed { self.pop_preempted() } else { None })
            .or_else(|| self.levels.take_high())
            .or_else(|| self.steal_beside_preempted(lwp))
            .or_else(|| self.pop_preempted())
            .or_else(|| self.pick_low(lwp))
            .map(deref)
    }

    /// Takes a normal thread that has not lost its slice. If `in_turn`, the queues take turns, so one that
    /// never runs empty does not keep the others waiting.
    fn pick_fresh(&'static self, lwp: &'static Lwp, injected: bool, in_turn: bool) -> Option<NonNull<Green>> {
        if injected && let Some(green) = self.pop_injected(lwp) {
            return Some(green);
        }
        if in_turn {
            let turn = lwp.turns.get().wrapping_add(1);
            lwp.turns.set(turn);
            self.balance(lwp, turn);
            let green = (0..3).find_map(|queue| match (turn + queue) % 3 {
                0 => lwp.queue.ring.pop(),
                1 => self.pop_injected(lwp),
                // A low one, too: beside new threads, it has no other turn.
                _ => lwp.pinned.pop(Priority::Low),
            });
            if green.is_some() {
                return green;
            }
        }
        lwp.queue.pop().or_else(|| lwp.pinned.pop(Priority::Normal)).or_else(|| self.pop_injected(lwp))
    }

    /// Returns the thread that goes first: `fresh`, or the preempted thread that has run least
    /// (`fair_share`).
    fn or_one_behind(&'static self, lwp: &'static Lwp, fresh: NonNull<Green>) -> NonNull<Green> {
        let ran = deref(fresh).ran();
        if !self.is_one_behind(ran) {
            return fresh;
        }
        let below = self.shares.goes_behind(ran);
        let Some(behind) = self.pop_of(policy::CANDIDATES, below) else { return fresh };
        self.put_first(lwp, deref(fresh));
        behind
    }

    /// Takes a share of the injection queue: one thread to run, and the others into the ring.
    fn pop_injected(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        let waiting = self.inject.len();
        if waiting == 0 {
            return None;
        }
        if self.placement.moves_always() {
            return self.pop_migrant(lwp);
        }
        let share = waiting / self.pool.slots() as usize;
        let room = CAPACITY as usize - lwp.queue.ring.len();
        self.inject.pop(share.min(policy::INJECT_BATCH).min(room / 2), |green| {
            let pushed = lwp.queue.ring.push(green);
            debug_assert!(pushed.is_ok(), "only the owner fills a ring, and there was room");
        })
    }

    /// Takes a thread that last ran on another LWP, if there is one among the first. For
    /// [`Placement::Elsewhere`].
    fn pop_migrant(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        let mut last = None;
        for _ in 0..8 {
            let green = self.inject.pop(0, |_| ())?;
            let stranger = deref(green).lwp.get().is_none_or(|ran_on| !std::ptr::eq(ran_on, lwp));
            if stranger || self.pool.slots() == 1 || last == Some(green) {
                return Some(green);
            }
            last.get_or_insert(green);
            self.inject.push(green);
            self.wake_searcher();
            std::thread::yield_now();
        }
        self.inject.pop(0, |_| ())
    }

    /// Puts a thread, which the caller owns and which lost its slice, last of its priority. Wakes no LWP.
    pub(super) fn queue_preempted(&self, green: &'static Green) {
        let noted = || {
            let normal = green.core.priority.is_normal();
            if normal {
                self.shares.note(green.ran());
            }
            normal
        };
        while !self.levels.push(green) && !self.preempted.push_if(green.ptr(), noted) {}
    }

    /// Adds the time from the last dispatch to `now` to the thread that this LWP runs.
    #[cold]
    pub(super) fn count_share(&self, lwp: &'static Lwp, now: u64) {
        let since = lwp.counted.replace(now).max(self.shares.counted_since());
        let Some(running) = lwp.running() else { return };
        let more = now.saturating_sub(since);
        let ran = self.shares.add(running.ran(), more);
        running.set_ran(ran);
        running.set_ahead(self.shares.is_ahead(ran));
        let in_all = lwp.shared_out.get() + more;
        if in_all >= policy::GRAIN {
            self.shares.advance(in_all, ran);
        }
        lwp.shared_out.set(if in_all >= policy::GRAIN { 0 } else { in_all });
    }

    /// Does the same for the dispatcher, if it counts.
    #[inline]
    fn count_if_told(&self, lwp: &'static Lwp) {
        if lwp.flags.counts() {
            self.count_share(lwp, self.clock.now());
        }
    }

    /// Takes a preempted thread: of the oldest, the one that has run least.
    #[cold]
    fn pop_preempted(&'static self) -> Option<NonNull<Green>> {
        self.pop_of(policy::CANDIDATES, u64::MAX)
    }

    /// Takes the preempted thread that has waited longest.
    #[cold]
    fn pop_oldest(&'static self) -> Option<NonNull<Green>> {
        self.pop_of(1, u64::MAX)
    }

    /// Returns `true` if a preempted thread is to go before a fresh thread that has run for `ran`.
    #[inline]
    fn is_one_behind(&self, ran: u64) -> bool {
        self.preempted.len() > 0 && self.shares.least() < self.shares.goes_behind(ran)
    }

    /// Returns `true` if the next preempted thread has had its share.
    fn preempted_have_their_share(&self) -> bool {
        self.shares.least() > self.shares.fair()
    }

    /// Takes the preempted thread that has run least, of so many of the oldest, if it has run for less than
    /// `below`.
    #[inline]
    fn pop_of(&'static self, candidates: usize, below: u64) -> Option<NonNull<Green>> {
        if self.preempted.len() == 0 {
            return None;
        }
        let ran = |green: NonNull<Green>| deref(green).ran();
        let green = self.preempted.take_least(candidates, below, ran, |left| self.shares.set_least(left))?;
        deref(green).set_ahead(false);
        Some(green)
    }

    /// Puts back a thread, to wait its turn again, because an LWP still stands on its stack, or because only
    /// a dispatcher can continue it.
    #[cold]
    fn put_back(&self, lwp: &'static Lwp, green: &'static Green) {
        if green.fiber.mounted.is_preempted() {
            // In the ring, it might never be the one that the dispatcher finds.
            self.queue_preempted(green);
        } else if !green.core.priority.is_normal() || lwp.queue.ring.push(green.ptr()).is_err() {
            self.queue_shared(green);
        }
    }

    /// Ends sleeps that are due among `of`'s timers. The threads go to `on`'s ring, as many as have room
    /// there. Returns `true` if there were any.
    fn fire_timers(&'static self, of: &Lwp, on: &'static Lwp) -> bool {
        if of.timers.next() == NEVER {
            return false;
        }
        let waiting = on.queue.ring.len();
        let room = timer::BATCH.saturating_sub(waiting);
        let (steps, most) = if on.tick.get().is_multiple_of(policy::FAIR_TICK) {
            // A ring that is always full must not keep sleepers asleep.
            (timer::BATCH, room.max(policy::LEAST_FIRED))
        } else {
            (if waiting == 0 { timer::BATCH } else { policy::STEPS_BETWEEN }, room)
        };
        let fired = of.timers.fire(self.clock.now(), steps, most, |thread| {
            // SAFETY: only green threads arm entries of LWPs.
            let green = unsafe { Green::of(thread) };
            Self::trace_woken(Some(on), green);
            if on.queue.ring.len() < CAPACITY as usize {
                self.queue_behind(on, green);
            } else {
                // It is the one to wait, and not half of the ring.
                self.queue_without_slot(green);
            }
        });
        if of.timers.next() == AT_ONCE {
            // Between two threads, there is time for some more.
            on.flags.look();
        }
        fired > 0
    }

    /// Ends sleeps that are due on an LWP that runs no threads, or does not see to them. The threads go to
    /// the shared queues, until `many` wait there. `on`: the LWP that the caller has, if any. If more is due,
    /// the caller is to do this again after a pause.
    pub(in crate::mxn) fn fire_elsewhere(&'static self, of: &Lwp, on: Option<&Lwp>, many: usize) {
        let room = many.saturating_sub(self.inject.len()).max(1);
        of.timers.fire(self.clock.now(), timer::BATCH, room, |thread| {
            // SAFETY: only green threads arm entries of LWPs.
            let green = unsafe { Green::of(thread) };
            Self::trace_woken(on, green);
            self.ready_elsewhere(green);
        });
    }

    /// Dispatches, searches and sleeps, for all of an LWP's life. Returns when the runtime stops, or when
    /// there are enough LWPs without it.
    pub(crate) fn dispatch(&'static self, lwp: &'static Lwp) {
        loop {
            if !lwp.slot.is_held() && !self.end_rest(lwp) && !self.wait_for_slot(lwp) {
                return;
            }
            match self.pick(lwp) {
                Some(green) => {
                    if !self.run(lwp, green) {
                        self.wait_for_stack(lwp, green);
                    }
                }
                None => {
                    if lwp.flags.traces() {
                        self.trace_search(lwp);
                    }
                    match lwp.while_searching(|| self.search(lwp)) {
                        Some(green) => {
                            self.run(lwp, green);
                        }
                        None if self.life.is_stopping() => return,
                        None => {}
                    }
                }
            }
        }
    }

    /// Waits a little for the LWP that stands on the stack of the thread that was picked, and is back in a
    /// queue. If that was a high thread, a normal one goes first.
    #[cold]
    fn wait_for_stack(&self, lwp: &Lwp, green: &Green) {
        if green.core.priority.get() == Priority::High {
            lwp.high_run.set(HighRun { is_held_up: true, ..lwp.high_run.get() });
        }
        if !lwp.has_next() && lwp.queue.ring.len() <= 1 {
            // There is nothing else to do. An LWP that stands there for so long waits for a CPU, perhaps for
            // this one.
            crate::shim::yield_cpu();
        } else {
            crate::shim::spin_hint();
        }
    }
}

/// Dereferences what came off a run queue. It is the caller's to run, and greens are type-stable.
#[inline]
fn deref(green: NonNull<Green>) -> &'static Green {
    // SAFETY: run queues hold pointers to green threads, which are leaked.
    unsafe { green.as_ref() }
}

#[cfg(test)]
mod pick_tests;
#[cfg(test)]
mod switch_tests;
