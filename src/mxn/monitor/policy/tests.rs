//! The cases, and what is done in each.

use super::*;

const MS: u64 = 1_000_000;
const RUNS: Sample = Sample {
    tick: 7,
    holds_slot: true,
    announced: false,
    rests: false,
    brief: None,
    idle: false,
    age: 0,
    had: 0,
    slice: 10 * MS,
    high: false,
    asked: false,
    refusals: 0,
    deferred: false,
    calm: 0,
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
    let aged = |age| Sample { age, had: age, ..RUNS };
    let refused = |refusals| Sample { refusals, ..aged(10 * MS) };
    let asked = Sample { asked: true, ..refused(0) };
    let high = Sample { high: true, ..RUNS };
    let aged_high = |age| Sample { age, had: age, ..high };
    let cooperative = Sample { slice: u64::MAX, ..aged(1_000 * MS) };
    let old_surplus = Sample { age: 10 * MS, had: 10 * MS, ..surplus };
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
        (
            "it has waited for a CPU all the time",
            RUNS,
            Sample { had: 0, ..aged(10 * MS) },
            Woken,
            RUNS_ON,
            Healthy,
        ),
        ("it slept all the time", RUNS, Sample { had: 0, ..aged(10 * MS) }, Woken, SLEEPS, Blocked),
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
fn an_lwp_of_short_turns_is_lively() {
    let table = [
        ("it dispatches all the time", 500, MS, 10 * MS, true),
        ("it computes in between", 5, MS, 10 * MS, false),
        ("it computes for whole slices, which are short", 50, MS, MS / 50, false),
        ("its threads are not preempted", 500, MS, u64::MAX, true),
        ("it stands still", 0, MS, 10 * MS, false),
    ];
    for (what, turns, time, slice, expected) in table {
        assert_eq!(is_lively(turns, time, slice), expected, "{what}");
    }
}

#[test]
fn an_lwp_that_stands_still_and_runs_is_not_calm() {
    let calm = Sample { calm: CALM, ..RUNS };
    let table = [
        ("it dispatches all the time", calm, true),
        ("it has not done so for long", Sample { calm: CALM - 1, ..calm }, false),
        ("it has waited for a CPU", Sample { age: 10 * MS, ..calm }, true),
        ("it has run all the time", Sample { age: MS, had: MS, ..calm }, false),
        ("it is idle", Sample { idle: true, ..RUNS }, true),
        ("it is a spare", Sample { holds_slot: false, ..RUNS }, true),
    ];
    for (what, sample, expected) in table {
        assert_eq!(sample.is_calm(), expected, "{what}");
    }
}

#[test]
fn looks_at_the_ends_of_slices() {
    let aged = |age| Sample { age, had: age, ..RUNS };
    let table = [
        ("it has just begun", RUNS, Waiting::Woken, MS),
        ("it has dispatched often", Sample { calm: 1, ..RUNS }, Waiting::Woken, 2 * MS),
        ("it has, and slices are short", Sample { calm: 1, slice: MS / 20, ..RUNS }, Waiting::Woken, MS / 20),
        ("it has for long", Sample { calm: CALM, ..RUNS }, Waiting::Woken, 8 * MS),
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
    let asked = Sample { had: MS, asked: true, ..RUNS };
    let table = [
        ("it will leave", asked, u64::MAX),
        ("it slept", Sample { asked: false, ..asked }, ANSWER),
        ("it has refused before", Sample { refusals: 1, ..asked }, ANSWER),
        ("it has put that off", Sample { deferred: true, ..asked }, ANSWER),
        ("slices are short", Sample { slice: MS / 20, ..asked }, ANSWER),
        ("slices are as long as for woken threads", Sample { slice: MS, ..asked }, u64::MAX),
        ("its slice is not over", Sample { had: 0, ..asked }, MS),
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
    let now = Sample { slice: MS / 20, had: MS / 40, ..RUNS };
    assert_eq!(now.left(Waiting::Woken), Some(MS / 40));
    assert_eq!(now.left(Waiting::Preempted { ahead: 1 }), Some(MS / 40));
    assert_eq!(now.left(Waiting::NoThread), None);
}
