//! What is decided, case by case.

use super::*;
use crate::mxn::monitor::policy::REST;

const MS: u64 = 1_000_000;
/// An LWP that stands still with its slot, at the end of a slice.
const OVER: Sample = Sample {
    tick: 7,
    holds_slot: true,
    announced: false,
    rests: false,
    brief: None,
    idle: false,
    age: 10 * MS,
    had: 10 * MS,
    slice: 10 * MS,
    high: false,
    asked: false,
    refusals: 0,
    deferred: false,
    calm: 0,
};
const WOKEN: Queued = Queued { high: 0, low: 0, woken: 2, preempted: 0 };

/// Facts that are given, and which of them were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    task: Option<Task>,
    crowded: bool,
    computed: bool,
    lent: u32,
    asked: (u32, u32, u32),
}

const COMPUTES: Given =
    Given { task: Some(Task::Awake), crowded: false, computed: true, lent: 0, asked: (0, 0, 0) };
const SLEEPS: Given = Given { task: Some(Task::Asleep(0)), ..COMPUTES };

impl Facts for Given {
    fn task(&mut self) -> Option<Task> {
        self.asked.0 += 1;
        self.task
    }

    fn is_crowded(&mut self, _running: usize) -> bool {
        self.asked.1 += 1;
        self.crowded
    }

    fn has_computed(&mut self) -> bool {
        self.asked.2 += 1;
        self.computed
    }

    fn lent(&self) -> u32 {
        self.lent
    }
}

fn plan(queued: Queued, homes: bool) -> Plan {
    Plan::new(queued, 0, 2, 2, false, homes)
}

/// Returns what is decided about an LWP that was seen so in two rounds, and what was asked for that.
fn decided(mut plan: Plan, seen: Sample, facts: Given) -> (Action, (u32, u32, u32)) {
    let mut facts = facts;
    let action = plan.decide(&seen, &seen, &mut facts);
    (action, facts.asked)
}

#[test]
fn the_queue_that_goes_first_says_what_waits() {
    let queued = |high, woken, preempted, low| Queued { high, low, woken, preempted }.waiting(2);
    assert_eq!(queued(1, 2, 3, 4), (Waiting::Urgent, 1));
    assert_eq!(queued(0, 2, 3, 4), (Waiting::Woken, 2));
    assert_eq!(queued(0, 0, 3, 4), (Waiting::Preempted { ahead: 2 }, 3), "rounded up");
    assert_eq!(queued(0, 0, 0, 4), (Waiting::Low, 4));
    assert_eq!(queued(0, 0, 0, 0), (Waiting::NoThread, 0));
}

#[test]
fn threads_wait_for_no_lwp_while_one_sleeps_idle() {
    let plan = Plan::new(WOKEN, 1, 2, 2, false, false);
    assert_eq!(plan.waiting, Waiting::NoThread);
    assert_eq!(decided(plan, OVER, COMPUTES), (Action::Nothing, (0, 0, 0)));
}

#[test]
fn preempted_threads_take_no_turns_while_others_have_the_cpus() {
    let queued = Queued { preempted: 4, ..Queued::default() };
    let waiting = |running, crowded| Plan::new(queued, 0, running, 2, crowded, false).waiting;
    assert_eq!(waiting(2, false), Waiting::Preempted { ahead: 2 });
    assert_eq!(waiting(2, true), Waiting::Woken);
    assert_eq!(waiting(2 * CROWD, true), Waiting::Preempted { ahead: 2 }, "enough of them run");
}

