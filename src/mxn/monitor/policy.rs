//! When is an LWP stuck, and when has a thread had its slice? One pure function with a table of cases. `plan`
//! decides what is done about it.
//!
//! The monitor never looks inside a thread: it compares two samples. If an LWP's dispatch tick has not moved
//! since the last round, and a thread waits for a slot, the LWP is a suspect. The monitor asks the kernel
//! about suspects only.
//!
//! - If a suspect sleeps in the kernel, it loses its slot to a spare.
//! - If it computes, it loses its thread by signal, once that has had its slice.
//! - If the signal was refused, it loses its slot.

use crate::mxn::slots::blocking::SHORT;

/// A slice this old, in ns, is over if a thread waits that has woken, or yielded, or is new. Threads that
/// lost their own slice wait for a whole one.
pub(crate) const WOKEN_SLICE: u64 = 1_000_000;
/// If more than one thread for each slot has lost its slice, all get their turns within this many slices. The
/// slices are shorter then, but not shorter than `WOKEN_SLICE`. As in Linux' first fair scheduler.
const ROUND_TRIP: u64 = 2;
/// An LWP that has a CPU answers a signal within this time, in ns.
const ANSWER: u64 = 50_000;
/// If the turns of an LWP have been this part of a slice, it is unlikely to have begun to compute.
const SHORT_TURN: u64 = 10;
/// If that has been so for this many looks beside other processes, and no thread has lost its slice lately, a
/// look is due eight times as late. As a power of two.
pub(super) const CALM: u32 = 3;
/// An LWP rests (`mxn::slots::rest`) once it has slept in the kernel for this long, in ns, while no thread
/// waited for its slot.
pub(super) const REST: u64 = 100_000_000;
/// If nothing is known of an LWP, it may keep its slot for this long, in ns, while threads wait.
const MIDDLING: u64 = 10_000_000;
/// How often a thread is asked by signal before its LWP's slot is handed off.
pub(super) const ATTEMPTS: u8 = 2;

/// What the monitor saw of one LWP in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) tick: u32,
    /// It has a slot.
    pub(crate) holds_slot: bool,
    /// Any thread with work may take its slot: it announced that it may block, or rests.
    pub(crate) announced: bool,
    /// It is at rest.
    pub(crate) rests: bool,
    /// How long it has been in a brief region (`mxn::slots::blocking`), in ns, since the round that first saw
    /// it there.
    pub(crate) brief: Option<u64>,
    /// It sleeps idle.
    pub(crate) idle: bool,
    /// How long it has had this tick, in ns, since the round that first saw it.
    pub(crate) age: u64,
    /// How much of its slice its thread has had, in ns. As a rule that is `age`. But if the LWP had
    /// dispatched often before ([`is_lively`]), or slept, it is what the LWP has run since.
    pub(crate) had: u64,
    /// The slice of the thread that it runs, in ns; `u64::MAX`: it is not preempted.
    pub(crate) slice: u64,
    /// It runs a thread of high priority.
    pub(crate) high: bool,
    /// The signal is on its way.
    pub(crate) asked: bool,
    /// How many signals have found that this thread may not be preempted; `u8::MAX`: there are no signals.
    pub(crate) refusals: u8,
    /// The last signal found it where it may not be preempted, for a moment.
    pub(crate) deferred: bool,
    /// How much later than its slice the next look is due, as a power of two.
    pub(crate) calm: u32,
}

/// What waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiting {
    /// None; or an idle LWP is about to take those that wait.
    NoThread,
    /// Threads of low priority, for which no thread has to leave.
    Low,
    /// Threads that have had a slice and lost it, or low ones that are owed a turn. `ahead`: how many for
    /// each slot, rounded up.
    Preempted { ahead: u32 },
    /// Threads that have woken, or yielded, or are new.
    Woken,
    /// Threads of high priority.
    Urgent,
}

/// What the kernel says about an LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// It sleeps: for this long, in ns, as far as is known.
    Asleep(u64),
    /// It runs, or waits for a CPU.
    Awake,
    /// The kernel does not say, and the LWP has not been seen running.
    Unknown,
}

