//! The monitor: one kernel thread for each runtime that sees what no LWP can see of itself.
//!
//! Each round it compares every LWP with its last sample (`judge`), and then:
//!
//! - moves the slot of an LWP that sleeps in the kernel to a spare, while threads wait (what SIGWAITING was made for, but each
//!   LWP by itself, and within milliseconds);
//! - where other processes have the CPUs, hands threads that compute to the kernel as kernel threads of their own, so that the
//!   process gets its share (what Cantrill missed in section 5.3);
//! - takes the LWP, or at least its slot, from a thread whose slice is over, while threads wait (`mxn::preempt`);
//! - fires timers that are overdue on an LWP that does not dispatch;
//! - wakes a sleeper for work that nobody looks at (rule 6 of `sched::wake`);
//! - marks the slots of LWPs that have slept in the kernel for long, while no thread waits (`mxn::rest`);
//! - ends the runtime once it was dropped and its last thread has ended.
//!
//! Rounds are 20 us apart, doubling to 10 ms while there is nothing to follow (Go's sysmon has the same
//! figures). When all of the runtime has been idle or at rest for a second, the monitor sleeps too, until an
//! LWP runs or a timer is overdue.
//!
//! It holds no slot, never allocates after its start, and makes no kernel threads (I4): the reserve of spare LWPs is filled by
//! [`reserve`].

mod cpus;
mod hand_off;
pub(crate) mod judge;
mod memory;
pub(crate) mod reserve;
mod starved;
pub(crate) mod watch;

use std::time::{Duration, Instant};

use self::cpus::Cpus;
use self::judge::{Did, MIN_PAUSE, Sample, Verdict, WOKEN_SLICE, Waiting, judge};
use self::memory::{Memory, News};
use self::starved::Starved;
use super::green::Green;
use super::lwp::Lwp;
use super::lwp::request::{Asked, Manner};
use super::sched::levels::{Aging, Visit};
use super::sched::{CLOSING, INTERRUPTING, OPEN, STOPPING, Scheduler};
use super::stack;
use super::timer::NEVER;
use super::tls::Rung;
use crate::shim;
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::sys::kthread;
use crate::sys::task_state::Tasks;

/// Between two rounds at most, in ns. Nobody waits longer than this and a little for a slot that a sleeper holds.
const MAX_PAUSE: u64 = 10_000_000;
/// The same, in ns, while somebody waits and a slot is BRIEF (`mxn::region`): a slot is BRIEF in two rounds at most
/// before somebody else has it.
const BRIEF_PAUSE: u64 = 200_000;
/// How long the pauses stay so short, in ns, after they had to be.
const ALERT: u64 = 10_000_000;
/// The same, in ns, while a dropped runtime waits for its threads.
const CLOSING_PAUSE: u64 = 1_000_000;
/// How long all LWPs must have slept before the monitor does.
const LINGER: Duration = Duration::from_secs(1);
/// Spares that stand by before the first thread is preempted, unless there are fewer threads.
const WIDE_RESERVE: usize = 64;
/// So many LWPs for each slot compute at most because other processes have the CPUs.
const CROWD: usize = 6;
/// A timer is the monitor's business when it is this late, in ns: LWPs look at their own first.
const OVERDUE: u64 = 50_000;

/// A round takes some 10 us; with this promise the kernel lets a monitor that wakes run before threads that compute.
const KERNEL_SLICE: Duration = Duration::from_micros(100);

/// What came of a round.
struct Round {
    did: Did,
    /// When the next slice is over, in ns from now.
    next_slice: u64,
    /// The earliest deadline of all heaps, on the runtime's clock.
    next_timer: u64,
}

/// What came of the first look.
struct Survey {
    /// Threads in rings and next-slots.
    queued: usize,
    /// Sleeps were ended.
    fired: bool,
    /// The earliest deadline of all heaps, on the runtime's clock.
    next_timer: u64,
}