#[test]
fn cases() {
    let surplus = Sample { holds_slot: false, ..OVER };
    let crowded = Given { crowded: true, ..COMPUTES };
    let refused = Sample { refusals: 2, ..OVER };
    let none = Queued::default();
    let table = [
        (
            "it dispatches",
            WOKEN,
            false,
            Sample { age: 0, had: 0, ..OVER },
            COMPUTES,
            Action::Nothing,
            (1, 0, 0),
        ),
        ("it naps", WOKEN, false, OVER, Given { task: None, ..COMPUTES }, Action::Nothing, (1, 0, 0)),
        ("it sleeps", WOKEN, false, OVER, SLEEPS, Action::Compensate, (1, 0, 0)),
        (
            "it has slept for long, and no thread waits",
            none,
            false,
            Sample { age: REST, ..OVER },
            Given { task: Some(Task::Asleep(REST)), ..COMPUTES },
            Action::Rest,
            (1, 0, 0),
        ),
        ("it sleeps, with threads at home", WOKEN, true, OVER, SLEEPS, Action::LendAsleep, (1, 0, 0)),
        (
            "it sleeps, and a slot is lent for it",
            WOKEN,
            true,
            OVER,
            Given { lent: 1, ..SLEEPS },
            Action::Nothing,
            (1, 0, 0),
        ),
        ("it computes", WOKEN, false, OVER, COMPUTES, Action::Ask(Manner::Polite), (1, 1, 0)),
        ("it computes beside others", WOKEN, false, OVER, crowded, Action::Release, (1, 1, 0)),
        ("it does not leave", WOKEN, false, refused, COMPUTES, Action::HandOff { ask: true }, (1, 0, 0)),
        (
            "it does not leave, and the signal is on its way",
            WOKEN,
            false,
            Sample { asked: true, ..refused },
            COMPUTES,
            Action::HandOff { ask: false },
            (1, 0, 0),
        ),
        (
            "it computes, with threads at home",
            WOKEN,
            true,
            refused,
            COMPUTES,
            Action::LendComputing,
            (1, 0, 1),
        ),
        (
            "it has begun to compute, with threads at home",
            WOKEN,
            true,
            refused,
            Given { computed: false, ..COMPUTES },
            Action::Nothing,
            (1, 0, 1),
        ),
        (
            "it computes without a slot",
            none,
            false,
            surplus,
            COMPUTES,
            Action::Ask(Manner::Polite),
            (1, 1, 0),
        ),
        ("the same, beside others", none, false, surplus, crowded, Action::LetCompute, (1, 1, 0)),
        ("it sleeps without a slot", none, false, surplus, SLEEPS, Action::Renew, (1, 0, 0)),
        (
            "its region is over, and no thread waits",
            none,
            false,
            Sample { brief: Some(REST), ..surplus },
            COMPUTES,
            Action::Open { take: false },
            (0, 0, 0),
        ),
        (
            "its region is over",
            WOKEN,
            false,
            Sample { brief: Some(REST), ..surplus },
            COMPUTES,
            Action::Open { take: true },
            (0, 0, 0),
        ),
        (
            "its slot is open",
            WOKEN,
            false,
            Sample { announced: true, ..surplus },
            COMPUTES,
            Action::Take,
            (0, 0, 0),
        ),
    ];
    for (what, queued, homes, seen, facts, action, asked) in table {
        assert_eq!(decided(plan(queued, homes), seen, facts), (action, asked), "{what}");
    }
}

#[test]
fn no_more_threads_are_asked_to_leave_than_threads_wait() {
    let mut plan = plan(Queued { woken: 1, ..Queued::default() }, false);
    let mut next = |seen| plan.decide(&seen, &seen, &mut COMPUTES.clone());
    assert_eq!(next(OVER), Action::Ask(Manner::Polite));
    assert_eq!(next(OVER), Action::Nothing);
    assert_eq!(next(Sample { refusals: 2, ..OVER }), Action::Nothing);
}

#[test]
fn no_more_slots_are_lent_than_threads_wait() {
    let lends = |moves: bool| {
        let mut plan = plan(Queued { woken: 1, ..Queued::default() }, true);
        let mut next = || plan.decide(&OVER, &OVER, &mut SLEEPS.clone());
        let first = next();
        assert_eq!(first, Action::LendAsleep);
        if moves {
            plan.moved(first);
        }
        plan.decide(&OVER, &OVER, &mut SLEEPS.clone()) == Action::LendAsleep
    };
    assert!(!lends(true));
    assert!(lends(false), "there was no spare for the first");
}

#[test]
fn no_more_lwps_compute_beside_others_than_the_bound() {
    let mut plan = Plan::new(Queued { woken: 9, ..WOKEN }, 0, 2 * CROWD - 1, 2, true, false);
    let next = |plan: &mut Plan| plan.decide(&OVER, &OVER, &mut Given { crowded: true, ..COMPUTES });
    assert_eq!(next(&mut plan), Action::Release);
    plan.moved(Action::Release);
    assert_eq!(next(&mut plan), Action::Ask(Manner::Polite));
}

#[test]
fn a_sleeper_is_woken_for_work_or_to_watch() {
    let wakes = |sleeping, searching, watched, all_idle, work| {
        Sleepers { sleeping, searching, watched, all_idle }.wake(work)
    };
    assert_eq!(wakes(1, 0, false, false, true), Some(Wake::ToWork));
    assert_eq!(wakes(1, 0, true, true, true), Some(Wake::ToWork));
    assert_eq!(wakes(0, 0, false, false, true), None, "none sleeps");
    assert_eq!(wakes(1, 1, false, false, true), None, "an LWP looks already");
    assert_eq!(wakes(1, 0, false, false, false), Some(Wake::ToWatch));
    assert_eq!(wakes(1, 0, true, false, false), None, "one watches");
    assert_eq!(wakes(1, 0, false, true, false), None, "there is nothing to watch");
}

#[test]
fn a_moment_does_not_count_and_those_that_only_sleep_take_turns_ever_more_slowly() {
    let first = Starved::go_on(None, GAP);
    let second = Starved::go_on(Some(first), 2 * GAP);
    assert_eq!((first.since, second.since, second.due(10)), (GAP, GAP, DUE));
    assert_eq!(Starved::go_on(Some(second), 3 * GAP + 1).since, 3 * GAP + 1, "it was over meanwhile");
    let cycled = |times| (0..times).fold(second, |starved, _| starved.with_one_more()).due(9);
    assert_eq!([0, 39, 40, 80, 160, 1600].map(cycled), [DUE, DUE, 2 * DUE, 4 * DUE, 16 * DUE, 16 * DUE]);
}
