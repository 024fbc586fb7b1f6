//! Fewer slots, where the last ones do not pay.
//!
//! **The problem.** A server and its clients share the CPUs, and its threads run for microseconds at a time.
//! One LWP more takes a CPU from the clients, which make the server's work, and moves threads between the
//! caches. But beside a process with which the runtime has nothing to do, it gets more of the CPUs by one LWP
//! more.
//!
//! **Rejected**: a rule that tells a client from another process. The kernel does not say for whom a CPU
//! works.
//!
//! **So** the monitor tries it out, if the LWPs are calm (`policy`) and wait for CPUs.
//!
//! 1. If LWPs run dry, it saves one of two slots. While the LWP that is left still runs dry, one is enough:
//!    then all threads wait for something outside. And the slowest messages are faster: no LWP waits for a CPU
//!    with threads in its ring, and the client waits for none. With more slots, an LWP may run dry while
//!    others have threads to run.
//! 2. If the other LWP does not run dry, all slots are back. It looks whether both have just one CPU. Then the
//!    kernel has both LWPs there. Beside a process that only computes, that lasts for tens of milliseconds,
//!    then one of them moves. Beside a client, it may last for as long as the client talks. So if it is so
//!    for a quarter of a second, one slot loses nothing. With more slots, a whole number of CPUs may be what
//!    other processes leave.
//! 3. If not, it counts the turns that threads have with all slots, and with a quarter fewer, twice in turns.
//!    More turns with as much of the CPUs tell nothing: that is by how the kernel has put the LWPs this time.
//!
//! One slot that is enough stays for eight seconds, or until it is not. Fewer slots that are as good or better
//! for another reason stay for a second. Then it begins again. Each further time doubles the stay, up to
//! eight seconds: while all slots are tried, some connections wait several times as long as others. A trial
//! that does not pay puts the next one off, up to a minute.
//!
//! As soon as an LWP is not calm, all slots are back: it may compute, or wait for a thread that has no LWP.
//! If that breaks off a trial, or a stay that has just begun, the next one is put off, too.
//!
//! A number of slots that the program has set stays as it is. So does one of LWPs that threads have homes on.

use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::sys::task_state::{Tasks, process_cpu_clock};

/// How long turns are counted, in ns, before the number of slots changes.
const SPAN: u64 = 24_000_000;
/// How long all slots must have had no more of the CPUs, in ns, so that it is no chance: at first; after a
/// time with fewer at least, and at most; and as a part of that time.
const LONG_LOOK: u64 = 250_000_000;
const SHORT_LOOKS: (u64, u64) = (SPAN, 96_000_000);
const LOOK_OF_STAY: u64 = 16;
/// How many spans a trial has. The odd ones have fewer slots.
const SPANS: usize = 4;
/// Fewer slots pay if threads have this many times as many turns, and all of them if they have.
const PAYS: f64 = 1.03;
/// And with all, the process must run this many times as long.
const SAVES: f64 = 1.1;
/// All slots have no more of the CPUs than fewer have, if it is at most this many times as much.
const ALIKE: f64 = 1.08;
/// They have a CPU to themselves, if they have this much of it.
const WHOLE: f64 = 0.9;
/// One slot is not enough if its LWP has not run dry for this long, in ns. At first it has what the other LWP
/// had, too.
const BUSY: u64 = 100_000_000;
/// How long it stays with fewer, in ns, at first and at most.
const SHORT_STAY: u64 = 1_000_000_000;
const LONG_STAY: u64 = 8_000_000_000;
/// How long the next trial is put off, in ns, at first and at most. Each that does not pay makes it four
/// times as long.
const SHORT_PAUSE: u64 = 100_000_000;
const LONG_PAUSE: u64 = 60_000_000_000;
/// The same at most after trials that were broken off: it may be by chance.
const BROKEN_PAUSE: u64 = 1_600_000_000;
/// It is tried if each LWP has waited for CPUs for one part in this many of the time.
const CROWDED: u64 = 10;

/// What is known at some time, or what came between two times.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// By the runtime's clock, in ns.
    time: u64,
    /// How many turns threads have had.
    turns: u64,
    /// How long the process has run, in ns.
    ran: u64,
    /// How long the LWPs with a slot have waited for CPUs, in ns.
    waited: u64,
}

