//! What the monitor decides in a round, as functions of what it has seen.
//!
//! A round looks, decides and acts. `policy::judge` says what is wrong with one LWP. The [`Plan`] says what
//! is done about it, and keeps count: no more slots and threads are taken than there are threads that wait. A
//! fact that costs a system call is asked for only where the decision depends on it ([`Facts`]).

use super::policy::{Sample, Task, Verdict, WOKEN_SLICE, Waiting, judge};
use crate::mxn::lwp::preempt_request::Manner;

/// How many LWPs for each slot compute, at most, because other processes have the CPUs.
const CROWD: usize = 6;

/// When a spare would have taken over, if one could be made, in ns.
const DUE: u64 = WOKEN_SLICE;
/// Rounds lie no further apart than this, in ns, while a thread waits.
const GAP: u64 = 20_000_000;
/// Once all sleepers have been asked to leave this often, it goes on at half the pace, and later again at
/// half of that.
const CYCLES: usize = 4;
/// The slowest pace, as a power of two.
const SLOWEST: usize = 4;

/// How many threads wait for a slot, by the queue that they are in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queued {
    /// High and low ones.
    pub(super) high: usize,
    pub(super) low: usize,
    /// Those that woke, yielded or are new.
    pub(super) woken: usize,
    /// Those that lost their slice, and low ones that are owed a turn: such a low one makes another thread
    /// leave.
    pub(super) preempted: usize,
}

impl Queued {
    /// Returns what waits for one of `slots`, and about how many threads that are.
    pub(super) fn waiting(self, slots: u32) -> (Waiting, usize) {
        let Self { high, low, woken, preempted } = self;
        if high > 0 {
            (Waiting::Urgent, high)
        } else if woken > 0 {
            (Waiting::Woken, woken)
        } else if preempted > 0 {
            let ahead = u32::try_from(preempted).unwrap_or(u32::MAX).div_ceil(slots.max(1));
            (Waiting::Preempted { ahead }, preempted)
        } else if low > 0 {
            (Waiting::Low, low)
        } else {
            (Waiting::NoThread, 0)
        }
    }
}

/// What can be asked about the LWP that is decided on.
pub(super) trait Facts {
    /// Returns what the kernel says about it. `None`: it naps, as a thread that waits inside the runtime
    /// does.
    fn task(&mut self) -> Option<Task>;

    /// Returns `true` if other processes have the CPU that its thread needs, while `running` LWPs run.
    fn is_crowded(&mut self, running: usize) -> bool;

    /// Returns `true` if its thread has computed for a slice since it was first found to hold up others.
    fn has_computed(&mut self) -> bool;

    /// Returns how many slots are lent to homes.
    fn lent(&self) -> u32;
}

/// What is to be done about an LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Give its thread another slice.
    Renew,
    /// Do the same: it computes without a slot, which is why the process has its share of the CPUs.
    LetCompute,
    /// Open its slot to any thread with work. `take`: and move it at once.
    Open {
        take: bool,
    },
    /// Move its slot, which is open.
    Take,
    /// Let it count as asleep.
    Rest,
    /// Move its slot, because it sleeps in the kernel.
    Compensate,
    /// Lend a slot to another LWP, because it sleeps in the kernel with threads that have their home there.
    LendAsleep,
    /// Lend a slot to another LWP, because it computes, and threads have their home there.
    LendComputing,
    /// Ask its thread to leave.
    Ask(Manner),
    /// Move its slot and let its thread compute on, or else ask the thread to leave.
    Release,
    /// Move its slot, because its thread does not leave. `ask`: or else ask that again.
    HandOff {
        ask: bool,
    },
}

/// What a round may still do for the threads that wait.
#[derive(Debug)]
pub(super) struct Plan {
    /// What waits for a slot.
    pub(super) waiting: Waiting,
    /// Threads that wait, and for which no LWP has been asked for a slot.
    left: usize,
    /// Threads have homes.
    homes: bool,
    /// LWPs that sleep or compute in the way of threads that have their home there.
    stuck: u32,
    /// How many LWPs run threads, and may at most.
    pub(super) running: usize,
    most: usize,
}

impl Plan {
    /// Begins a round. `running` LWPs ran threads in the last, and `slots` are there. `crowded`: other
    /// processes have had the CPUs lately. `sleepers`: LWPs that sleep idle.
    pub(super) fn new(
        queued: Queued,
        sleepers: u32,
        running: usize,
        slots: u32,
        crowded: bool,
        homes: bool,
    ) -> Self {
        // If an LWP sleeps idle, there is a slot already. That LWP is woken at the end of the round.
        let (mut waiting, left) = if sleepers > 0 { (Waiting::NoThread, 0) } else { queued.waiting(slots) };
        let most = CROWD * slots as usize;
        if matches!(waiting, Waiting::Preempted { .. }) && running < most && crowded {
            // They do not take turns: there is to be an LWP for each.
            waiting = Waiting::Woken;
        }
        Self { waiting, left, homes, stuck: 0, running, most }
    }

