//! What the monitor remembers of each LWP from one round to the next, and how it looks at one.
//!
//! A runtime may have a thousand LWPs, of which two run. The others sleep in the kernel or among the spares.
//! Those without a slot, a queued thread and a timer are *dormant*. As long as an LWP has no slot and has not
//! dispatched, it stays dormant, and is not looked at. So it costs two cache lines of it, not ten. One of
//! them is looked at in each round, in turn: it may have come back from the kernel, and compute.

use super::kernel_sleeps::Told;
use super::policy::{CALM, Sample, Task, crowded, is_lively, still_crowded};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::lwp::preempt_request::Answer;
use crate::mxn::run_queue::Seen;
use crate::mxn::slots::slot::Region;
use crate::mxn::timer::{Clock, NEVER};
use crate::park::priority::Priority;
use crate::sys::nap::is_napping;
use crate::sys::task_state::{CpuTime, Tasks, cpu_clock, process_cpu_clock};

/// If a signal was sent to a running kernel thread this long ago, in ns, it got lost: another signal was in
/// its place.
const LOST: u64 = 10_000_000;
/// The time of an LWP's life, in ns, after which its CPU time is looked at again.
const WINDOW: u64 = 20_000_000;
/// The same for an LWP that is crowded. The clock of the process is up to a tick behind for each CPU. If many
/// LWPs run, a window of `WINDOW` is a turn or two of each. That would sometimes find that no LWP is crowded.
const LONG_WINDOW: u64 = 100_000_000;
/// What one LWP has found of the CPUs holds for this long, in ns, for LWPs that have just begun to run. So
/// these need not find it out, each in its turn, whenever all have waited for each other.
const NEWS: u64 = 300_000_000;
/// The CPUs must have been crowded for this long, in ns. Another process that runs for a moment is no crowd.
const CONFIRMED: u64 = 80_000_000;
/// If no LWP was crowded for this long, in ns, it begins anew. More than a window of a crowded LWP.
const GAP: u64 = 2 * LONG_WINDOW;

/// If an LWP that dispatches all the time had its CPU for less than three quarters of the time, other
/// processes have a part of the CPUs. That holds for this long, in ns: longer than `thrift` saves a slot,
/// which leaves the others with a CPU each.
const SHARED: u64 = 1_500_000_000;

/// How often a thread may put off to leave, because of the instruction at which a signal finds it. Then that
/// counts as a refusal.
const DEFERRALS: u8 = 4;

/// If an LWP may have slept for no longer than this, in ns, the kernel is not asked about it.
const MOMENT: u64 = 40_000;

/// How long an LWP, or the process, had run at some time, both in ns.
#[derive(Clone, Copy, Default)]
struct Ran {
    ran: u64,
    at: u64,
}

/// What the LWPs have found of the CPUs.
#[derive(Clone, Copy, Default)]
pub(super) struct News {
    /// When the first and the last LWP was crowded, by the ends of their windows. Gaps between them are less
    /// than [`GAP`].
    crowded: Option<(u64, u64)>,
    /// When an LWP that dispatches all the time last had to wait for its CPU.
    waited_at: Option<u64>,
}

impl News {
    /// Returns `true` if the CPUs have been crowded for some time, and were a short time ago.
    pub(super) fn is_crowded(self, time: u64) -> bool {
        self.crowded
            .is_some_and(|(first, last)| last - first >= CONFIRMED && time.saturating_sub(last) < NEWS)
    }

    /// Returns `true` if other processes have had a part of the CPUs lately.
    fn is_shared(self, time: u64) -> bool {
        self.waited_at.is_some_and(|at| time.saturating_sub(at) < SHARED)
    }

    /// Notes that an LWP is crowded.
    fn add(&mut self, time: u64) {
        let first = match self.crowded {
            Some((first, last)) if time.saturating_sub(last) < GAP => first,
            _ => time,
        };
        self.crowded = Some((first, time));
    }
}

