//! The monitor: one kernel thread for each runtime, which sees what no LWP can see of itself.
//!
//! Each round it compares every LWP with its last sample. Then it decides (`policy`, `plan`) and does this:
//!
//! - While threads wait, it moves the slot of an LWP that sleeps in the kernel to a spare. SIGWAITING was
//!   made for this; here it is done for each LWP by itself, and within milliseconds.
//! - If other processes have the CPUs, it hands threads that compute to the kernel as kernel threads of their
//!   own. So the process gets its share (what Cantrill missed in section 5.3).
//! - While threads wait, it takes the LWP, or at least its slot, from a thread after its slice
//!   (`mxn::preempt`).
//! - It fires timers that are overdue on an LWP that does not dispatch. If no LWP looks at the descriptors,
//!   it has the reserve's thread do so.
//! - It wakes a sleeper for work that no LWP looks at (rule 6 of `sched::wake`).
//! - If threads wait while an LWP dispatches others, it has that LWP look there.
//! - While no thread waits, it marks the slots of LWPs that have slept for long (`mxn::slots::rest`).
//! - If other processes have a part of the CPUs, it tries whether fewer slots do better (`thrift`).
//! - It records sleeps in the kernel that were not announced (`kernel_sleeps`).
//! - It ends the runtime once that was dropped and its last thread has ended.
//!
//! Rounds are 20 us apart, doubling to 10 ms while there is nothing to follow, as in Go's sysmon. When all of
//! the runtime has been idle or at rest for a second, the monitor sleeps. It wakes when an LWP runs or a
//! timer is overdue.
//!
//! It holds no slot, never allocates after its start, and makes no kernel threads (I4): `slots::reserve`
//! does.

mod cpus;
mod kernel_sleeps;
mod lwp_history;
mod plan;
pub(crate) mod policy;
pub(crate) mod sleep;
mod thrift;

use std::time::{Duration, Instant};

use self::cpus::Cpus;
use self::kernel_sleeps::KernelSleeps;
use self::lwp_history::{Memory, News};
use self::plan::{Action, Facts, Plan, Queued, Sleepers, Starved, Wake};
use self::policy::{MIN_PAUSE, Sample, Task, WOKEN_SLICE};
use self::thrift::Thrift;
use super::lwp::Lwp;
use super::lwp::preempt_request::{Manner, Preemption};
use super::sched::Scheduler;
use super::sched::poll::LastLook;
use super::sched::priority::Aging;
use super::timer::{self, NEVER};
use crate::fiber::stack;
use crate::recorder::event::SlotCause;
use crate::shim;
use crate::sys::kthread;
use crate::sys::task_state::{Tasks, own_cpu_clock};

/// The longest pause between two rounds, in ns. No thread waits much longer for a slot that a sleeper holds.
const MAX_PAUSE: u64 = 10_000_000;
/// The same while a thread waits and a slot is BRIEF (`mxn::slots::blocking`): after two rounds, another LWP
/// has it.
const BRIEF_PAUSE: u64 = 200_000;
/// How long the pauses stay so short, in ns, after they had to be.
const ALERT: u64 = 10_000_000;
/// The same, in ns, while a dropped runtime waits for its threads.
const CLOSING_PAUSE: u64 = 1_000_000;
/// How long all LWPs must have slept before the monitor does.
const LINGER: Duration = Duration::from_secs(1);
/// How many spares stand by before the first thread is preempted, unless there are fewer threads.
const WIDE_RESERVE: usize = 64;
/// A timer is the monitor's business when it is this late, in ns. LWPs look at their own first.
const OVERDUE: u64 = 50_000;
/// How many overdue timers the monitor fires in a round for an LWP that dispatches. There may be a million.
/// The monitor fires no more than that LWP can run besides its own.
const HELP: usize = 8;

/// A round takes some 10 us. The kernel lets a monitor that promises this run before threads that compute.
const KERNEL_SLICE: Duration = Duration::from_micros(100);

/// What came of a round.
struct Round {
    /// A slot was moved or an LWP woken.
    acted: bool,
    /// When the next slice is over, in ns from now.
    next_slice: u64,
    /// The earliest deadline of all LWPs, on the runtime's clock.
    next_timer: u64,
}