/// The monitor itself.
struct Monitor {
    scheduler: &'static Scheduler,
    /// What it remembers of each LWP, by number.
    memory: Vec<Memory>,
    /// The LWPs that are not dormant in this round.
    awake: Vec<u32>,
    /// LWPs that ran threads in the last round, with a slot or without.
    running: usize,
    /// The CPUs that the process can have.
    cpus: Cpus,
    /// What any LWP has found of them.
    news: News,
    /// Reads from the kernel what the LWPs do.
    tasks: Tasks,
    /// The dormant one that is looked at in this round all the same.
    in_turn: usize,
    /// The reserve is wide enough for preemption.
    may_preempt: bool,
    /// Nobody is there to take over from those that sleep.
    starved: Option<Starved>,
    /// How long the low queue waits.
    aging: Aging,
    /// Since when nothing has run.
    quiet_since: Option<Instant>,
    /// Until when rounds stay short for brief regions, by the runtime's clock.
    alert_until: u64,
}

impl Scheduler {
    /// The monitor's life; returns when the runtime stops.
    pub(crate) fn monitor(&'static self) {
        kthread::ask_for_short_slice(KERNEL_SLICE);
        Monitor::new(self, Tasks::private()).run();
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
            cpus: Cpus::look_first(&tasks),
            news: News::default(),
            tasks,
            in_turn: 0,
            may_preempt: false,
            starved: None,
            aging: Aging::default(),
            quiet_since: None,
            alert_until: 0,
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
            // Also because a start failed half-way.
            if scheduler.is_stopping() {
                return;
            }
            let Round { did, next_slice, next_timer } = self.round();
            if stack::notice_surplus() {
                // Giving memory back takes locks of the C library: not here.
                scheduler.refill_reserve();
            }
            let closing = scheduler.life.phase.load(Ordering::Relaxed) != OPEN;
            let longest = if closing { CLOSING_PAUSE } else { MAX_PAUSE };
            let next;
            (next, pause) = judge::pause(pause, did, next_slice, longest);
            let due = scheduler.clock.instant(next_timer.saturating_add(OVERDUE));
            if self.quiet_for_long() {
                // Nobody is queued, so nobody who was preempted is: the next to be may wait for the spares again.
                self.may_preempt = false;
                scheduler.narrow_reserve();
                // LWPs that sleep see to their own deadlines; one that is in the kernel, its slot gone, cannot.
                watch.sleep_deeply(due, || scheduler.may_sleep_deeply());
                (self.quiet_since, pause) = (None, MIN_PAUSE);
                continue;
            }
            let is_alert = self.alert_until > scheduler.clock.now();
            let next = if is_alert { next.min(BRIEF_PAUSE) } else { next };
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

    /// One look at everything.
    fn round(&mut self) -> Round {
        let scheduler = self.scheduler;
        let time = scheduler.clock.now();
        self.cpus.look(scheduler, time);
        scheduler.age_low(&mut self.aging);
        let survey = self.survey(time);
        let mut acted = false;
        let asleep = scheduler.idle.look().sleeping;
        // With a sleeper at hand there is a slot already: he is woken below.
        let (mut waiting, mut count) =
            if asleep > 0 { (Waiting::Nobody, 0) } else { scheduler.waiting(survey.queued) };
        let most = CROWD * scheduler.pool.slots() as usize;
        if matches!(waiting, Waiting::Preempted { .. }) && self.running < most && self.news.is_crowded(time) {
            // They do not take turns: there is to be an LWP for each.
            waiting = Waiting::Woken;
        }
        let preempted = scheduler.preempted.len() > 0;
        let counts = scheduler.shares.count(preempted, time);
        let mut stale = false;
        let (mut running, mut stuck) = (0, 0);
        let mut next_slice = u64::MAX;
        for at in 0..self.awake.len() {
            let lwp = scheduler.pool.lwp(self.awake[at]);
            let mut memory = self.memory[lwp.index as usize];
            let before = memory.sample;
            if lwp.asked.counts() != counts {
                lwp.asked.count(counts);
            }
            if preempted {
                // If threads yield and wake up all the time, their LWP would dispatch without ever looking at
                // the shared queues.
                lwp.asked.look();
            }
            let mut now = memory.look_at(lwp, time, scheduler.signals);
            stale |= lwp.has_stealable() && before.tick == now.tick;
            let mut verdict = judge(&before, &now, waiting, None);
            if verdict == Verdict::Suspect {
                let task = memory.ask(lwp, scheduler.clock, &self.tasks);
                verdict = judge(&before, &now, waiting, task);
            }
            let mut handed_off = false;
            acted |= match verdict {
                Verdict::Healthy | Verdict::Suspect => false,
                Verdict::Respite => {
                    memory.begin_slice(time);
                    false
                }
                Verdict::Outstayed => {
                    memory.region.is_some_and(|region| scheduler.outstay(lwp, region))
                        && waiting != Waiting::Nobody
                        && scheduler.retake(lwp)
                }
                Verdict::BlockedAnnounced => scheduler.retake(lwp),
                Verdict::Rests => {
                    scheduler.rest(lwp, now.announced);
                    false
                }
                Verdict::Blocked if scheduler.rung != Rung::Pinned => {
                    self.compensate(lwp, &mut memory, &mut now, time)
                }
                Verdict::Hogged if !now.holds_slot => {
                    memory.computes = true;
                    if self.is_crowded(lwp, &mut memory) {
                        // It is why the process has its share.
                        memory.begin_slice(time);
                    } else {
                        self.ask_to_leave(lwp, &mut memory, &mut now, time, Manner::Polite);
                    }
                    false
                }
                Verdict::Blocked => {
                    stuck += 1;
                    self.replace(stuck, &mut count, &scheduler.watch.compensated)
                }
                Verdict::HandOff if scheduler.rung == Rung::Pinned => {
                    stuck += u32::from(memory.has_computed(lwp, now.tick, WOKEN_SLICE, &self.tasks));
                    self.replace(stuck, &mut count, &scheduler.watch.handed_off)
                }
                // No more of the others than there are threads that wait.
                Verdict::Hogged | Verdict::HandOff if count == 0 => false,
                Verdict::Hogged => {
                    count -= 1;
                    self.starved = None;
                    let crowded = self.is_crowded(lwp, &mut memory);
                    handed_off = crowded && self.running < most && scheduler.hand_off(lwp);
                    self.running += usize::from(handed_off);
                    if !handed_off {
                        self.ask_to_leave(lwp, &mut memory, &mut now, time, Manner::Polite);
                    }
                    handed_off
                }
                Verdict::HandOff => {
                    count -= 1;
                    let moved = scheduler.hand_off(lwp);
                    if !moved && !now.asked {
                        self.ask_to_leave(lwp, &mut memory, &mut now, time, Manner::Anywhere);
                    }
                    moved
                }
            };
            next_slice = next_slice.min(now.next_end(waiting, memory.asked_at == time));
            memory.keep(lwp, now, handed_off);
            running += usize::from(now.holds_slot && !now.idle || memory.computes);
            self.memory[lwp.index as usize] = memory;
        }
        self.running = running.max(1);
        scheduler
            .shares
            .compete(running + survey.queued + scheduler.inject.len() + scheduler.preempted.len());
        let look = scheduler.idle.look();
        if look.sleeping > 0 && look.searching == 0 {
            if stale || scheduler.has_shared() {
                scheduler.wake_searcher();
                acted = true;
            } else if !scheduler.do_nothing(scheduler.pool.slots()) && !scheduler.idle.is_watched() {
                // An LWP runs, and all others sleep deeply: one of them is to watch what it leaves lying.
                scheduler.wake_searcher();
            }
        }
        let did = match (acted, survey.fired) {
            (true, _) => Did::Acted,
            (false, true) => Did::EndedSleeps,
            (false, false) => Did::Nothing,
        };
        Round { did, next_slice, next_timer: survey.next_timer }
    }

    /// Rung 3: there is to be a slot more for each of the `stuck` LWPs found so far, which keep their own, because their threads can run nowhere
    /// else; but no more at a time than there are threads that wait.
    fn replace(&self, stuck: u32, waiting: &mut usize, counter: &AtomicU64) -> bool {
        // Relaxed: a number.
        let lent = self.scheduler.life.lent.load(Ordering::Relaxed);
        let lends = lent < stuck && *waiting > 0 && self.scheduler.lend_slot(counter);
        *waiting -= usize::from(lends);
        lends
    }

    /// Returns `true` if other processes have the CPU that this LWP's thread needs.
    fn is_crowded(&mut self, lwp: &Lwp, memory: &mut Memory) -> bool {
        let (clock, cpus) = (self.scheduler.clock, self.cpus.processors());
        memory.is_crowded(lwp, self.running, cpus, clock, &mut self.news, &self.tasks)
    }

    /// Asks the thread of an LWP to leave, by signal, if that may be done already.
    fn ask_to_leave(&mut self, lwp: &Lwp, memory: &mut Memory, now: &mut Sample, time: u64, manner: Manner) {
        memory.asked_at = time;
        // One that sleeps has begun to just now: a signal would end that.
        let asked = Asked { tick: now.tick, manner };
        now.asked = memory::is_awake(lwp, &self.tasks)
            && self.may_preempt()
            && self.scheduler.ask_to_leave(lwp, asked);
    }

    /// An LWP with a slot sleeps in the kernel: a spare takes over. Where there is none, and perhaps never will be, because all sleep behind a lock of somebody who has lost his
    /// slice, also who makes spares (the allocator has such locks), its thread is asked to leave as if it computed: its system call begins again when it is next
    /// run, so who can go on is found in the end.
    fn compensate(&mut self, lwp: &'static Lwp, memory: &mut Memory, now: &mut Sample, time: u64) -> bool {
        let scheduler = self.scheduler;
        if scheduler.compensate(lwp) || scheduler.pool.spares() > 0 {
            self.starved = None;
            return true;
        }
        let starved = Starved::go_on(self.starved, time);
        self.starved = Some(starved);
        // Relaxed: it was read with acquire for the kernel's word on it.
        let tid = lwp.tid.load(Ordering::Relaxed).cast_signed();
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
        now.asked = scheduler.ask_to_leave(lwp, Asked { tick: now.tick, manner: Manner::InCall });
        self.starved = Some(starved.with_one_more());
        now.asked
    }

    /// A first look at all LWPs: notes those that are not dormant, ends their sleeps that are overdue, sees to it that what waits on those without a
    /// slot is found, and counts what the others have queued.
    fn survey(&mut self, time: u64) -> Survey {
        let scheduler = self.scheduler;
        let mut survey = Survey { queued: 0, fired: false, next_timer: NEVER };
        self.awake.clear();
        self.in_turn = (self.in_turn + 1) % scheduler.pool.reach().max(1);
        for lwp in scheduler.pool.lwps() {
            let index = lwp.index as usize;
            if self.memory[index].is_dormant(lwp) && index != self.in_turn {
                continue;
            }
            self.awake.push(lwp.index);
            survey.fired |= scheduler.fire_overdue(lwp, time);
            // On rung 3 nobody loses his slice, so LWPs run dry, and steal.
            if scheduler.rung != Rung::Pinned && lwp.slot.is_none() && lwp.has_stealable() {
                scheduler.evacuate(lwp);
            }
            survey.next_timer = survey.next_timer.min(lwp.timers.next());
            survey.queued += lwp.ring.len() + usize::from(lwp.has_next());
        }
        survey
    }

    /// Whether enough spares stand by for those that will queue behind a thread which is preempted with a lock of the C library, the
    /// loader or std in its hands. Asks for them, the first time and when there are more threads.
    fn may_preempt(&mut self) -> bool {
        if self.may_preempt && self.scheduler.reserve() >= WIDE_RESERVE {
            return true;
        }
        let threads = usize::try_from(self.scheduler.live_threads()).unwrap_or(usize::MAX);
        let spares = threads.min(WIDE_RESERVE);
        // Only the first time it is waited for: who makes spares may want a lock that a thread has which was preempted since.
        if !self.may_preempt || spares > self.scheduler.reserve() {
            self.may_preempt |= self.scheduler.widen_reserve(spares);
        }
        self.may_preempt
    }

    /// Whether nothing has run for `LINGER`.
    fn quiet_for_long(&mut self) -> bool {
        if !self.scheduler.all_asleep() {
            self.quiet_since = None;
            return false;
        }
        self.quiet_since.get_or_insert_with(Instant::now).elapsed() >= LINGER
    }
}

impl Scheduler {
    /// Ends sleeps that an LWP has not seen to; their threads go to the injection queue.
    fn fire_overdue(&'static self, lwp: &Lwp, now: u64) -> bool {
        lwp.timers.next().saturating_add(OVERDUE) <= now
            && lwp.timers.fire(now, |thread| {
                // SAFETY: only green threads arm entries in these heaps.
                self.ready_elsewhere(unsafe { Green::of(thread) });
            }) > 0
    }