/// What the monitor remembers of an LWP.
#[derive(Clone, Copy, Default)]
pub(super) struct Memory {
    /// The last look.
    pub(super) sample: Sample,
    /// When it first had the tick that it has.
    pub(super) since: u64,
    /// How long its kernel thread had run then, in ns, if that is known.
    ran: Option<RunTime>,
    /// It had dispatched often before, or slept idle.
    lively: bool,
    /// For how many looks it has dispatched often between two. No more than [`CALM`].
    calm: u32,
    /// The brief region that it was in.
    pub(super) region: Option<Region>,
    /// When it was first seen in that.
    region_since: u64,
    /// When its thread was last asked to leave.
    pub(super) asked_at: u64,
    /// How often its thread has refused to leave since it was mounted.
    refusals: u8,
    /// How often its thread has put that off.
    deferrals: u8,
    /// It has no slot, and computes.
    pub(super) computes: bool,
    /// See the header.
    dormant: bool,
    /// What waited in its ring.
    ring: Seen,
    /// The CPU time that it had when its window began, and that of the whole process. Time 0: it was a spare
    /// since.
    cpu: CpuTime,
    process: Ran,
    /// Where its clock stood when the kernel was last asked whether it sleeps.
    stood: Ran,
    /// What the kernel said.
    slept: bool,
    /// What the trace was told of it.
    pub(super) told: Option<Told>,
    /// The outcome of the last window: others have the CPUs.
    crowded: bool,
    /// `Pinned`: at which tick its thread was first found to hold up others, and how long it had run then.
    computed: Option<(u32, u64)>,
}

/// Returns `true` if an LWP is awake at this moment, as far as that can be found out.
pub(super) fn is_awake(lwp: &Lwp, tasks: &Tasks) -> bool {
    let tid = lwp.life.tid().cast_signed();
    // Two looks at a clock take a tenth of the time that the file takes. If it stands still, the LWP may wait
    // for a CPU.
    cpu_clock(tid).is_ok_and(|ran| runs(tid, ran)) || tasks.state(tid).is_ok_and(|state| !state.is_asleep())
}

/// Returns `true` if a kernel thread is on a CPU: its clock stood at `ran` a moment ago, and has moved.
fn runs(tid: i32, ran: u64) -> bool {
    cpu_clock(tid).is_ok_and(|now| now > ran)
}

/// How long a kernel thread had run at some time, in ns.
#[derive(Clone, Copy)]
struct RunTime {
    tid: i32,
    ran: u64,
}

impl RunTime {
    /// Asks for that of an LWP's kernel thread. Returns `None` if that is not known.
    fn of(lwp: &Lwp) -> Option<Self> {
        // Zero would be the caller.
        let tid = Some(lwp.life.tid().cast_signed()).filter(|&tid| tid != 0)?;
        Some(Self { tid, ran: cpu_clock(tid).ok()? })
    }

    /// Returns how long it ran until `later`. An LWP may have another kernel thread by then.
    fn until(self, later: Self) -> Option<u64> {
        (self.tid == later.tid).then(|| later.ran.saturating_sub(self.ran))
    }
}

impl Memory {
    /// Looks at an LWP.
    pub(super) fn look_at(&mut self, lwp: &Lwp, time: u64, signals: bool, news: &mut News) -> Sample {
        let before = self.sample;
        let tick = lwp.tick.get();
        let idle = !lwp.sleep.is_awake();
        // At worst it is the slice of another thread.
        let running = lwp.running();
        let slice = running.map_or(u64::MAX, Green::slice);
        if tick != before.tick || before.idle || idle {
            let span = time - self.since;
            let runs = self.note_turns(lwp, tick, idle, slice);
            if runs.is_some_and(|runs| runs < span / 4 * 3) {
                news.waited_at = Some(time);
            }
            (self.since, self.refusals, self.deferrals, self.computes) = (time, 0, 0, false);
        }
        if idle && lwp.slot.is_none() {
            self.process.at = 0;
        }
        let region = lwp.slot.region();
        if region != self.region {
            (self.region, self.region_since) = (region, time);
        }
        let answer = lwp.request.answer(tick);
        let lost = answer == Answer::Pending && time - self.asked_at >= LOST;
        if before.asked {
            self.hear(if lost { Answer::Refused } else { answer });
        }
        Sample {
            tick,
            holds_slot: lwp.slot.is_held(),
            announced: lwp.slot.is_open(),
            rests: lwp.slot.is_resting(),
            brief: self.region.map(|_| time - self.region_since),
            idle,
            age: time - self.since,
            had: self.had(lwp, time),
            slice,
            high: running.is_some_and(|green| green.core.priority.get() == Priority::High),
            asked: answer == Answer::Pending && !lost,
            refusals: if signals { self.refusals } else { u8::MAX },
            deferred: answer == Answer::Deferred,
            calm: if lwp.flags.counts() || !news.is_shared(time) { self.calm.min(1) } else { self.calm },
        }
    }

