//! The monitor: one kernel thread for each runtime that sees what no LWP can see of itself.
//!
//! Each round it compares every LWP with its last sample (`judge`), and then:
//!
//! - moves the slot of an LWP that sleeps in the kernel to a spare, while threads wait (what SIGWAITING was made for, but each
//!   LWP by itself, and within milliseconds);
//! - takes the LWP, or at least its slot, from a thread whose slice is over, while threads wait (`mxn::preempt`);
//! - fires timers that are overdue on an LWP that does not dispatch;
//! - wakes a sleeper for work that nobody looks at (rule 6 of `sched::wake`);
//! - ends the runtime once it was dropped and its last thread has ended.
//!
//! Rounds are 20 us apart, doubling to 10 ms while there is nothing to do (Go's sysmon has the same figures). When the whole
//! runtime has slept for a second, the monitor sleeps too, without a deadline, until an LWP is woken.
//!
//! It holds no slot, never allocates after its start, and makes no kernel threads (I4): the reserve of spare LWPs is filled by
//! [`reserve`].

pub(crate) mod judge;
pub(crate) mod reserve;
pub(crate) mod watch;

use std::time::{Duration, Instant};

use self::judge::{Sample, Verdict, Waiting, judge};
use super::green::Green;
use super::lwp::Lwp;
use super::lwp::request::Answer;
use super::lwp::slot::InHand;
use super::sched::levels::{Aging, Visit};
use super::sched::{CLOSING, OPEN, STOPPING, Scheduler};
use super::stack;
use super::timer::NEVER;
use super::tls::Rung;
use crate::park::priority::Priority;
use crate::shim;
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::sys::task_state::{TaskState, task_state};
use crate::sys::{kthread, preempt};

/// Between two rounds while something happens.
const MIN_ROUND: Duration = Duration::from_micros(20);
/// Between two rounds at most. Nobody waits longer than this and a little for a slot that a sleeper holds.
const MAX_ROUND: Duration = Duration::from_millis(10);
/// Between two rounds at most while a dropped runtime waits for its threads.
const CLOSING_ROUND: Duration = Duration::from_millis(1);
/// How long all LWPs must have slept before the monitor does.
const LINGER: Duration = Duration::from_secs(1);
/// Spares that stand by before the first thread is preempted, unless there are fewer threads.
const WIDE_RESERVE: usize = 64;
/// So long after a signal was sent to a kernel thread that runs, in ns, it must have got lost: a stranger's was in its place.
const LOST: u64 = 10_000_000;
/// A timer is the monitor's business when it is this late, in ns: LWPs look at their own first.
const OVERDUE: u64 = 50_000;

/// A round takes some 10 us; with this promise the kernel lets a monitor that wakes run before threads that compute.
const KERNEL_SLICE: Duration = Duration::from_micros(100);

/// What came of a round.
struct Round {
    /// Something was done, so the next round comes soon.
    acted: bool,
    /// When the next slice is over, in ns from now.
    next_slice: u64,
}

/// What the monitor remembers of an LWP.
#[derive(Clone, Copy, Default)]
struct Memory {
    /// The last look.
    sample: Sample,
    /// When it first had the tick that it has.
    since: u64,
    /// When its thread was last asked to leave.
    asked_at: u64,
    /// So many times it has refused since it was mounted.
    refusals: u8,
}

/// The monitor itself.
struct Monitor {
    scheduler: &'static Scheduler,
    /// What it remembers of each LWP, by number.
    memory: Vec<Memory>,
    /// The reserve is wide enough for preemption.
    may_preempt: bool,
    /// How long the low queue waits.
    aging: Aging,
    /// Since when nothing has run.
    quiet_since: Option<Instant>,
}

impl Scheduler {
    /// The monitor's life; returns when the runtime stops.
    pub(crate) fn monitor(&'static self) {
        kthread::ask_for_short_slice(KERNEL_SLICE);
        let lwps = self.settings.max_lwps;
        Monitor {
            scheduler: self,
            memory: vec![Memory::default(); lwps],
            may_preempt: false,
            aging: Aging::default(),
            quiet_since: None,
        }
        .run();
    }
}

