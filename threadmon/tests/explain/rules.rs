//! What the rules say of recordings that are made up: where timing is hard, and where nothing may be said.

use selvedge::thread::WaitReason::{Park, Sleep};
use selvedge::trace::Recording;
use threadmon::explain::{Finding, Kind, Subject, explain, report};

use crate::made_up::{HIGH, LOW, NORMAL, Script};

/// A lock.
pub(crate) const LOCK: u64 = 0x1000;

fn found(script: &Script) -> Vec<Finding> {
    explain(&script.read())
}

pub(crate) fn kinds(script: &Script) -> Vec<Kind> {
    found(script).iter().map(|finding| finding.kind).collect()
}

#[track_caller]
pub(crate) fn the(script: &Script, kind: Kind) -> (Finding, Recording) {
    let recording = script.read();
    let found = explain(&recording);
    match found.iter().find(|finding| finding.kind == kind) {
        Some(finding) => (finding.clone(), recording),
        None => panic!("no {kind:?} in:\n{}", report(&recording)),
    }
}

#[track_caller]
pub(crate) fn assert_says(script: &Script, kind: Kind, text: &str) {
    assert_eq!(the(script, kind).0.to_string(), text);
}

#[track_caller]
pub(crate) fn assert_not(script: &Script, kind: Kind) {
    assert!(!kinds(script).contains(&kind), "{}", report(&script.read()));
}

/// A name of at most twelve bytes for each number.
pub(crate) fn spawn_workers(script: &mut Script, count: u64) {
    (1..=count).for_each(|n| script.spawn(0, 0, n, &format!("worker-{n}"), NORMAL));
}

/// Five threads take turns of 1 ms on the LWPs 0 and 1, for 100 ms.
fn turns(slots: u64, cpus: u64) -> Script {
    let mut script = Script::new(slots, cpus);
    spawn_workers(&mut script, 5);
    let mut next = (1..=5).cycle();
    for ms in 0..100 {
        let pair = [next.next().unwrap(), next.next().unwrap()];
        for (lwp, thread) in (0..).zip(pair) {
            script.dispatch(ms * 1_000, lwp, thread);
            script.yields((ms + 1) * 1_000, lwp, thread);
        }
    }
    script
}

#[test]
fn too_few_slots_come_with_figures_and_advice() {
    let (finding, recording) = the(&turns(2, 8), Kind::TooFewSlots);
    let [Subject::Runtime(1), Subject::Thread(worst)] = finding.subjects[..] else { panic!("{finding:?}") };
    let name = recording.name(worst).unwrap();
    assert_eq!(
        finding.to_string(),
        format!(
            "{name} waited for an LWP for 60 % of its life: runtime 1 has 2 slots, all of them were busy for \
             100 % of the time, and 3.0 threads waited meanwhile on average. Half of all waits took up to \
             1.0 ms, and one of 100 took 2.0 ms or more. It may use 8 CPUs: try a concurrency of 5."
        )
    );
    assert!(finding.severity > 0.99, "{finding:?}");
}

/// Of a runtime without facts, nothing is said that depends on its settings.
#[test]
fn slots_that_are_not_known_are_not_too_few() {
    assert_not(&turns(2, 8).without_facts(), Kind::TooFewSlots);
}