impl Mark {
    fn take(scheduler: &Scheduler, tasks: &Tasks, time: u64) -> Self {
        let pool = &scheduler.pool;
        let waited = |lwp: &Lwp| tasks.cpu_time(lwp.life.tid().cast_signed()).map_or(0, |cpu| cpu.waited);
        Self {
            time,
            turns: pool.all().map(|lwp| lwp.tick.dispatches()).sum(),
            ran: process_cpu_clock().unwrap_or(0),
            waited: pool.lwps().filter(|lwp| lwp.slot.is_held()).map(waited).sum(),
        }
    }

    /// Returns how much of each figure there was since an earlier mark.
    fn since(self, from: Self) -> Self {
        Self {
            time: self.time - from.time,
            turns: self.turns.saturating_sub(from.turns),
            ran: self.ran.saturating_sub(from.ran),
            waited: self.waited.saturating_sub(from.waited),
        }
    }

    fn add(&mut self, span: Self) {
        self.time += span.time;
        self.turns += span.turns;
        self.ran += span.ran;
        self.waited += span.waited;
    }

    /// Returns how many of something there were in each ns.
    fn rate(&self, of: u64) -> f64 {
        of as f64 / self.time as f64
    }
}

/// A trial: what is counted.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// How many spans are over.
    spans: usize,
    /// One slot was tried, and is not enough.
    needs_more: bool,
    /// How often LWPs had run dry when it began.
    dry: u64,
    /// Where this one begins: when LWPs that have lost a slot have had a round to leave.
    from: Option<Mark>,
    /// What came so far, with all slots and with fewer.
    counts: [Mark; 2],
}

impl Trial {
    fn has_fewer(&self) -> bool {
        self.spans % 2 == 1
    }

    /// Returns `true` if fewer slots pay, `false` if they do not, and `None` if this trial cannot tell.
    fn pays(&self) -> Option<bool> {
        let [all, fewer] = self.counts;
        let more = fewer.rate(fewer.turns) / all.rate(all.turns);
        let saves = SAVES * fewer.rate(fewer.ran) <= all.rate(all.ran);
        if saves { Some(more >= PAYS) } else { (more * PAYS < 1.0).then_some(false) }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// All slots, and no trial before this time.
    Rest(u64),
    Trial(Trial),
    /// Fewer slots, until this time, from this mark.
    Stay(u64, Mark),
    /// The same, while one slot is enough.
    Enough(u64, Mark, Dry),
}

/// When an LWP has run dry the last time, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Dry {
    count: u64,
    at: u64,
}

/// What each round tells.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// By the runtime's clock, in ns.
    time: u64,
    /// All LWPs with a slot are calm.
    calm: bool,
    /// How often LWPs have run dry.
    dry: u64,
}

/// What came of trials.
#[derive(Debug)]
pub(super) struct Thrift {
    phase: Phase,
    /// How long the next one is put off if that does not pay either.
    pause: u64,
    /// How long it stays with fewer slots if the next one pays.
    stay: u64,
    /// What came with fewer slots the last time, if that has paid.
    before: Option<Mark>,
}