impl Monitor {
    fn run(mut self) {
        let scheduler = self.scheduler;
        let watch = &scheduler.watch;
        let mut round = MIN_ROUND;
        loop {
            if scheduler.may_stop() {
                scheduler.stop();
            }
            // Also because a start failed half-way.
            if scheduler.is_stopping() {
                return;
            }
            let Round { acted, next_slice } = self.round();
            if stack::notice_surplus() {
                // Giving memory back takes locks of the C library: not here.
                scheduler.refill_reserve();
            }
            let closing = scheduler.life.phase.load(Ordering::Relaxed) == CLOSING;
            let longest = if closing { CLOSING_ROUND } else { MAX_ROUND };
            round = if acted { MIN_ROUND } else { (2 * round).min(longest) };
            let due = scheduler.clock.instant(scheduler.next_timer().saturating_add(OVERDUE));
            if self.quiet_for_long() && !closing {
                // Nobody is queued, so nobody who was preempted is: the next to be may wait for the spares again.
                self.may_preempt = false;
                scheduler.narrow_reserve();
                // LWPs that sleep see to their own deadlines; one that is in the kernel, its slot gone, cannot.
                watch.sleep_deeply(due, || scheduler.may_sleep_deeply());
                (self.quiet_since, round) = (None, MIN_ROUND);
                continue;
            }
            // The end of the next slice, but not so soon that looking would be all we do.
            let until_slice = Duration::from_nanos(next_slice).max(MIN_ROUND);
            let deadline = shim::now() + round.min(until_slice);
            watch.nap(due.map_or(deadline, |due| due.min(deadline)));
        }
    }

    /// One look at everything.
    fn round(&mut self) -> Round {
        let scheduler = self.scheduler;
        let time = scheduler.clock.now();
        let mut acted = scheduler.fire_overdue();
        scheduler.age_low(&mut self.aging);
        let asleep = scheduler.idle.look().sleeping;
        // With a sleeper at hand there is a slot already: he is woken below.
        let (waiting, mut count) = if asleep > 0 { (Waiting::Nobody, 0) } else { scheduler.waiting() };
        let mut stale = false;
        let mut next_slice = u64::MAX;
        for lwp in scheduler.pool.lwps() {
            let mut memory = self.memory[lwp.index as usize];
            let before = memory.sample;
            let mut now = memory.look_at(lwp, time, scheduler.signals);
            stale |= lwp.has_queued() && before.tick == now.tick;
            let mut verdict = judge(&before, &now, waiting, None);
            if verdict == Verdict::Suspect {
                // Acquire: pairs with the LWP's start. One that does not run yet, or has ended, does not sleep in the kernel.
                let tid = lwp.tid.load(Ordering::Acquire);
                let sleeps = task_state(tid.cast_signed()).is_ok_and(TaskState::is_asleep);
                verdict = judge(&before, &now, waiting, Some(sleeps));
                if verdict == Verdict::Healthy && !now.holds_slot {
                    // It sleeps, its slot gone: it need not be asked after again so soon.
                    memory.since = time;
                }
            }
            acted |= match verdict {
                Verdict::Healthy | Verdict::Suspect => false,
                Verdict::BlockedAnnounced => scheduler.retake(lwp),
                // Rung 3: its threads can run nowhere else, so it keeps its slot, and the spare gets one more for a while.
                Verdict::Blocked | Verdict::HandOff if scheduler.rung == Rung::Pinned => {
                    scheduler.lend_slot()
                }
                Verdict::Blocked => scheduler.compensate(lwp),
                // No more of them than there are threads that wait.
                Verdict::Hogged | Verdict::HandOff if count == 0 => false,
                Verdict::Hogged => {
                    count -= 1;
                    now.asked = self.may_preempt() && scheduler.ask_to_leave(lwp, now.tick);
                    memory.asked_at = time;
                    now.asked
                }
                Verdict::HandOff => {
                    count -= 1;
                    scheduler.hand_off(lwp)
                }
            };
            if now.holds_slot && !now.idle {
                next_slice = now.left(waiting).map_or(next_slice, |left| next_slice.min(left));
            }
            memory.sample = now;
            self.memory[lwp.index as usize] = memory;
        }
        let look = scheduler.idle.look();
        if look.sleeping > 0 && look.searching == 0 {
            if stale || scheduler.has_shared() {
                scheduler.wake_searcher();
                acted = true;
            } else if look.sleeping < scheduler.pool.slots() && !scheduler.idle.is_watched() {
                // An LWP runs, and all others sleep deeply: one of them is to watch what it leaves lying.
                scheduler.wake_searcher();
            }
        }
        Round { acted, next_slice }
    }