/// What came of the first look.
struct Survey {
    /// Threads in rings and next-slots.
    queued: usize,
    /// The earliest deadline of all LWPs, on the runtime's clock.
    next_timer: u64,
}

/// The monitor itself.
struct Monitor {
    scheduler: &'static Scheduler,
    /// What it remembers of each LWP, by number.
    memory: Vec<Memory>,
    /// The LWPs that are not dormant in this round.
    awake: Vec<u32>,
    /// How many LWPs ran threads in the last round, with a slot or without.
    running: usize,
    /// The CPUs that the process can have.
    cpus: Cpus,
    /// What the LWPs have found of these CPUs.
    news: News,
    /// LWPs that the trace follows through the kernel.
    kernel_sleeps: KernelSleeps,
    /// Reads from the kernel what the LWPs do.
    tasks: Tasks,
    /// The number of the LWP that is looked at in this round even if it is dormant.
    in_turn: usize,
    /// The reserve is wide enough for preemption.
    may_preempt: bool,
    /// No spare is there to take over from the LWPs that sleep.
    starved: Option<Starved>,
    /// How long the low queue has waited.
    aging: Aging,
    /// Since when nothing has run.
    quiet_since: Option<Instant>,
    /// Until when rounds stay short for brief regions, by the runtime's clock.
    alert_until: u64,
    /// When an LWP last looked at the descriptors.
    last_look: LastLook,
    /// Whether fewer slots do better.
    thrift: Thrift,
    /// How long the monitor has run, in ns.
    ran: u64,
}

impl Scheduler {
    /// Runs the monitor. Returns when the runtime stops.
    pub(crate) fn monitor(&'static self) {
        kthread::ask_for_short_slice(KERNEL_SLICE);
        Self::trace_helper(&self.monitor_trace, || Monitor::new(self, Tasks::private()).run());
    }
}

impl Monitor {
    fn new(scheduler: &'static Scheduler, tasks: Tasks) -> Self {
        let lwps = scheduler.settings.max_lwps;
        Self {
            scheduler,
            memory: vec![Memory::default(); lwps],
            awake: Vec::with_capacity(lwps),
            running: 1,
            cpus: Cpus::look_first(scheduler, &tasks),
            news: News::default(),
            kernel_sleeps: KernelSleeps::new(lwps),
            tasks,
            in_turn: 0,
            may_preempt: false,
            starved: None,
            aging: Aging::default(),
            quiet_since: None,
            alert_until: 0,
            last_look: LastLook::default(),
            thrift: Thrift::new(),
            ran: 0,
        }
    }

    fn run(mut self) {
        let scheduler = self.scheduler;
        let watch = &scheduler.watch;
        let mut pause = MIN_PAUSE;
        loop {
            if scheduler.may_stop() {
                scheduler.stop();
            }
            // This may also be because a start failed half-way.
            if scheduler.life.is_stopping() {
                return;
            }
            let Round { acted, next_slice, next_timer } = self.round();
            if stack::notice_surplus() {
                // Giving memory back takes locks of the C library, so it is not done here.
                scheduler.reserve_state.ask();
            }
            let longest = if scheduler.life.is_open() { MAX_PAUSE } else { CLOSING_PAUSE };
            let next;
            (next, pause) = policy::pause(pause, acted, next_slice, longest);
            // If more is due than could be fired, the next round is not long in coming.
            let soon = scheduler.clock.now() + MIN_PAUSE;
            let due = scheduler.clock.moment(next_timer.saturating_add(OVERDUE).max(soon));
            if self.quiet_for_long() {
                // No thread is queued, so none that was preempted is. The next to be preempted may wait for
                // the spares again.
                self.may_preempt = false;
                scheduler.narrow_reserve();
                if scheduler.sees_descriptors() {
                    // LWPs that sleep see to their own deadlines. One that is in the kernel, without a slot,
                    // cannot.
                    watch.sleep_deeply(due, || scheduler.may_sleep_until(next_timer));
                    (self.quiet_since, pause) = (None, MIN_PAUSE);
                    continue;
                }
                // An LWP that wakes for nothing goes to sleep among the descriptors.
                scheduler.wake_searcher();
            }
            let is_alert = self.alert_until > scheduler.clock.now();
            let next = if is_alert { next.min(BRIEF_PAUSE) } else { next };
            let next = next.max(policy::pause_for_cost(self.awake.len(), self.cost(), longest));
            let deadline = shim::now() + Duration::from_nanos(next);
            let deadline = due.map_or(deadline, |due| due.min(deadline));
            if next <= BRIEF_PAUSE {
                watch.nap(deadline);
            } else if watch.doze(deadline, || !scheduler.must_look_soon()) {
                self.alert_until = scheduler.clock.now() + ALERT;
                pause = MIN_PAUSE;
            }
        }
    }