    /// Notes how often the LWP has dispatched since it had the tick of the last look. If it did so all the
    /// time, returns how long it has run.
    fn note_turns(&mut self, lwp: &Lwp, tick: u32, idle: bool, slice: u64) -> Option<u64> {
        let (before, last) = (self.sample, self.ran);
        // While it sleeps, it begins to compute as little.
        self.ran = if idle { None } else { RunTime::of(lwp) };
        if idle || before.idle {
            self.lively = true;
            return None;
        }
        let turns = tick.wrapping_sub(before.tick);
        let runs = last.zip(self.ran).and_then(|(last, now)| last.until(now));
        let runs = runs.filter(|&runs| is_lively(turns, runs, slice));
        self.lively = runs.is_some();
        self.calm = if self.lively { CALM.min(self.calm + 1) } else { 0 };
        runs
    }

    /// Returns how much of its slice the LWP's thread has had.
    ///
    /// If the LWP dispatched all the time before, and has not run since, other processes have its CPU. Once
    /// it has that again, it dispatches by itself. A signal, or another LWP with its slot, would only move
    /// threads away from their memory.
    fn had(&self, lwp: &Lwp, time: u64) -> u64 {
        let age = time - self.since;
        let before = self.ran.filter(|_| self.lively);
        match before.and_then(|before| before.until(RunTime::of(lwp)?)) {
            Some(ran) => ran.min(age),
            None => age,
        }
    }