    /// Whether enough spares stand by for those that will queue behind a thread which is preempted with a lock of the C library, the
    /// loader or std in its hands. Asks for them the first time.
    fn may_preempt(&mut self) -> bool {
        if !self.may_preempt {
            let threads = usize::try_from(self.scheduler.live_threads()).unwrap_or(usize::MAX);
            self.may_preempt = self.scheduler.widen_reserve(threads.min(WIDE_RESERVE));
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

impl Memory {
    /// What is to be seen of an LWP now.
    fn look_at(&mut self, lwp: &Lwp, time: u64, signals: bool) -> Sample {
        let before = self.sample;
        let tick = lwp.tick.get();
        let idle = lwp.bed.load(Ordering::Relaxed) != super::lwp::pool::AWAKE;
        if tick != before.tick || before.idle || idle {
            (self.since, self.refusals) = (time, 0);
        }
        let answer = lwp.request.answer(tick);
        let lost = answer == Answer::Pending && time - self.asked_at >= LOST;
        if before.asked && (lost || answer == Answer::Refused) {
            self.refusals = self.refusals.saturating_add(1);
        }
        // Relaxed: null, or a green thread, which is type-stable; at worst it is another one's slice.
        let running = lwp.running.load(Ordering::Relaxed);
        // SAFETY: as above.
        let running = unsafe { running.as_ref() };
        Sample {
            tick,
            holds_slot: lwp.slot.is_held(),
            announced: lwp.slot.is_blocking(),
            idle,
            age: time - self.since,
            slice: running.map_or(u64::MAX, Green::slice),
            high: running.is_some_and(|green| green.core.priority.get() == Priority::High),
            asked: answer == Answer::Pending && !lost,
            refusals: if signals { self.refusals } else { u8::MAX },
        }
    }
}

impl Scheduler {
    /// The monitor's last look before it sleeps without a round to wake it.
    pub(super) fn may_sleep_deeply(&self) -> bool {
        self.all_asleep() && self.life.phase.load(Ordering::Relaxed) == OPEN
    }

    /// Whether every slot's holder sleeps idle.
    fn all_asleep(&self) -> bool {
        let slots = self.pool.slots() + self.life.lent.load(Ordering::Relaxed);
        self.idle.look().sleeping >= slots && self.life.blocking.load(Ordering::Relaxed) == 0
    }

    /// The earliest deadline of all heaps.
    fn next_timer(&self) -> u64 {
        self.pool.lwps().map(|lwp| lwp.timers.next()).min().unwrap_or(NEVER)
    }

    /// Ends sleeps whose LWP has not seen to it; their threads go to the injection queue.
    fn fire_overdue(&'static self) -> bool {
        let now = self.clock.now();
        let mut fired = false;
        for lwp in self.pool.lwps() {
            if lwp.timers.next().saturating_add(OVERDUE) <= now {
                fired |= lwp.timers.fire(now, |thread| {
                    // SAFETY: only green threads arm entries in these heaps.
                    self.ready_elsewhere(unsafe { Green::of(thread) });
                }) > 0;
            }
        }
        fired
    }

    /// Who waits for a slot, and about how many.
    fn waiting(&self) -> (Waiting, usize) {
        let woken = self.inject.len()
            + self.pool.lwps().map(|lwp| lwp.ring.len() + usize::from(lwp.has_next())).sum::<usize>();
        // Low threads count once they have waited for long.
        let preempted = self.preempted.len() + usize::from(self.levels.owe_low());
        match (self.levels.high(), woken, preempted) {
            (0, 0, 0) => (Waiting::Nobody, 0),
            (0, 0, preempted) => (Waiting::Preempted, preempted),
            (0, woken, _) => (Waiting::Woken, woken),
            (high, ..) => (Waiting::Urgent, high),
        }
    }

    /// Asks the thread of dispatch `tick` to leave, by signal.
    fn ask_to_leave(&'static self, lwp: &Lwp, tick: u32) -> bool {
        lwp.request.ask(tick);
        // Relaxed: it was read with acquire for the kernel's word on it.
        let tid = lwp.tid.load(Ordering::Relaxed);
        preempt::send(tid.cast_signed()).is_ok()
    }

    /// The slot of an LWP whose thread does not leave goes to a spare.
    fn hand_off(&'static self, lwp: &'static Lwp) -> bool {
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
    pub(super) fn compensate(&'static self, lwp: &'static Lwp) -> bool {
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
    fn lend_slot(&'static self) -> bool {
        let lend = || {
            self.life.lent.fetch_add(1, Ordering::Relaxed);
            Some(InHand::beyond_concurrency())
        };
        self.move_slot(lend, &self.watch.compensated)
    }

    /// Takes the slot of any LWP that announced blocking, for work that waits.
    #[cold]
    pub(crate) fn retake_announced(&'static self) {
        if let Some(lwp) = self.pool.lwps().find(|lwp| lwp.slot.is_blocking()) {
            self.retake(lwp);
        }
    }

    /// Moves the slot of an LWP that announced blocking.
    fn retake(&'static self, lwp: &Lwp) -> bool {
        self.move_slot(|| lwp.slot.retake_announced(), &self.watch.compensated)
    }

    /// The calling LWP's own slot, announced as blocking, goes to a spare at once.
    #[cold]
    pub(crate) fn give_slot_away(&'static self, lwp: &Lwp) {
        self.retake(lwp);
    }

    /// Whether the runtime was dropped and has no thread, and nobody from outside is in it.
    pub(super) fn may_stop(&self) -> bool {
        // SeqCst: `visitors` is read after the counts of threads. A visitor owned one of the threads when it came.
        self.life.phase.load(Ordering::Acquire) == CLOSING
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