    /// Looks at everything once, decides about each LWP (`plan`), and acts.
    fn round(&mut self) -> Round {
        let scheduler = self.scheduler;
        let time = scheduler.clock.now();
        self.cpus.look(scheduler, time);
        scheduler.age_low(&mut self.aging);
        scheduler.see_to_descriptors(&mut self.last_look, time);
        let survey = self.survey(time);
        self.kernel_sleeps.look(scheduler, &mut self.memory, &self.tasks);
        let preempted = scheduler.preempted.len() > 0;
        let shared = preempted || scheduler.inject.len() > 0;
        let counts = scheduler.shares.count(preempted, time);
        let mut plan = Plan::new(
            scheduler.queued(survey.queued),
            scheduler.idle.look().sleeping,
            self.running,
            scheduler.pool.slots(),
            self.news.is_crowded(time),
            scheduler.placement.has_homes(),
        );
        let (mut acted, mut stale) = (false, false);
        let mut running = 0;
        let mut calm = true;
        let mut next_slice = u64::MAX;
        for at in 0..self.awake.len() {
            let lwp = scheduler.pool.lwp(self.awake[at]);
            let mut memory = self.memory[lwp.index as usize];
            tell(lwp, counts, memory.lets_wait(lwp) || shared);
            let before = memory.sample;
            let mut now = memory.look_at(lwp, time, scheduler.signals, &mut self.news);
            stale |= lwp.has_stealable() && before.tick == now.tick;
            let mut asked = Asked { monitor: self, memory: &mut memory, lwp, tick: now.tick };
            let action = plan.decide(&before, &now, &mut asked);
            let moved = self.act(action, lwp, &mut memory, &mut now, time);
            if moved {
                plan.moved(action);
                acted = true;
            }
            next_slice = next_slice.min(now.next_end(plan.waiting, memory.asked_at == time));
            calm &= now.is_calm();
            memory.keep(lwp, now, moved && action == Action::Release);
            running += usize::from(now.holds_slot && !now.idle || memory.computes);
            if memory.is_dormant(lwp) {
                scheduler.pool.leave_active(lwp);
            }
            self.memory[lwp.index as usize] = memory;
        }
        self.running = running.max(1);
        self.thrift.end_round(scheduler, &self.tasks, time, calm);
        scheduler
            .shares
            .compete(running + survey.queued + scheduler.inject.len() + scheduler.preempted.len());
        let wake = scheduler.sleepers().wake(stale || scheduler.has_shared());
        if wake.is_some() {
            scheduler.wake_searcher();
        }
        Round { acted: acted || wake == Some(Wake::ToWork), next_slice, next_timer: survey.next_timer }
    }

    /// Does what was decided about an LWP. Returns `true` if that moved a slot, or may make more of the same
    /// necessary.
    fn act(
        &mut self,
        action: Action,
        lwp: &'static Lwp,
        memory: &mut Memory,
        now: &mut Sample,
        time: u64,
    ) -> bool {
        let scheduler = self.scheduler;
        match action {
            Action::Nothing => {}
            Action::Renew => memory.begin_slice(time),
            Action::LetCompute => {
                memory.computes = true;
                memory.begin_slice(time);
            }
            Action::Open { take } => {
                return memory.region.is_some_and(|region| scheduler.slots.outstay(&lwp.slot, region))
                    && take
                    && scheduler.retake(lwp);
            }
            Action::Take => return scheduler.retake(lwp),
            Action::Rest => scheduler.rest(lwp, now.announced),
            Action::Compensate => return self.compensate(lwp, memory, now, time),
            Action::LendAsleep => return scheduler.lend_slot(SlotCause::InKernel),
            Action::LendComputing => return scheduler.lend_slot(SlotCause::Computes),
            Action::Ask(manner) => {
                if now.holds_slot {
                    self.starved = None;
                } else {
                    memory.computes = true;
                }
                self.ask_to_leave(lwp, memory, now, time, manner);
            }
            Action::Release => {
                self.starved = None;
                if scheduler.hand_off(lwp) {
                    return true;
                }
                self.ask_to_leave(lwp, memory, now, time, Manner::Polite);
            }
            Action::HandOff { .. } if scheduler.hand_off(lwp) => return true,
            Action::HandOff { ask: true } => self.ask_to_leave(lwp, memory, now, time, Manner::Anywhere),
            Action::HandOff { ask: false } => {}
        }
        false
    }