impl Thrift {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Rest(0), pause: SHORT_PAUSE, stay: SHORT_STAY, before: None }
    }

    /// Ends a round at `time`: saves some slots, or gives them back. `calm`: all LWPs with a slot are.
    pub(super) fn end_round(&mut self, scheduler: &Scheduler, tasks: &Tasks, time: u64, calm: bool) {
        let slots = scheduler.pool.follows().filter(|_| !scheduler.placement.has_homes()).unwrap_or(1);
        let dry = scheduler.pool.all().map(|lwp| lwp.counters.ran_dry.get()).sum();
        let round = Round { time, calm, dry };
        scheduler.save_slots(self.look(round, slots, || Mark::take(scheduler, tasks, time)));
    }

    /// Returns how many of the `slots` are to be saved until the next round. `mark` takes some system calls.
    fn look(&mut self, round: Round, slots: u32, mark: impl Fn() -> Mark) -> u32 {
        if slots == 1 {
            return 0;
        }
        let Round { time, calm, dry } = round;
        self.phase = match self.phase {
            Phase::Rest(until) if time < until || !calm => self.phase,
            // All slots may be why the LWPs were calm. Without this, it would be tried again at once.
            Phase::Trial(trial) if !calm && trial.spans > 0 => self.put_off(time, BROKEN_PAUSE),
            Phase::Stay(_, from) | Phase::Enough(_, from, _) if !calm && time < from.time + SHORT_PAUSE => {
                self.put_off(time, BROKEN_PAUSE)
            }
            _ if !calm => Phase::Rest(time + SPAN),
            Phase::Trial(trial) => self.go_on(trial, round, slots, mark),
            Phase::Stay(until, _) if time < until => self.phase,
            Phase::Enough(until, from, last) if time < until => match last.count == dry {
                true if time < last.at + BUSY => self.phase,
                true => Phase::Trial(Trial { needs_more: true, ..Trial::default() }),
                false => Phase::Enough(until, from, Dry { count: dry, at: time }),
            },
            Phase::Rest(until) => {
                // What was seen so long ago may have been beside other processes.
                if time > until + SHORT_STAY {
                    (self.stay, self.before) = (SHORT_STAY, None);
                }
                Phase::Trial(Trial::default())
            }
            Phase::Stay(_, from) | Phase::Enough(_, from, _) => {
                self.before = Some(mark().since(from));
                Phase::Trial(Trial::default())
            }
        };
        let fewer = match self.phase {
            Phase::Rest(_) => false,
            Phase::Trial(trial) => trial.has_fewer(),
            Phase::Stay(..) | Phase::Enough(..) => true,
        };
        if fewer { slots.div_ceil(4) } else { 0 }
    }

    fn go_on(&mut self, mut trial: Trial, round: Round, slots: u32, mark: impl Fn() -> Mark) -> Phase {
        let Round { time, dry, .. } = round;
        let Some(from) = trial.from else {
            return Phase::Trial(Trial { from: Some(mark()), dry, ..trial });
        };
        if time < from.time + SPAN {
            return self.phase;
        }
        let now = mark();
        let span = now.since(from);
        if trial.spans == 0 {
            if span.waited < u64::from(slots) * span.time / CROWDED {
                return Phase::Rest(time + SHORT_PAUSE);
            }
            if slots == 2 && !trial.needs_more && dry > trial.dry {
                return Phase::Enough(time + LONG_STAY, now, Dry { count: dry, at: time });
            }
            if slots == 2 && self.is_vain(span) {
                if span.time < self.look_time() {
                    return self.phase;
                }
                if self.before.is_some() || span.rate(span.ran) >= WHOLE {
                    return self.stay(now);
                }
            }
        }
        trial.counts[trial.spans % 2].add(span);
        (trial.spans, trial.from) = (trial.spans + 1, None);
        if trial.spans < SPANS {
            return Phase::Trial(trial);
        }
        match trial.pays() {
            Some(true) => {
                self.pause = SHORT_PAUSE;
                self.stay(now)
            }
            Some(false) => self.put_off(time, LONG_PAUSE),
            None => Phase::Rest(time + self.pause),
        }
    }

    /// Returns `true` if two LWPs have no more than one CPU in this `span`, and no more than one has had.
    fn is_vain(&self, span: Mark) -> bool {
        let before = self.before.map_or(1.0, |before| before.rate(before.ran));
        span.rate(span.ran) <= ALIKE * before.min(1.0)
    }

    /// Returns for how long that must be so.
    fn look_time(&self) -> u64 {
        let after = |before: Mark| (before.time / LOOK_OF_STAY).clamp(SHORT_LOOKS.0, SHORT_LOOKS.1);
        self.before.map_or(LONG_LOOK, after)
    }

    /// Has fewer slots from `now` on.
    fn stay(&mut self, now: Mark) -> Phase {
        let stay = self.stay;
        self.stay = (2 * stay).min(LONG_STAY);
        Phase::Stay(now.time + stay, now)
    }

    /// Ends a trial that does not pay, or that was broken off after slots had been saved. Puts off the next
    /// one, by `longest` at most.
    fn put_off(&mut self, time: u64, longest: u64) -> Phase {
        (self.stay, self.before) = (SHORT_STAY, None);
        let pause = self.pause.min(longest);
        self.pause = self.pause.max((4 * pause).min(longest));
        Phase::Rest(time + pause)
    }
}

#[cfg(test)]
mod tests;
