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
/// If an LWP dispatches this often between two rounds, it is unlikely to have begun to compute when the next
/// one is due.
const LIVELY: u32 = 64;
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
    /// How often it has dispatched, or found nothing to dispatch, since the round before.
    pub(crate) dispatches: u32,
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
        Some(slice.saturating_sub(self.age))
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
    /// switches. A thread may wake beside one that begins to compute among them. It waits for two such pauses
    /// at most, because the first round finds that the other has just come.
    pub(crate) fn next_end(&self, waiting: Waiting, trial: bool) -> u64 {
        match self.left(waiting).filter(|_| self.holds_slot && !self.idle) {
            Some(0)
                if trial
                    && (self.slice < WOKEN_SLICE || self.refusals > 0 || self.deferred || !self.asked) =>
            {
                ANSWER
            }
            Some(0) | None => u64::MAX,
            Some(left) if self.dispatches >= LIVELY && self.slice >= WOKEN_SLICE => left.saturating_mul(2),
            Some(left) => left,
        }
    }
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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RUNS: Sample = Sample {
        tick: 7,
        dispatches: 0,
        holds_slot: true,
        announced: false,
        rests: false,
        brief: None,
        idle: false,
        age: 0,
        slice: 10 * MS,
        high: false,
        asked: false,
        refusals: 0,
        deferred: false,
    };

    const PREEMPTED: Waiting = Waiting::Preempted { ahead: 1 };
    const SLEEPS: Option<Task> = Some(Task::Asleep(0));
    const RUNS_ON: Option<Task> = Some(Task::Awake);

    #[test]
    fn cases() {
        use Verdict::*;
        use Waiting::*;
        let moved = Sample { tick: 8, ..RUNS };
        let idle = Sample { idle: true, ..RUNS };
        let announced = Sample { holds_slot: false, announced: true, ..RUNS };
        let brief = |age| Sample { holds_slot: false, brief: Some(age), ..RUNS };
        let spare = Sample { holds_slot: false, idle: true, ..RUNS };
        let surplus = Sample { holds_slot: false, ..RUNS };
        let rests = Sample { age: 2 * REST, rests: true, ..announced };
        let slept = Some(Task::Asleep(REST));
        let aged = |age| Sample { age, ..RUNS };
        let refused = |refusals| Sample { age: 10 * MS, refusals, ..RUNS };
        let asked = Sample { asked: true, ..refused(0) };
        let high = Sample { high: true, ..RUNS };
        let aged_high = |age| Sample { age, ..high };
        let cooperative = Sample { slice: u64::MAX, age: 1_000 * MS, ..RUNS };
        let old_surplus = Sample { age: 10 * MS, ..surplus };
        let refused_surplus = |refusals| Sample { refusals, ..old_surplus };
        let asked_surplus = Sample { asked: true, ..old_surplus };
        let table = [
            ("no thread waits", RUNS, RUNS, NoThread, SLEEPS, Healthy),
            ("it stands still for long", aged(REST), aged(REST), NoThread, None, Suspect),
            ("no thread waits, and it has slept for long", aged(REST), aged(REST), NoThread, slept, Rests),
            ("it has slept for a moment", aged(REST), aged(REST), NoThread, SLEEPS, Healthy),
            ("it has computed for long", aged(REST), aged(REST), NoThread, RUNS_ON, Healthy),
            ("it has dispatched since", aged(REST), moved, NoThread, slept, Healthy),
            (
                "it announced blocking, and has slept for long",
                announced,
                Sample { rests: false, ..rests },
                NoThread,
                slept,
                Rests,
            ),
            ("it rests", rests, rests, NoThread, None, Healthy),
            ("it rests, and another waits", rests, rests, Woken, None, BlockedAnnounced),
            ("no thread waits, and it computes", RUNS, aged(99 * MS), NoThread, RUNS_ON, Healthy),
            ("only a low thread waits, and it computes", RUNS, aged(100 * MS), Low, RUNS_ON, Healthy),
            ("a low thread waits, and it sleeps", RUNS, aged(MS), Low, SLEEPS, Blocked),
            ("it dispatches", RUNS, moved, Woken, SLEEPS, Healthy),
            ("it is idle", RUNS, idle, Woken, SLEEPS, Healthy),
            ("it was idle", idle, RUNS, Woken, SLEEPS, Healthy),
            ("it is a spare", spare, spare, Woken, SLEEPS, Healthy),
            ("it has just got a slot", spare, RUNS, Woken, None, Healthy),
            ("it stands still", RUNS, RUNS, Woken, None, Suspect),
            ("it sleeps", RUNS, RUNS, Woken, SLEEPS, Blocked),
            ("it sleeps, and only preempted threads wait", RUNS, RUNS, PREEMPTED, SLEEPS, Blocked),
            ("it computes", RUNS, RUNS, Woken, RUNS_ON, Healthy),
            ("it said so", announced, announced, Woken, None, BlockedAnnounced),
            ("it said so, and no thread waits", announced, announced, NoThread, None, Healthy),
            ("it is to be back soon", RUNS, brief(0), Woken, None, Healthy),
            ("it is still to be back soon", brief(0), brief(SHORT - 1), Woken, None, Healthy),
            ("it is not back", brief(0), brief(SHORT), Woken, None, Outstayed),
            ("it is not back, and no thread waits", brief(0), brief(SHORT), NoThread, None, Outstayed),
            ("it is back, and away again", brief(MS), brief(0), Woken, None, Healthy),
            ("its slice is over", RUNS, aged(10 * MS), PREEMPTED, RUNS_ON, Hogged),
            ("preempted threads wait for the whole slice", RUNS, aged(9 * MS), PREEMPTED, RUNS_ON, Healthy),
            ("a woken thread waits for less", RUNS, aged(MS), Woken, RUNS_ON, Hogged),
            ("a woken thread waits for that much", RUNS, aged(MS - 1), Woken, RUNS_ON, Healthy),
            ("high threads wait for no slice", RUNS, RUNS, Urgent, RUNS_ON, Hogged),
            ("high threads wait for a high thread's slice", high, high, Urgent, RUNS_ON, Healthy),
            ("a lower thread waits for a whole slice", high, aged_high(9 * MS), Woken, RUNS_ON, Healthy),
            ("a lower thread waits no longer", high, aged_high(10 * MS), Woken, RUNS_ON, Hogged),
            ("the signal is on its way", RUNS, asked, Woken, RUNS_ON, Healthy),
            ("it was refused once", RUNS, refused(1), Woken, RUNS_ON, Hogged),
            ("it was refused twice", RUNS, refused(2), Woken, RUNS_ON, HandOff),
            ("there are no signals", RUNS, refused(u8::MAX), Woken, RUNS_ON, HandOff),
            (
                "no signals, but its slice is not over",
                RUNS,
                Sample { refusals: 255, ..RUNS },
                Woken,
                RUNS_ON,
                Healthy,
            ),
            ("it is not seen to run", RUNS, aged(MS - 1), Woken, Some(Task::Unknown), Healthy),
            ("it is not seen to run after its slice", RUNS, aged(MS), Woken, Some(Task::Unknown), Blocked),
            ("it is not seen to run for long", RUNS, cooperative, Woken, Some(Task::Unknown), Blocked),
            ("not seen to run, without a slot", surplus, old_surplus, Woken, Some(Task::Unknown), Respite),
            ("it sleeps after its slice", RUNS, refused(2), Woken, SLEEPS, Blocked),
            ("it may compute forever", RUNS, cooperative, Woken, RUNS_ON, Healthy),
            ("it may compute forever, but not sleep", RUNS, cooperative, Woken, SLEEPS, Blocked),
            ("it lost its slot a moment ago", RUNS, surplus, Woken, None, Healthy),
            ("it goes on without a slot", surplus, old_surplus, Woken, None, Suspect),
            ("no thread waits; it runs without a slot", surplus, old_surplus, NoThread, RUNS_ON, Hogged),
            ("no thread waits; it sleeps without a slot", surplus, old_surplus, NoThread, SLEEPS, Respite),
            ("it computes without a slot", surplus, old_surplus, Woken, RUNS_ON, Hogged),
            ("it sleeps without a slot", surplus, old_surplus, Woken, SLEEPS, Respite),
            ("it had a slot to hand off", surplus, refused_surplus(2), Woken, RUNS_ON, Respite),
            ("it waits for a CPU, without a slot", surplus, asked_surplus, Woken, RUNS_ON, Respite),
        ];
        for (what, before, now, waiting, asleep, verdict) in table {
            assert_eq!(judge(&before, &now, waiting, asleep), verdict, "{what}");
        }
    }

    #[test]
    fn looks_at_the_ends_of_slices() {
        let aged = |age| Sample { age, ..RUNS };
        let table = [
            ("it has just begun", RUNS, Waiting::Woken, MS),
            ("it has dispatched often", Sample { dispatches: LIVELY, ..RUNS }, Waiting::Woken, 2 * MS),
            (
                "it has, and slices are short",
                Sample { dispatches: LIVELY, slice: MS / 20, ..RUNS },
                Waiting::Woken,
                MS / 20,
            ),
            ("it goes on", aged(MS - 1), Waiting::Woken, 1),
            ("it is over", aged(MS), Waiting::Woken, u64::MAX),
            ("it is over for those that woke", aged(2 * MS), PREEMPTED, 8 * MS),
            ("no thread waits", RUNS, Waiting::NoThread, u64::MAX),
            ("it has no slot", Sample { holds_slot: false, ..RUNS }, Waiting::Woken, u64::MAX),
            ("it is idle", Sample { idle: true, ..RUNS }, Waiting::Woken, u64::MAX),
        ];
        for (what, sample, waiting, expected) in table {
            assert_eq!(sample.next_end(waiting, false), expected, "{what}");
        }
    }

    #[test]
    fn looks_at_what_came_of_a_trial() {
        let asked = Sample { age: MS, asked: true, ..RUNS };
        let table = [
            ("it will leave", asked, u64::MAX),
            ("it slept", Sample { asked: false, ..asked }, ANSWER),
            ("it has refused before", Sample { refusals: 1, ..asked }, ANSWER),
            ("it has put that off", Sample { deferred: true, ..asked }, ANSWER),
            ("slices are short", Sample { slice: MS / 20, ..asked }, ANSWER),
            ("slices are as long as for woken threads", Sample { slice: MS, ..asked }, u64::MAX),
            ("its slice is not over", Sample { age: 0, ..asked }, MS),
            ("it has no slot", Sample { holds_slot: false, asked: false, ..asked }, u64::MAX),
        ];
        for (what, sample, expected) in table {
            assert_eq!(sample.next_end(Waiting::Woken, true), expected, "{what}");
        }
    }

    #[test]
    fn a_round_over_many_lwps_is_paid_for_by_a_pause() {
        assert_eq!(pause_for_cost(FEW, MS, 10 * MS), 0);
        assert_eq!(pause_for_cost(FEW + 1, 100_000, 10 * MS), 1_900_000);
        assert_eq!(pause_for_cost(FEW + 1, MS, 10 * MS), 10 * MS);
    }

    #[test]
    fn pauses() {
        let never = u64::MAX;
        let table = [
            ("nothing to do", MIN_PAUSE, false, never, 10 * MS, (2 * MIN_PAUSE, 2 * MIN_PAUSE)),
            ("nothing for long", 8 * MS, false, never, 10 * MS, (10 * MS, 10 * MS)),
            ("a slot moved", 10 * MS, true, never, 10 * MS, (MIN_PAUSE, MIN_PAUSE)),
            ("sleeps that others are too busy to end", MS, false, never, 10 * MS, (2 * MS, 2 * MS)),
            ("a slice is over before", 2 * MS, false, MS, 10 * MS, (MS, 4 * MS)),
            ("a slice is over any moment", 2 * MS, false, 5, 10 * MS, (MIN_PAUSE, 4 * MS)),
            ("a dropped runtime has still threads", MS, false, never, MS, (MS, MS)),
        ];
        for (what, last, acted, next_slice, longest, expected) in table {
            assert_eq!(pause(last, acted, next_slice, longest), expected, "{what}");
        }
    }

    #[test]
    fn others_are_told_from_our_own() {
        let table = [
            ("all to ourselves", 1.0, 2.0, 2, 2.0, false),
            ("one beside two of ours", 2.0 / 3.0, 4.0 / 3.0, 2, 2.0, true),
            ("one beside four of ours", 2.0 / 5.0, 8.0 / 5.0, 4, 2.0, true),
            ("four of ours alone", 0.5, 2.0, 4, 2.0, false),
            ("the same, measured on a bad day", 0.46, 2.0, 4, 2.0, false),
            ("two of ours on one CPU, and another on the other", 0.5, 1.95, 3, 2.0, false),
            ("one of ours, a little disturbed", 0.95, 0.95, 1, 2.0, false),
            ("two hogs, and half of a CPU paid for", 0.25, 0.5, 2, 0.5, false),
            ("two hogs, and one and a half CPUs paid for", 0.75, 1.5, 2, 1.5, false),
            ("a quarter of a thread beside two of ours", 2.0 / 2.25, 2.0 * 2.0 / 2.25, 2, 2.0, false),
            ("half of a thread beside eight of ours", 0.22, 1.75, 8, 2.0, true),
            ("hardly anything beside eight of ours", 0.23, 1.75, 8, 2.0, false),
        ];
        for (what, share, all, running, cpus, expected) in table {
            assert_eq!(crowded(share, all, running, cpus), expected, "{what}");
        }
    }

    #[test]
    fn others_are_there_until_we_have_all() {
        let table = [
            ("one beside eight of ours", 2.0 / 9.0, 16.0 / 9.0, 8, true),
            ("one beside twelve of ours", 2.0 / 13.0, 24.0 / 13.0, 12, true),
            ("the same, measured while eight of them waited", 0.4, 1.6, 4, true),
            ("eight of ours alone", 0.25, 1.99, 8, false),
            ("sixteen of ours, and what the kernel uses", 0.12, 1.92, 16, false),
            ("a quarter of a thread beside four of ours", 0.47, 8.0 / 4.25, 4, false),
            ("one of ours, that has a CPU", 1.0, 1.0, 1, false),
            ("the last two of ours, that have one each", 0.97, 1.94, 2, false),
            ("two of ours on one CPU, for the moment", 0.5, 1.95, 3, false),
        ];
        for (what, share, all, running, expected) in table {
            assert_eq!(still_crowded(share, all, running, 2.0), expected, "{what}");
        }
    }

    #[test]
    fn where_many_wait_slices_are_short() {
        let left = |ahead| RUNS.left(Waiting::Preempted { ahead }).unwrap();
        assert_eq!([1, 3, 7, 1000].map(left), [10 * MS, 5 * MS, 5 * MS / 2, MS]);
    }

    #[test]
    fn a_short_slice_is_short_for_all() {
        let now = Sample { slice: MS / 20, age: MS / 40, ..RUNS };
        assert_eq!(now.left(Waiting::Woken), Some(MS / 40));
        assert_eq!(now.left(Waiting::Preempted { ahead: 1 }), Some(MS / 40));
        assert_eq!(now.left(Waiting::NoThread), None);
    }
}