    /// Who waits for a slot, and about how many; `queued`: on rings and in next-slots.
    fn waiting(&self, queued: usize) -> (Waiting, usize) {
        let woken = self.inject.len() + queued;
        // Low threads make somebody leave once they have waited for long.
        let preempted = self.preempted.len() + usize::from(self.levels.owe_low());
        match (self.levels.high(), woken, preempted) {
            (0, 0, 0) => match self.levels.len() {
                0 => (Waiting::Nobody, 0),
                low => (Waiting::Low, low),
            },
            (0, 0, preempted) => {
                let ahead = u32::try_from(preempted).unwrap_or(u32::MAX).div_ceil(self.pool.slots().max(1));
                (Waiting::Preempted { ahead }, preempted)
            }
            (0, woken, _) => (Waiting::Woken, woken),
            (high, ..) => (Waiting::Urgent, high),
        }
    }

    /// Whether the runtime was dropped and has no thread, and nobody from outside is in it.
    pub(super) fn may_stop(&self) -> bool {
        // SeqCst: `visitors` is read after the counts of threads. A visitor owned one of the threads when it came.
        matches!(self.life.phase.load(Ordering::Acquire), CLOSING | INTERRUPTING)
            && self.live_threads() == 0
            && {
                Visit::close();
                true
            }
            && self.life.visitors.load(Ordering::SeqCst) == 0
    }