    /// Asks the thread of an LWP to leave, by signal, if that may be done already.
    fn ask_to_leave(&mut self, lwp: &Lwp, memory: &mut Memory, now: &mut Sample, time: u64, manner: Manner) {
        memory.asked_at = time;
        // Without signals, none is sent, even if another runtime of the process has a handler. If the LWP
        // sleeps, it has begun to just now, and a signal would end that.
        let asked = Preemption { tick: now.tick, manner };
        now.asked = self.scheduler.signals
            && lwp_history::is_awake(lwp, &self.tasks)
            && self.may_preempt()
            && self.scheduler.ask_to_leave(lwp, asked);
    }

    /// Lets a spare take over from an LWP with a slot that sleeps in the kernel. If there is none, the LWP's
    /// thread may be asked to leave as if it computed. For all LWPs may sleep behind a lock that a preempted
    /// thread holds, also the thread that makes spares (the allocator has such locks). The system call begins
    /// again when the thread is next run, so the thread that can go on is found in the end.
    fn compensate(&mut self, lwp: &'static Lwp, memory: &mut Memory, now: &mut Sample, time: u64) -> bool {
        let scheduler = self.scheduler;
        if scheduler.compensate(lwp) || scheduler.pool.spares() > 0 {
            self.starved = None;
            return true;
        }
        let starved = Starved::go_on(self.starved, time);
        self.starved = Some(starved);
        let tid = lwp.life.tid().cast_signed();
        let preemptible = now.slice != u64::MAX && scheduler.signals && !now.asked;
        let due = starved.due(scheduler.preempted.len());
        if !preemptible
            || time - starved.since < due
            || now.age < due
            || !self.may_preempt()
            || !self.tasks.may_begin_again(tid)
        {
            return false;
        }
        memory.asked_at = time;
        now.asked = scheduler.ask_to_leave(lwp, Preemption { tick: now.tick, manner: Manner::InCall });
        self.starved = Some(starved.with_one_more());
        now.asked
    }

    /// Takes a first look at all LWPs: notes those that are not dormant, and ends overdue sleeps. Moves what
    /// waits on LWPs without a slot to where it is found. Counts what is queued.
    fn survey(&mut self, time: u64) -> Survey {
        let scheduler = self.scheduler;
        let mut survey = Survey { queued: 0, next_timer: NEVER };
        self.awake.clear();
        self.in_turn = (self.in_turn + 1) % scheduler.pool.reach().max(1);
        for lwp in scheduler.pool.lwps() {
            let index = lwp.index as usize;
            if self.memory[index].is_dormant(lwp) && index != self.in_turn {
                continue;
            }
            self.awake.push(lwp.index);
            scheduler.fire_overdue(lwp, time, self.memory[index].sample.tick == lwp.tick.get());
            // If threads have homes, none loses its slice, so LWPs run dry, and steal.
            if !scheduler.placement.has_homes() && lwp.slot.is_none() && lwp.has_stealable() {
                scheduler.evacuate(lwp);
            }
            survey.next_timer = survey.next_timer.min(lwp.timers.next());
            survey.queued += lwp.queue.len();
        }
        survey
    }