/// What is to be done about an LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Healthy,
    /// It has not dispatched while others wait. Ask the kernel, and judge again.
    Suspect,
    /// It was to be back by now. Its slot may be retaken from now on.
    Outstayed,
    /// It sleeps in the kernel, and announced that. Its slot may be retaken.
    BlockedAnnounced,
    /// It sleeps in the kernel. A spare LWP gets its slot.
    Blocked,
    /// It has slept in the kernel for long, and no thread waits for its slot. It counts as asleep.
    Rests,
    /// Its thread has had its slice. Ask it to leave, by signal.
    Hogged,
    /// The same, and signals do not help. A spare LWP gets its slot.
    HandOff,
    /// Its slot is gone already, and it sleeps, or does not leave. It is judged again after another slice.
    Respite,
}

impl Sample {
    /// Returns `true` if the LWP dispatches all the time, would if it had a CPU, or has nothing to run. One
    /// that stands still and runs is not calm, however often it dispatched before.
    pub(super) fn is_calm(&self) -> bool {
        !self.holds_slot || self.idle || self.calm >= CALM && self.had < WOKEN_SLICE
    }

    /// Returns when the slice is over, in ns from now, while `waiting`; `None`: never.
    pub(crate) fn left(&self, waiting: Waiting) -> Option<u64> {
        let slice = match waiting {
            Waiting::NoThread | Waiting::Low => return None,
            _ if self.slice == u64::MAX => return None,
            Waiting::Preempted { ahead } => {
                let share = self.slice / (u64::from(ahead) + 1);
                self.slice.min((ROUND_TRIP * share).max(WOKEN_SLICE))
            }
            Waiting::Urgent if !self.high => 0,
            // The high thread would be picked again. A lower one has its turn after some whole slices
            // (`sched::priority`).
            Waiting::Woken if self.high => self.slice,
            Waiting::Woken | Waiting::Urgent => self.slice.min(WOKEN_SLICE),
        };
        Some(slice.saturating_sub(self.had))
    }

    /// Returns when the monitor should look whether the slice is over, in ns from now, while `waiting`;
    /// `u64::MAX`: no sooner than for other reasons.
    ///
    /// A slice that is over has been seen to, as far as that is possible. Its thread may have a signal to
    /// answer, on an LWP that waits for a CPU. When it does, the next thread has a slice to come.
    ///
    /// A look soon after a `trial` (a round that was to ask the thread) makes a difference in these cases:
    /// slices are short; the thread has refused before, or put that off; or it could not be asked, because it
    /// slept for the moment. After every trial, such a look would cost bursts of computing a twentieth.
    ///
    /// If threads come and go all the time, half as many rounds will do: each takes as long as a thousand
    /// switches. Beside other processes it takes more: a CPU from an LWP, and the kernel decides anew which
    /// thread goes on there. So an eighth of the rounds has to do then ([`calm`](Self::calm)). A thread may
    /// wake beside one that begins to compute among such threads. It waits for two such pauses at most,
    /// because the first round finds that the other has just come. Once that one has lost its slice, rounds
    /// are closer (`mxn::sched::fair_share` counts).
    pub(crate) fn next_end(&self, waiting: Waiting, trial: bool) -> u64 {
        match self.left(waiting).filter(|_| self.holds_slot && !self.idle) {
            Some(0)
                if trial
                    && (self.slice < WOKEN_SLICE || self.refusals > 0 || self.deferred || !self.asked) =>
            {
                ANSWER
            }
            Some(0) | None => u64::MAX,
            Some(left) if self.slice >= WOKEN_SLICE => left.saturating_mul(1 << self.calm),
            Some(left) => left,
        }
    }
}

/// Returns `true` if an LWP that has had so many `turns` while it ran for `time`, in ns, is likely to go on
/// like that as soon as it has a CPU. `slice`: of a thread there, in ns.
pub(super) fn is_lively(turns: u32, time: u64, slice: u64) -> bool {
    turns > 0 && time / u64::from(turns) <= slice.min(WOKEN_SLICE) / SHORT_TURN
}