    /// Decides about one LWP.
    pub(super) fn decide(&mut self, before: &Sample, now: &Sample, facts: &mut impl Facts) -> Action {
        let mut verdict = judge(before, now, self.waiting, None);
        if verdict == Verdict::Suspect {
            verdict = judge(before, now, self.waiting, facts.task());
        }
        match verdict {
            Verdict::Healthy | Verdict::Suspect => Action::Nothing,
            Verdict::Respite => Action::Renew,
            Verdict::Outstayed => Action::Open { take: self.waiting != Waiting::NoThread },
            Verdict::BlockedAnnounced => Action::Take,
            Verdict::Rests => Action::Rest,
            Verdict::Blocked if !self.homes => Action::Compensate,
            Verdict::Blocked => {
                self.stuck += 1;
                if self.may_lend(facts) { Action::LendAsleep } else { Action::Nothing }
            }
            Verdict::Hogged if !now.holds_slot => {
                if facts.is_crowded(self.running) {
                    Action::LetCompute
                } else {
                    Action::Ask(Manner::Polite)
                }
            }
            Verdict::HandOff if self.homes => {
                self.stuck += u32::from(facts.has_computed());
                if self.may_lend(facts) { Action::LendComputing } else { Action::Nothing }
            }
            Verdict::Hogged | Verdict::HandOff if self.left == 0 => Action::Nothing,
            Verdict::Hogged => {
                self.left -= 1;
                // This is asked even if no more may run: the answer covers a time that begins with the last.
                if facts.is_crowded(self.running) && self.running < self.most {
                    Action::Release
                } else {
                    Action::Ask(Manner::Polite)
                }
            }
            Verdict::HandOff => {
                self.left -= 1;
                Action::HandOff { ask: !now.asked }
            }
        }
    }

    /// Returns `true` if fewer slots are lent than LWPs are stuck, and threads wait. Those LWPs keep their
    /// own, because their threads can run nowhere else.
    fn may_lend(&self, facts: &impl Facts) -> bool {
        facts.lent() < self.stuck && self.left > 0
    }

    /// Notes that a slot was moved or lent.
    pub(super) fn moved(&mut self, action: Action) {
        match action {
            Action::LendAsleep | Action::LendComputing => self.left -= 1,
            Action::Release => self.running += 1,
            _ => {}
        }
    }
}

/// What is seen of the LWPs that sleep idle, at the end of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleepers {
    pub(super) sleeping: u32,
    pub(super) searching: u32,
    /// One of them naps, and looks at what the others leave lying.
    pub(super) watched: bool,
    /// No LWP runs.
    pub(super) all_idle: bool,
}

/// For what one of the LWPs that sleep idle is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// For work that no LWP looks at.
    ToWork,
    /// To watch what a running LWP leaves lying.
    ToWatch,
}

impl Sleepers {
    /// Returns for what one is woken, if for anything. `work`: threads wait that no LWP has looked at.
    pub(super) fn wake(self, work: bool) -> Option<Wake> {
        if self.sleeping == 0 || self.searching > 0 {
            None
        } else if work {
            Some(Wake::ToWork)
        } else {
            (!self.all_idle && !self.watched).then_some(Wake::ToWatch)
        }
    }
}

/// There is no spare LWP to take over from those that sleep in the kernel: since when, and what that allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Starved {
    pub(super) since: u64,
    last: u64,
    /// How many threads have been asked to leave since.
    evicted: usize,
}

impl Starved {
    /// Notes at `time` that there is no spare.
    pub(super) fn go_on(before: Option<Self>, time: u64) -> Self {
        match before.filter(|before| time - before.last <= GAP) {
            Some(before) => Self { last: time, ..before },
            None => Self { since: time, last: time, evicted: 0 },
        }
    }

    /// Notes that one more thread was asked to leave.
    pub(super) fn with_one_more(self) -> Self {
        Self { evicted: self.evicted.saturating_add(1), ..self }
    }

    /// Returns the time in ns after which a thread makes room for the `others` that have made room or lost
    /// their slice. There must have been no spare for so long, and its LWP must have slept for so long. The
    /// more often all have slept again, the longer it is.
    pub(super) fn due(self, others: usize) -> u64 {
        DUE << (self.evicted / (CYCLES * (others + 1))).min(SLOWEST)
    }
}

#[cfg(test)]
mod tests;