    /// Notes what came of a signal.
    fn hear(&mut self, answer: Answer) {
        self.deferrals = match answer {
            Answer::None | Answer::Pending => return,
            Answer::Deferred if self.deferrals + 1 < DEFERRALS => {
                self.deferrals += 1;
                return;
            }
            Answer::Deferred | Answer::Refused => 0,
        };
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Returns `true` if a thread waits in its ring that waited there at the last look. Takes another look.
    pub(super) fn lets_wait(&mut self, lwp: &Lwp) -> bool {
        let ring = &lwp.queue.ring;
        ring.still_waits(std::mem::replace(&mut self.ring, ring.look()))
    }

    /// Gives the LWP's thread another slice, and after that another chance to leave.
    pub(super) fn begin_slice(&mut self, time: u64) {
        (self.since, self.lively, self.refusals, self.deferrals) = (time, false, 0, 0);
    }

    /// Asks the kernel whether the LWP sleeps. Returns `None` if it naps, as a thread that waits inside the
    /// runtime does: that is neither blocking nor computing.
    ///
    /// If its clock says that it has run for all but a moment since the last look, its state file is not
    /// read. Reading the clock takes the kernel a tenth of the time.
    ///
    /// Either source may be denied to a process: the state files (by `chroot`, Landlock or a filter of system
    /// calls), or the clock (by a filter). Without files, a clock that moves means that the LWP runs. A clock
    /// that has stood still since the last look means that it sleeps, or has long waited for a CPU. In both
    /// cases another LWP may have its slot.
    pub(super) fn ask(&mut self, lwp: &Lwp, clock: Clock, tasks: &Tasks) -> Option<Task> {
        // If it does not run yet, or has ended, it does not sleep in the kernel.
        let tid = lwp.life.tid().cast_signed();
        if is_napping(tid) {
            return None;
        }
        if tid == 0 {
            return Some(Task::Awake);
        }
        let now = clock.now();
        let ran = cpu_clock(tid).ok();
        if let Some(ran) = ran {
            if self.slept && ran == self.stood.ran {
                // It has not run at all since. On `Pinned`, a round may look at a thousand sleeping LWPs, so
                // this does not read the state file again.
                return Some(Task::Asleep(now - self.stood.at));
            }
            let stood = (now - self.stood.at).saturating_sub(ran.saturating_sub(self.stood.ran));
            if stood < MOMENT {
                return Some(Task::Awake);
            }
        }
        let asleep = match (tasks.state(tid), ran) {
            (Ok(state), _) => Some(state.is_asleep()),
            (Err(_), Some(ran)) if runs(tid, ran) => Some(false),
            (Err(_), Some(ran)) if ran == self.stood.ran => Some(true),
            (Err(_), _) => None,
        };
        // Without a clock, an LWP that slept at the last look is taken to have slept ever since.
        let since = if ran.is_none() && self.slept { self.stood.at } else { now };
        self.stood = Ran { ran: ran.unwrap_or(0), at: since };
        self.slept = asleep == Some(true);
        match asleep {
            Some(false) => Some(Task::Awake),
            // It may have begun to nap just now.
            _ if is_napping(tid) => None,
            Some(true) => Some(Task::Asleep(now - since)),
            None => Some(Task::Unknown),
        }
    }

    /// Returns `true` if the thread that an LWP has run since `tick` has computed for `time` more since it
    /// was first asked about. For `Pinned`. (A thread that waits for a CPU with its LWP is not in the way of
    /// others: there are enough LWPs.)
    pub(super) fn has_computed(&mut self, lwp: &Lwp, tick: u32, time: u64, tasks: &Tasks) -> bool {
        let tid = lwp.life.tid().cast_signed();
        // If neither source gives a CPU time, the thread may have computed.
        let Ok(ran) = cpu_clock(tid).or_else(|_| Ok::<_, std::io::Error>(tasks.cpu_time(tid)?.ran)) else {
            return true;
        };
        match self.computed {
            Some((since, before)) if since == tick => ran.saturating_sub(before) >= time,
            _ => {
                self.computed = Some((tick, ran));
                false
            }
        }
    }

    /// Returns `true` if other processes have the CPUs that this LWP could use (`policy::crowded`), as of its
    /// last window. In its first window, returns what others have found lately.
    pub(super) fn is_crowded(
        &mut self,
        lwp: &Lwp,
        running: usize,
        cpus: f64,
        clock: Clock,
        news: &mut News,
        tasks: &Tasks,
    ) -> bool {
        let window = if self.crowded { LONG_WINDOW } else { WINDOW };
        let Ran { ran: before, at } = self.process;
        // Not since the round began: the monitor may have waited for a CPU. No LWP wants more than all of the
        // time.
        if at > 0 && clock.now() - at < window {
            return self.crowded;
        }
        let tid = lwp.life.tid();
        let (Ok(now), Ok(process)) = (tasks.cpu_time(tid.cast_signed()), process_cpu_clock()) else {
            return false;
        };
        let time = clock.now();
        let (ran, waited) = (now.ran.wrapping_sub(self.cpu.ran), now.waited.wrapping_sub(self.cpu.waited));
        let wanted = ran.wrapping_add(waited);
        if at == 0 {
            self.crowded = news.is_crowded(time);
        } else if wanted < window {
            return self.crowded;
        } else {
            let all = (process - before) as f64 / (time - at).max(1) as f64;
            let share = ran.max(1) as f64 / wanted as f64;
            let judge = if self.crowded { still_crowded } else { crowded };
            self.crowded = judge(share, all, running, cpus);
            if self.crowded {
                news.add(time);
            }
        }
        (self.cpu, self.process) = (now, Ran { ran: process, at: time });
        self.crowded
    }

    /// Returns `true` if an LWP that was found dormant still is.
    pub(super) fn is_dormant(&self, lwp: &Lwp) -> bool {
        self.dormant && lwp.tick.get() == self.sample.tick && lwp.slot.is_none()
    }

    /// Remembers what was seen of an LWP, and whether its slot was handed off since.
    pub(super) fn keep(&mut self, lwp: &Lwp, seen: Sample, handed_off: bool) {
        self.sample = seen;
        self.computes = handed_off || self.computes && !seen.holds_slot;
        self.dormant = !self.computes
            && !seen.holds_slot
            && !seen.announced
            && seen.brief.is_none()
            && !lwp.has_queued()
            && lwp.timers.next() == NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_put_off_again_and_again_is_to_refuse() {
        let mut memory = Memory::default();
        for _ in 0..2 * DEFERRALS - 1 {
            memory.hear(Answer::Pending);
            memory.hear(Answer::Deferred);
        }
        assert_eq!(memory.refusals, 1);
        memory.hear(Answer::Deferred);
        assert_eq!((memory.refusals, memory.deferrals), (2, 0));
        memory.hear(Answer::Refused);
        assert_eq!(memory.refusals, 3);
    }

    #[test]
    fn a_crowd_is_one_that_stays() {
        let mut news = News::default();
        assert!(!news.is_crowded(0));
        // A moment of another process, as several LWPs find it.
        let begin = 1000 * WINDOW;
        news.add(begin);
        news.add(begin + CONFIRMED - 1);
        assert!(!news.is_crowded(begin + CONFIRMED));
        news.add(begin + CONFIRMED);
        assert!(news.is_crowded(begin + CONFIRMED) && news.is_crowded(begin + CONFIRMED + NEWS - 1));
        assert!(!news.is_crowded(begin + CONFIRMED + NEWS), "old news");
        let again = begin + CONFIRMED + GAP;
        news.add(again);
        assert!(!news.is_crowded(again), "another moment");
    }

    /// The test's own kernel thread plays the LWP. While it does not compute, it stands for one that waits
    /// for a CPU: its clock hardly moves.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_lively_lwp_waits_for_a_cpu_is_no_part_of_a_slice() {
        use crate::mxn::tests::Model;
        use crate::sys::kthread::gettid;
        use crate::sys::task_state::own_cpu_clock;

        const MS: u64 = 1_000_000;
        let model = Model::new(1, 0, 0);
        let lwp = model.lwp(0);
        lwp.life.show_tid(gettid().cast_unsigned());
        let mut memory = Memory::default();
        // A look after so many turns, and one when the LWP has stood still for ten milliseconds. Returns how
        // much its thread has had of a slice then, and how much later the next look is due.
        let mut time = 0;
        let mut news = News::default();
        let mut look = |turns| {
            (0..turns).for_each(|_| _ = lwp.tick.bump());
            memory.sample = memory.look_at(lwp, time, true, &mut news);
            assert_eq!((memory.sample.age, memory.sample.had), (0, 0));
            time += 10 * MS;
            memory.sample = memory.look_at(lwp, time, true, &mut news);
            assert_eq!(memory.sample.age, 10 * MS);
            (memory.sample.had, memory.sample.calm)
        };
        assert_eq!(look(1), (10 * MS, 0), "it is not known what the LWP did before");
        for calm in [1, 2, CALM, CALM] {
            let (had, seen) = look(1_000);
            assert!(had < 5 * MS && seen == calm, "it has waited: {had} {seen}");
        }
        lwp.flags.count(true);
        assert_eq!(look(1_000).1, 1, "a thread has lost its slice");
        let begin = own_cpu_clock().unwrap();
        while own_cpu_clock().unwrap() - begin < MS {}
        assert_eq!(look(1), (10 * MS, 0), "it has computed");
        assert!((0..2).all(|_| look(1_000).0 < 5 * MS), "it has waited again");
        memory.ran.as_mut().expect("it was asked for").tid += 1;
        let mut alone = News::default();
        let sample = memory.look_at(lwp, time, true, &mut alone);
        assert_eq!(sample.had, 10 * MS, "another kernel thread has run since");
        lwp.flags.count(false);
        assert!(memory.calm > 1 && news.is_shared(time) && !news.is_shared(time + SHARED));
        let calm = [&mut news, &mut alone].map(|news| memory.look_at(lwp, time, true, news).calm);
        assert_eq!(calm, [memory.calm, 1], "beside others, and not");
        lwp.life.show_tid(0);
    }
}
