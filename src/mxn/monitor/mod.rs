//! The monitor: one kernel thread for each runtime that sees what no LWP can see of itself.
//!
//! Each round it compares every LWP with its last sample (`judge`), and then:
//!
//! - moves the slot of an LWP that sleeps in the kernel to a spare, while threads wait (what SIGWAITING was made for, but each
//!   LWP by itself, and within milliseconds);
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

use self::judge::{Sample, Verdict, judge};
use super::green::Green;
use super::lwp::Lwp;
use super::lwp::slot::InHand;
use super::sched::{CLOSING, OPEN, STOPPING, Scheduler};
use super::stack;
use super::timer::NEVER;
use super::tls::Rung;
use crate::shim;
use crate::shim::atomic::{Ordering, fence};
use crate::sys::task_state::{TaskState, task_state};

/// Between two rounds while something happens.
const MIN_ROUND: Duration = Duration::from_micros(20);
/// Between two rounds at most. Nobody waits longer than this and a little for a slot that a sleeper holds.
const MAX_ROUND: Duration = Duration::from_millis(10);
/// Between two rounds at most while a dropped runtime waits for its threads.
const CLOSING_ROUND: Duration = Duration::from_millis(1);
/// How long all LWPs must have slept before the monitor does.
const LINGER: Duration = Duration::from_secs(1);
/// A timer is the monitor's business when it is this late, in ns: LWPs look at their own first.
const OVERDUE: u64 = 50_000;

/// The monitor's own memory.
struct Monitor {
    scheduler: &'static Scheduler,
    /// The last sample of each LWP, by number.
    samples: Vec<Sample>,
    /// Since when nothing has run.
    quiet_since: Option<Instant>,
}

impl Scheduler {
    /// The monitor's life; returns when the runtime stops.
    pub(crate) fn monitor(&'static self) {
        let samples = vec![Sample::default(); self.settings.max_lwps];
        Monitor { scheduler: self, samples, quiet_since: None }.run();
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
                return;
            }
            let acted = self.round();
            if stack::notice_surplus() {
                // Giving memory back takes locks of the C library: not here.
                scheduler.refill_reserve();
            }
            let closing = scheduler.life.phase.load(Ordering::Relaxed) == CLOSING;
            let longest = if closing { CLOSING_ROUND } else { MAX_ROUND };
            round = if acted { MIN_ROUND } else { (2 * round).min(longest) };
            let due = scheduler.clock.instant(scheduler.next_timer().saturating_add(OVERDUE));
            if self.quiet_for_long() && !closing {
                // LWPs that sleep see to their own deadlines; one that is in the kernel, its slot gone, cannot.
                watch.sleep_deeply(due, || scheduler.may_sleep_deeply());
                (self.quiet_since, round) = (None, MIN_ROUND);
                continue;
            }
            let deadline = shim::now() + round;
            watch.nap(due.map_or(deadline, |due| due.min(deadline)));
        }
    }

    /// One look at everything. True if something was done about it.
    fn round(&mut self) -> bool {
        let scheduler = self.scheduler;
        let mut acted = scheduler.fire_overdue();
        let asleep = scheduler.idle.look().sleeping;
        let waiting = scheduler.inject.len() > 0 || scheduler.pool.lwps().any(Lwp::has_queued);
        let mut stale = false;
        for lwp in scheduler.pool.lwps() {
            let now = sample(lwp);
            let before = std::mem::replace(&mut self.samples[lwp.index as usize], now);
            stale |= lwp.has_queued() && before.tick == now.tick;
            // With a sleeper at hand there is a slot already: he is woken below.
            let mut verdict = judge(&before, &now, waiting && asleep == 0, None);
            if verdict == Verdict::Suspect {
                // Acquire: pairs with the LWP's start. One that does not run yet, or has ended, does not sleep in the kernel.
                let tid = lwp.tid.load(Ordering::Acquire);
                let sleeps = task_state(tid.cast_signed()).is_ok_and(TaskState::is_asleep);
                verdict = judge(&before, &now, waiting && asleep == 0, Some(sleeps));
            }
            acted |= match verdict {
                Verdict::Healthy | Verdict::Suspect => false,
                Verdict::BlockedAnnounced => scheduler.move_slot(|| lwp.slot.retake_announced()),
                // Rung 3: its threads can run nowhere else, so it keeps its slot, and the spare gets one more for a while.
                Verdict::Blocked if scheduler.rung == Rung::Pinned => scheduler.lend_slot(),
                Verdict::Blocked => scheduler.compensate(lwp),
            };
        }
        let look = scheduler.idle.look();
        if look.sleeping == 0 || look.searching > 0 {
            return acted;
        }
        if stale || scheduler.inject.len() > 0 {
            scheduler.wake_searcher();
            return true;
        }
        // An LWP runs, and all others sleep deeply: one of them is to watch what it leaves lying.
        if look.sleeping < scheduler.pool.slots() && !scheduler.idle.is_watched() {
            scheduler.wake_searcher();
        }
        acted
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

fn sample(lwp: &Lwp) -> Sample {
    Sample {
        tick: lwp.tick.get(),
        holds_slot: lwp.slot.is_held(),
        announced: lwp.slot.is_blocking(),
        idle: lwp.bed.load(Ordering::Relaxed) != super::lwp::pool::AWAKE,
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

    /// Moves a slot to a spare LWP, and sees to the next spare.
    fn move_slot(&'static self, take: impl FnOnce() -> Option<InHand>) -> bool {
        let moved = self.pool.hand_off(take);
        // Relaxed: the monitor and announcing LWPs count; exactness is not needed.
        let counter = if moved { &self.watch.compensated } else { &self.watch.starved };
        counter.fetch_add(1, Ordering::Relaxed);
        self.refill_reserve();
        moved
    }

    /// Moves the slot of an LWP that sleeps in the kernel.
    pub(super) fn compensate(&'static self, lwp: &'static Lwp) -> bool {
        let moved = self.move_slot(|| lwp.slot.retake_unannounced());
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
        self.move_slot(|| {
            self.life.lent.fetch_add(1, Ordering::Relaxed);
            Some(InHand::beyond_concurrency())
        })
    }

    /// Takes the slot of any LWP that announced blocking, for work that waits.
    #[cold]
    pub(crate) fn retake_announced(&'static self) {
        if let Some(lwp) = self.pool.lwps().find(|lwp| lwp.slot.is_blocking()) {
            self.move_slot(|| lwp.slot.retake_announced());
        }
    }

    /// The calling LWP's own slot, announced as blocking, goes to a spare at once.
    #[cold]
    pub(crate) fn give_slot_away(&'static self, lwp: &Lwp) {
        self.move_slot(|| lwp.slot.retake_announced());
    }

    /// Whether the runtime was dropped and has no thread, and nobody from outside is in it.
    pub(super) fn may_stop(&self) -> bool {
        // SeqCst: `visitors` is read after the counts of threads. A visitor owned one of the threads when it came.
        self.life.phase.load(Ordering::Acquire) == CLOSING
            && self.live_threads() == 0
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