/// Judges one LWP. `task` is what the kernel says about it, if it was asked.
pub(crate) fn judge(before: &Sample, now: &Sample, waiting: Waiting, task: Option<Task>) -> Verdict {
    if let Some(age) = now.brief {
        return if age >= SHORT { Verdict::Outstayed } else { Verdict::Healthy };
    }
    // It lost its slot while it slept. If its thread goes on since, one thread too many runs, even if no
    // other waits.
    let surplus = !now.holds_slot && !now.announced;
    if now.idle {
        return Verdict::Healthy;
    }
    if waiting == Waiting::NoThread && !surplus {
        return match task {
            _ if now.rests || before.tick != now.tick || now.age < REST => Verdict::Healthy,
            None => Verdict::Suspect,
            Some(Task::Asleep(time)) if time >= REST => Verdict::Rests,
            Some(_) => Verdict::Healthy,
        };
    }
    if now.announced {
        return Verdict::BlockedAnnounced;
    }
    let slice_of = if surplus { Waiting::Preempted { ahead: 1 } } else { waiting };
    let over = now.left(slice_of) == Some(0);
    let stands_still =
        before.tick == now.tick && !before.idle && (before.holds_slot && now.holds_slot || over);
    if !stands_still {
        return Verdict::Healthy;
    }
    match task {
        None => Verdict::Suspect,
        Some(Task::Asleep(_)) if now.holds_slot => Verdict::Blocked,
        // No signal is sent. If the LWP sleeps, a signal would end its sleep. If it computes, it goes on
        // without a slot.
        Some(Task::Unknown) if now.holds_slot && (over || now.age >= MIDDLING) => Verdict::Blocked,
        Some(Task::Awake) if over && !now.asked && now.refusals < ATTEMPTS => Verdict::Hogged,
        Some(Task::Awake) if over && now.holds_slot && now.refusals >= ATTEMPTS => Verdict::HandOff,
        Some(_) if surplus => Verdict::Respite,
        Some(_) => Verdict::Healthy,
    }
}

/// Up to this many LWPs, a round may follow soon on another, whatever it cost.
const FEW: usize = 16;
/// Beside more, the monitor takes one part in this many of a CPU at most.
const PART: u64 = 20;

/// The shortest pause between two rounds, in ns.
pub(crate) const MIN_PAUSE: u64 = 20_000;

/// Returns how long to pause before the next round, in ns, and the pause by itself. The last pause by itself
/// was `last`, and the next slice is over in `next_slice`.
///
/// `acted`: the monitor moved a slot or woke an LWP, which may make more of the same necessary. A slice that
/// was ended by signal does not count: the end of the next is known. Nor do sleeps that the monitor ended.
/// The threads that woke are queued, and it is known when the next sleep is overdue.
pub(crate) fn pause(last: u64, acted: bool, next_slice: u64, longest: u64) -> (u64, u64) {
    let by_itself = if acted { MIN_PAUSE } else { (2 * last).min(longest) };
    // Not so soon that the monitor would do nothing but look.
    (by_itself.min(next_slice.max(MIN_PAUSE)), by_itself)
}

/// Returns the shortest pause after a round that looked at `lwps` LWPs and took `cost` of CPU time, in ns. So
/// the monitor takes a twentieth of a CPU, as long as that pause is not the `longest`. If the LWPs are few, a
/// round takes so little that threads need not wait for that.
pub(crate) fn pause_for_cost(lwps: usize, cost: u64, longest: u64) -> u64 {
    if lwps <= FEW { 0 } else { cost.saturating_mul(PART - 1).min(longest) }
}

/// Returns `true` if other processes have CPUs that the LWPs could use. An LWP gets `share` of the time in
/// which it could run, and `running` of them on `cpus` CPUs alone would get more. Half of a thread that
/// always runs is the least that counts.
///
/// Of `c` CPUs, each of `k` own kernel threads and `e` others gets `c / (k + e)`. But if the process has next
/// to `all` of the CPUs, the kernel has put several of its threads on one CPU.
pub(crate) fn crowded(share: f64, all: f64, running: usize, cpus: f64) -> bool {
    let running = running as f64;
    share < 0.9 * (cpus / running).min(1.0) && cpus / share - running >= 0.5 && all < 0.9 * cpus
}

/// Returns `true` if other processes, which had such CPUs, still have them. This goes by what the process has
/// of all CPUs. If many LWPs run, one thread of another process hardly changes the share of each (8 to 1 get
/// 0.89 of the CPUs). And if some LWPs took turns again for that reason, the process would have less.
pub(crate) fn still_crowded(share: f64, all: f64, running: usize, cpus: f64) -> bool {
    let running = running as f64;
    // Beside half of a thread. And more must be missing than a kernel uses.
    let beside_others = cpus * running / (running + 0.5);
    share < 0.9 && all < beside_others.min(0.95 * running.min(cpus))
}

#[cfg(test)]
mod tests;
