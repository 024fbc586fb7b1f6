//! What changes from refresh to refresh.

use selvedge::LwpState;
use selvedge::thread::WaitReason;
use selvedge::trace::State;

use super::{Model, index};
use crate::testing::{Scene, busy_program, ms};
use crate::warnings::warnings;

#[test]
fn rates_are_differences() {
    let mut model = Model::default();
    model.apply(Scene::at(ms(1000), 1).thread(1, "a", State::Running).snapshot);
    assert_eq!((model.threads[&1].shares, model.threads[&1].dispatches), (None, None));
    let mut next = Scene::at(ms(1100), 1).thread(1, "a", State::Running);
    let times = next.snapshot.pages[0].1.threads[0].times.as_mut().unwrap();
    times.states[index(State::Running)] = ms(1025);
    times.states[index(State::Sleeping)] = ms(75);
    times.dispatches = 1007;
    model.apply(next.snapshot);
    let row = &model.threads[&1];
    assert_eq!(row.shares.unwrap().map(|it| (it * 100.0).round()), [25.0, 0.0, 0.0, 0.0, 75.0, 0.0]);
    assert_eq!(row.dispatches.map(f64::round), Some(70.0));
    assert_eq!((model.used.0.round(), model.monitor), (1.0, 0.01));
}

/// At first, all waits since the counting began are there; later, those of the last five seconds.
#[test]
fn the_run_queue_latency_is_that_of_the_last_seconds() {
    let mut model = Model::default();
    let mut waits = |at, many| {
        model.apply(Scene::at(ms(at), 1).waited(many, ms(1)).snapshot);
        model.latency(1).unwrap().count()
    };
    assert_eq!([waits(1000, 10), waits(2000, 15), waits(5900, 16)], [10, 15, 16]);
    assert_eq!([waits(6000, 20), waits(7100, 21)], [10, 6], "since 1.0 and 2.0 s");
    assert_eq!(waits(7200, 3), 3, "another session");
    let mut off = Scene::at(ms(7300), 1);
    off.snapshot.overview.runtimes[0].run_queue_latency = None;
    model.apply(off.snapshot);
    assert_eq!(model.latency(1), None);
}

#[test]
fn a_thread_that_a_whole_walk_has_not_met_has_ended() {
    let mut model = Model::default();
    let part = |at, id, last| {
        let mut scene = Scene::at(ms(at), 1).thread(id, "a", State::Blocked);
        scene.snapshot.pages[0].1.last = last;
        scene.snapshot
    };
    model.apply(part(1, 1, false));
    model.apply(part(2, 2, true));
    assert_eq!(model.threads.len(), 2);
    model.apply(part(3, 1, false));
    assert_eq!(model.threads.len(), 2, "the second one may come yet");
    model.apply(part(4, 3, true));
    let mut ids: Vec<u64> = model.threads.keys().copied().collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn threads_of_a_runtime_that_has_ended_go_with_it() {
    let mut model = busy_program();
    let mut scene = Scene::at(ms(2000), 2);
    scene.snapshot.overview.runtimes.clear();
    scene.snapshot.pages.clear();
    model.apply(scene.snapshot);
    assert!(model.threads.is_empty());
    assert_eq!((model.total(), model.all_lwps().count()), (0, 0));
}

#[test]
fn lwps_and_cpus_have_shares() {
    let model = busy_program();
    let hog = model.lwps[&(1, 0)];
    assert_eq!((hog.ran, hog.dispatches, hog.same_thread), (Some(1.0), 0.0, ms(600)));
    let other = model.lwps[&(1, 1)];
    assert_eq!((other.dispatches.round(), other.same_thread), (1000.0, ms(0)));
    assert_eq!(model.lwps[&(1, 2)].ran, Some(0.0));
    assert_eq!((model.cpus[1].ours, model.cpus[1].others, model.cpus[1].idle), (1.0, 0.0, 0.0));
    assert_eq!(model.counts(), [2, 0, 1, 6, 1, 0]);
    assert_eq!(model.contention[&0xbeef].round(), 1000.0);
}

#[test]
fn an_lwp_in_the_kernel_is_told() {
    let mut model = Model::default();
    for at in [0, 300] {
        let scene =
            Scene::at(ms(at), 1).lwp(LwpState::InKernel, Some(7), 1).thread(7, "file", State::InKernel);
        model.apply(scene.snapshot);
    }
    assert_eq!(warnings(&model), ["LWP 0 has been in the kernel for 300 ms, with file"]);
}

#[test]
fn the_bound_and_deadlocks_are_told() {
    let mut model = Model::default();
    for reached in [4, 6] {
        let mut scene = Scene::at(ms(reached), 1).lwp(LwpState::Running, Some(1), 1);
        scene.snapshot.overview.runtimes[0].max_lwps = Some(1);
        scene.snapshot.overview.runtimes[0].bound_reached = reached;
        scene.snapshot.deadlocks = Some("runtime 1: two threads\nmore".into());
        model.apply(scene.snapshot);
    }
    let expected = [
        "deadlock: runtime 1: two threads",
        "all 1 LWPs exist, and one more was needed 2 times since the last refresh",
    ];
    assert_eq!(warnings(&model), expected);
}

#[test]
fn a_quiet_program_has_no_warnings() {
    let mut model = Model::default();
    for at in [0, 300, 600] {
        let scene = Scene::at(ms(at), 2)
            .lwp(LwpState::Running, Some(1), 1)
            .thread(1, "one", State::Running)
            .thread(2, "two", State::Blocked)
            .waits(WaitReason::Mutex, 8, "m", Some(1));
        model.apply(scene.snapshot);
    }
    assert_eq!(warnings(&model), Vec::<String>::new());
}