/// Of a sample, only what a thread shows by itself is told, and it says what cannot be told.
#[test]
fn a_sample_tells_of_single_threads_only() {
    let sampled = turns(2, 8).sample(16);
    assert_eq!(kinds(&sampled), []);
    let text = report(&sampled.read());
    for words in [
        "It is a sample: one thread of 16 was recorded.",
        "A sample cannot tell whether there are too few slots",
        "No thread of it stands out.",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(kinds(&hog(Script::new(1, 1).sample(2), 89)), [Kind::Hog]);
}

#[test]
fn as_many_slots_as_cpus_are_not_too_few() {
    assert_eq!(kinds(&turns(2, 2)), []);
    // What is not known is no reason.
    assert_eq!(kinds(&turns(2, 0)), []);
}

/// A runtime with CPUs of its own cannot use the others.
#[test]
fn as_many_slots_as_the_runtime_has_cpus_are_not_too_few() {
    assert_eq!(kinds(&turns(2, 8).own_cpus(2)), []);
    let (finding, _) = the(&turns(2, 8).own_cpus(4), Kind::TooFewSlots);
    assert!(finding.to_string().ends_with("It may use 4 CPUs: try a concurrency of 4."), "{finding}");
}

/// A thread that has never run is one of the runtime that it was started on.
#[test]
fn threads_of_another_runtime_wait_for_that() {
    let mut script = Script::new(1, 8);
    script.cast(&["busy"]);
    (2..9).for_each(|thread| script.spawn_on(2, 0, 0, thread, "late", NORMAL));
    script.dispatch(0, 0, 1);
    script.yields(90_000, 0, 1);
    assert_eq!(kinds(&script), []);
}

/// An LWP that has ended is not one that has nothing to do. Without the event of its end, nothing tells.
#[test]
fn an_lwp_that_has_ended_is_not_idle() {
    let recorded = |says| {
        let mut script = Script::new(1, 1);
        spawn_workers(&mut script, 2);
        script.retires(0, 1, says);
        for ms in (0..400).step_by(10) {
            for (at, thread) in [(ms, 1), (ms + 5, 2)] {
                script.dispatch(at * 1_000 + 10, 0, thread);
                script.yields((at + 5) * 1_000, 0, thread);
            }
        }
        kinds(&script)
    };
    assert_eq!(recorded(true), []);
    assert_eq!(recorded(false), [Kind::Imbalance]);
}

/// A thread that runs as soon as its waker waits needs no slot of its own.
#[test]
fn a_pair_that_wakes_each_other_needs_one_slot() {
    let mut script = Script::new(1, 8);
    script.cast(&["ping", "pong"]);
    script.dispatch(0, 0, 2);
    script.block(1, 0, 2, Park, 0);
    script.dispatch(1, 0, 1);
    for turn in 0..2_000_u64 {
        let (at, me, other) = (5 + turn * 5, 1 + turn % 2, 2 - turn % 2);
        script.ready(at, 0, other, me);
        script.block(at + 2, 0, me, Park, 0);
        script.dispatch(at + 2, 0, other);
    }
    assert_eq!(kinds(&script), []);
}

/// A thread runs from 1 ms on, for `ms`, while another is runnable.
fn hog(script: Script, ms: u64) -> Script {
    let mut script = script;
    script.cast(&["hog", "victim"]);
    script.dispatch(1_000, 0, 1);
    script.exit(1_000 + ms * 1_000, 0, 1);
    script.dispatch(1_000 + ms * 1_000, 0, 2);
    script.exit(11_000 + ms * 1_000, 0, 2);
    script
}

#[test]
fn a_hog_is_told_with_the_reason_why_it_can_be_one() {
    assert_says(
        &hog(Script::new(1, 1), 89),
        Kind::Hog,
        "hog kept its LWP for 89 ms on end, 89 % of the time in all, while other threads waited for one: \
         victim for 89 ms of that. The runtime has no time slices: set `time_slice`, or let the thread \
         yield.",
    );
    assert_not(&hog(Script::new(1, 1), 49), Kind::Hog);
    let slices = || Script::new(1, 1).slice(10_000);
    assert!(the(&hog(slices(), 201), Kind::Hog).0.to_string().contains("could not be preempted"));
    assert_not(&hog(slices(), 199), Kind::Hog);
}

/// Another LWP runs the others instead, so it keeps none of them from running.
#[test]
fn a_thread_that_has_lost_its_slot_is_no_hog() {
    let lost = |us: u64| {
        let mut script = Script::new(1, 1).slice(10_000);
        script.cast(&["hog", "other", "victim"]);
        script.dispatch(0, 0, 1);
        script.loses_slot(us, 0);
        for turn in 0..250 {
            let thread = 2 + turn % 2;
            script.dispatch(us + turn * 1_000, 1, thread);
            script.yields(us + (turn + 1) * 1_000, 1, thread);
        }
        script.exit(us + 250_000, 0, 1);
        script
    };
    assert_not(&lost(20_000), Kind::Hog);
    let (finding, _) = the(&lost(210_000), Kind::Hog);
    assert!(finding.to_string().starts_with("hog kept its LWP for 210 ms on end, 46 %"), "{finding}");
}

#[test]
fn a_thread_that_computes_alone_is_no_hog() {
    let mut script = Script::new(1, 1);
    script.cast(&["alone"]);
    script.dispatch(0, 0, 1);
    script.exit(500_000, 0, 1);
    assert_eq!(kinds(&script), []);
}

/// All slots are in the kernel, by announcement, while a thread is runnable.
fn in_kernel(script: Script) -> Script {
    let mut script = script;
    script.cast(&["reader", "starved"]);
    script.dispatch(0, 0, 1);
    script.enter_kernel(1_000, 0, 1);
    script.leave_kernel(81_000, 0, 1);
    script.exit(90_000, 0, 1);
    script.dispatch(90_000, 0, 2);
    script.exit(100_000, 0, 2);
    script
}

#[test]
fn slots_that_are_all_in_the_kernel_are_told() {
    assert_says(
        &in_kernel(Script::new(1, 1).bound(1, 0)),
        Kind::LwpsAtBound,
        "Runtime 1 had no LWP left for runnable threads, for 80 % of the time. reader was in the kernel for \
         longest (80 ms), and starved waited for 90 ms. There may be 1 LWP: raise `max_lwps`, or block in \
         fewer threads.",
    );
}

/// A thread that blocks in the kernel, and has not announced it, has no slot.
#[test]
fn slots_are_not_too_few_if_lwps_are() {
    let mut script = Script::new(1, 8).bound(2, 1);
    script.cast(&["one", "two", "waits"]);
    for thread in [1, 2] {
        script.dispatch(0, thread, thread);
        script.exit(90_000, thread, thread);
    }
    script.dispatch(90_000, 1, 3);
    script.exit(91_000, 1, 3);
    assert!(kinds(&script).contains(&Kind::LwpsAtBound));
    assert_not(&script, Kind::TooFewSlots);
}

#[test]
fn a_bound_that_was_reached_is_always_told() {
    let mut script = Script::new(1, 1).bound(2, 3);
    script.cast(&["alone"]);
    script.dispatch(0, 0, 1);
    script.exit(50_000, 0, 1);
    let (finding, _) = the(&script, Kind::LwpsAtBound);
    assert_eq!(
        finding.to_string(),
        "Runtime 1 had no LWP left for runnable threads; 3 times one was missing, and there could be no more. \
         There may be 2 LWPs: raise `max_lwps`, or block in fewer threads."
    );
    assert_eq!(finding.severity, 0.0);
}

/// The monitor tells of threads that sleep in the kernel. Others compute, and cannot be preempted.
#[test]
fn lwps_at_their_bound_may_compute() {
    let mut script = Script::new(1, 1).bound(2, 1).slice(10_000);
    script.cast(&["one", "two", "waits"]);
    for thread in [1, 2] {
        script.dispatch(0, thread, thread);
        script.exit(90_000, thread, thread);
    }
    script.dispatch(90_000, 1, 3);
    let (finding, _) = the(&script, Kind::LwpsAtBound);
    let text = finding.to_string();
    assert!(text.contains("Its threads computed where they cannot be preempted, or were in calls"), "{text}");
}

#[test]
fn an_idle_lwp_beside_waiting_threads_is_told() {
    let mut script = Script::new(2, 2);
    script.cast(&["one", "two"]);
    script.idle(0, 1);
    for turn in 0..20 {
        script.dispatch(turn * 10_000, 0, 1 + turn % 2);
        script.yields((turn + 1) * 10_000, 0, 1 + turn % 2);
    }
    let (finding, _) = the(&script, Kind::Imbalance);
    let text = finding.to_string();
    assert!(text.contains("LWP 0 was busy for 100 %, and LWP 1 was idle for 100 %"), "{text}");
    // With work for a moment every 40 ms, it is not idle for long.
    for turn in 0..5 {
        script.dispatch(turn * 40_000 + 39_000, 1, 3);
        script.block(turn * 40_000 + 39_001, 1, 3, Sleep, 0);
        script.idle(turn * 40_000 + 39_002, 1);
    }
    assert_not(&script, Kind::Imbalance);
}

/// A thread waits for 100 ms, twice, while another one is dispatched each 10 ms.
fn behind(mine: u64, other: u64) -> Script {
    let mut script = Script::new(1, 1);
    script.spawn(0, 0, 1, "mine", mine);
    script.spawn(0, 0, 2, "other", other);
    for turn in 0..21 {
        let thread = if turn == 10 || turn == 20 { 1 } else { 2 };
        script.dispatch(turn * 10_000, 0, thread);
        script.yields((turn + 1) * 10_000, 0, thread);
    }
    script
}

#[test]
fn starvation_is_by_priority() {
    assert_says(
        &behind(LOW, HIGH),
        Kind::Starvation,
        "mine, of low priority, waited for an LWP for 90 % of its life, while threads of higher priority \
         were dispatched 19 times, 19 of them other (high). Raise its priority, let those wait now and \
         then, or add slots.",
    );
    assert!(kinds(&behind(NORMAL, HIGH)).contains(&Kind::Starvation));
    assert!(kinds(&behind(LOW, NORMAL)).contains(&Kind::Starvation));
    assert_eq!(kinds(&behind(NORMAL, NORMAL)), []);
    assert_eq!(kinds(&behind(HIGH, LOW)), []);
}

#[test]
fn a_thread_that_waits_behind_others_for_less_than_it_runs_does_not_starve() {
    let mut script = Script::new(1, 1);
    script.spawn(0, 0, 1, "mine", LOW);
    script.spawn(0, 0, 2, "other", HIGH);
    for turn in 0..60 {
        let thread = if turn % 6 < 2 { 2 } else { 1 };
        script.dispatch(turn * 10_000, 0, thread);
        script.yields((turn + 1) * 10_000, 0, thread);
    }
    assert_not(&script, Kind::Starvation);
}

#[test]
fn a_thread_that_never_runs_is_told_after_a_while() {
    let never = |ms: u64| {
        let mut script = Script::new(1, 1);
        script.cast(&["keeper", "never"]);
        script.dispatch(0, 0, 1);
        script.exit(ms * 1_000, 0, 1);
        script
    };
    assert_says(
        &never(250),
        Kind::NeverRuns,
        "never was started 250 ms before the end, and has never run. keeper ran for 100 % of that time.",
    );
    assert_not(&never(150), Kind::NeverRuns);
    let mut script = never(150);
    script.dispatch(151_000, 0, 2);
    script.yields(152_000, 0, 2);
    script.idle(400_000, 0);
    let (finding, _) = the(&script, Kind::NeverRuns);
    assert!(finding.to_string().starts_with("never was runnable for the last 248 ms"), "{finding}");
}

/// A name may have anything, and so may a file.
#[test]
fn a_report_does_not_control_the_terminal() {
    let mut script = Script::of_crash("of \u{1b}[2J");
    script.cast(&["keeper", "\u{1b}[7mnever\n"]);
    script.dispatch(0, 0, 1);
    script.exit(250_000, 0, 1);
    let said = report(&script.read());
    for text in ["written because of \u{fffd}[2J.", "\u{fffd}[7mnever\u{fffd} was started 250 ms"] {
        assert!(said.contains(text), "{said:?}");
    }
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn the_worst_come_first_and_at_most_three_of_a_kind() {
    let mut script = Script::new(1, 1);
    spawn_workers(&mut script, 6);
    let mut at = 0;
    for thread in 1..=5 {
        script.dispatch(at, 0, thread);
        at += 50_000 + thread * 10_000;
        script.exit(at, 0, thread);
    }
    script.dispatch(at, 0, 6);
    script.exit(at + 10, 0, 6);
    let found = found(&script);
    let severities: Vec<f64> = found.iter().map(|finding| finding.severity).collect();
    assert!(severities.is_sorted_by(|a, b| a >= b), "{severities:?}");
    let hogs: Vec<_> = found.iter().filter(|finding| finding.kind == Kind::Hog).collect();
    let more: Vec<usize> = hogs.iter().map(|finding| finding.more).collect();
    assert_eq!(more, [0, 0, 2]);
    assert!(hogs[0].to_string().starts_with("worker-5 kept its LWP for 100 ms"), "{}", hogs[0]);
    assert!(hogs[2].to_string().ends_with("(And 2 more like this.)"), "{}", hogs[2]);
}

#[test]
fn of_a_short_recording_only_what_is_certain_is_told() {
    let mut script = Script::new(1, 8);
    spawn_workers(&mut script, 3);
    script.dispatch(0, 0, 1);
    script.yields(4_000, 0, 1);
    assert_eq!(kinds(&script), []);
    let nothing = Script::new(1, 8);
    assert_eq!(kinds(&nothing), []);
    assert!(report(&nothing.read()).ends_with("\n\nIt has no events.\n"));
}

/// The thread may have run, waited and run again in the time of which events are missing.
#[test]
fn nothing_is_said_about_a_time_of_which_events_are_missing() {
    let script = || hog(Script::new(1, 1), 80);
    assert_eq!(kinds(&script()), [Kind::Hog]);
    let cut = script().lost_until(Some(81_000));
    assert_eq!(kinds(&cut), []);
    let text = report(&cut.read());
    assert!(
        text.contains("Earlier events were overwritten. What follows is about the last 10 ms."),
        "{text}"
    );
    assert!(text.starts_with("91 ms recorded"), "{text}");
    assert_eq!(kinds(&script().lost_until(Some(200_000))), [], "all that came is missing");
}

#[test]
fn a_report_says_what_was_recorded() {
    let text = report(&turns(2, 2).read());
    assert_eq!(
        text,
        "100 ms recorded: 5 threads, 2 LWPs, 0 other kernel threads, 2 CPUs.\n\nNothing stands out.\n"
    );
    let full = |mut script: Script| {
        script.cast(&["busy"]);
        for turn in 0..8_000 {
            script.dispatch(turn * 10, 0, 1);
            script.yields(turn * 10 + 5, 0, 1);
        }
        report(&script.read())
    };
    let text = full(Script::new(1, 1));
    assert!(
        text.contains("Earlier events were overwritten. What follows is about the last 80 ms."),
        "{text}"
    );
    let text = full(Script::new(1, 1).lost_until(None));
    assert!(!text.contains("overwritten"), "its rings kept more, or were read in time: {text}");
    let text = report(&hog(Script::new(1, 1), 89).read());
    assert!(text.contains("\n 1. [89 %] hog kept its LWP"), "{text}");
}