    /// Returns `true` if enough spares stand by. Others may queue behind a preempted thread that holds a lock
    /// of the C library, the loader or std. Asks for them the first time, and when there are more threads.
    fn may_preempt(&mut self) -> bool {
        if self.may_preempt && self.scheduler.reserve_state.width() >= WIDE_RESERVE {
            return true;
        }
        let threads = usize::try_from(self.scheduler.live_threads()).unwrap_or(usize::MAX);
        let spares = threads.min(WIDE_RESERVE);
        // This waits only the first time: later, the maker of spares may want a lock of a preempted thread.
        if !self.may_preempt || spares > self.scheduler.reserve_state.width() {
            self.may_preempt |= self.scheduler.widen_reserve(spares);
        }
        self.may_preempt
    }

    /// Returns how long the monitor has run since the last call, in ns; 0 if that is not known.
    fn cost(&mut self) -> u64 {
        let now = own_cpu_clock().unwrap_or(0);
        now.saturating_sub(std::mem::replace(&mut self.ran, now))
    }

    /// Returns `true` if nothing has run for `LINGER`.
    fn quiet_for_long(&mut self) -> bool {
        if !self.scheduler.all_asleep() || !self.kernel_sleeps.is_empty() {
            self.quiet_since = None;
            return false;
        }
        self.quiet_since.get_or_insert_with(Instant::now).elapsed() >= LINGER
    }
}

impl Scheduler {
    /// Ends sleeps that an LWP has not seen to. Their threads go to the injection queue. `is_stuck`: it has
    /// not dispatched since the last round. Otherwise it comes to them by itself, and is only helped.
    fn fire_overdue(&'static self, lwp: &Lwp, now: u64, is_stuck: bool) {
        if lwp.timers.next().saturating_add(OVERDUE) <= now {
            self.fire_elsewhere(lwp, None, if is_stuck { timer::BATCH } else { HELP });
        }
    }

    /// Returns how many threads wait in each queue. `local`: in rings and next-slots.
    fn queued(&self, local: usize) -> Queued {
        Queued {
            high: self.levels.high(),
            low: self.levels.len(),
            woken: self.inject.len() + local,
            preempted: self.preempted.len() + usize::from(self.levels.owe_low()),
        }
    }

    /// Returns what is seen of the LWPs that sleep idle.
    fn sleepers(&self) -> Sleepers {
        let look = self.idle.look();
        Sleepers {
            sleeping: look.sleeping,
            searching: look.searching,
            watched: self.idle.is_watched(),
            all_idle: self.do_nothing(self.pool.slots()),
        }
    }
}

/// Tells an LWP whether to count the time of its threads, and (`waits`) to look at its ring and at the shared
/// queues.
fn tell(lwp: &Lwp, counts: bool, waits: bool) {
    if lwp.flags.counts() != counts {
        lwp.flags.count(counts);
    }
    if waits {
        // If threads yield and wake up all the time, their LWP would dispatch without ever looking at threads
        // that lost their slice. It would look at the others after some hundred dispatches, of which each may
        // take nearly a millisecond.
        lwp.flags.look();
    }
}

/// What can be asked about one LWP.
struct Asked<'a> {
    monitor: &'a mut Monitor,
    memory: &'a mut Memory,
    lwp: &'static Lwp,
    /// The tick that was seen in this round.
    tick: u32,
}

impl Facts for Asked<'_> {
    fn task(&mut self) -> Option<Task> {
        let Monitor { scheduler, kernel_sleeps, tasks, .. } = &mut *self.monitor;
        let task = self.memory.ask(self.lwp, scheduler.clock, tasks);
        if matches!(task, Some(Task::Asleep(_))) {
            kernel_sleeps.add(scheduler, self.lwp, self.tick, self.memory);
        }
        task
    }

    fn is_crowded(&mut self, running: usize) -> bool {
        let Monitor { scheduler, cpus, news, tasks, .. } = &mut *self.monitor;
        self.memory.is_crowded(self.lwp, running, cpus.processors(), scheduler.clock, news, tasks)
    }

    fn has_computed(&mut self) -> bool {
        self.memory.has_computed(self.lwp, self.tick, WOKEN_SLICE, &self.monitor.tasks)
    }

    fn lent(&self) -> u32 {
        self.monitor.scheduler.slots.lent()
    }
}

#[cfg(test)]
mod naps_tests;