    /// Threads that have been spawned and have not ended.
    ///
    /// Ends are read before spawns, each from counters that only grow: if the sums are equal, there was a moment between the
    /// two reads with no thread alive; and a runtime that was dropped gets threads only from its threads.
    pub(crate) fn live_threads(&self) -> u64 {
        let ended: u64 = self.pool.all().map(|lwp| lwp.counters.ended.load(Ordering::Acquire)).sum();
        let ended = ended + self.life.ended_elsewhere.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let spawned: u64 = self.pool.all().map(|lwp| lwp.counters.spawned.load(Ordering::Acquire)).sum();
        spawned + self.life.spawned_elsewhere.load(Ordering::Acquire) - ended
    }

    /// Tells all LWPs to end.
    pub(crate) fn stop(&self) {
        // Release: pairs with the acquire of `is_stopping`. The fence orders it with what follows, and pairs with those
        // of `Idle::enter` and `wait_for_slot`: an LWP that makes its bed after we have roused it, or that we do not know yet,
        // sees that it must not sleep.
        self.life.phase.store(STOPPING, Ordering::Release);
        fence(Ordering::SeqCst);
        self.refill_reserve();
        for lwp in self.pool.lwps() {
            self.pool.rouse(lwp);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_end.rs"]
mod loom_end;

#[cfg(test)]
#[path = "../tests/naps.rs"]
mod naps;
