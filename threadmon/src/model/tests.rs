//! What changes from refresh to refresh.

use selvedge::LwpState;
use selvedge::thread::WaitReason;
use selvedge::trace::State;

use super::{Model, index};
use crate::source::Snapshot;
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

/// Returns a refresh of a program with this thread in its page.
fn page(at: u64, id: u64, state: State, last: bool) -> Snapshot {
    let mut scene = Scene::at(ms(at), 1).thread(id, "a", state);
    scene.snapshot.pages[0].1.last = last;
    scene.snapshot
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
fn a_thread_that_a_whole_walk_has_not_met_waits_on() {
    let mut model = Model::default();
    model.follow(Some(1));
    model.apply(page(100, 1, State::Blocked, false));
    model.apply(page(200, 2, State::Sleeping, true));
    let blocked =
        |model: &Model| model.threads[&1].view.times.as_ref().unwrap().states[index(State::Blocked)];
    let (before, since) = (blocked(&model), model.threads[&1].view.times.as_ref().unwrap().since);
    model.apply(page(300, 3, State::Running, false));
    assert_eq!((model.threads.len(), blocked(&model)), (3, before), "the first one may come yet");
    model.apply(page(400, 4, State::Running, true));
    assert_eq!((model.threads.len(), blocked(&model)), (4, before + ms(300)));
    let moments = model.refreshes.iter().map(|it| it.state);
    assert!(moments.eq([State::Blocked; 2]), "at the refreshes that told of it");
    let row = &model.threads[&1];
    assert_eq!((row.seen, row.dispatches), (ms(400), Some(0.0)));
    assert_eq!(row.shares, Some([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]));
    assert_eq!(row.view.times.as_ref().unwrap().since, since + ms(300));
    assert_eq!(model.threads[&3].seen, ms(300), "it ran, so what it does is not known");
}

#[test]
fn threads_end_when_the_program_says_so() {
    let mut model = Model::default();
    model.apply(page(1, 1, State::Blocked, true));
    let mut next = page(2, 2, State::Blocked, true);
    next.pages[0].1.ended = vec![1, 7];
    model.apply(next);
    assert_eq!(model.threads.keys().collect::<Vec<_>>(), [&2]);
    // The program may have ended any of them while there was no connection.
    let mut next = page(3, 3, State::Blocked, true);
    next.anew = true;
    model.apply(next);
    assert_eq!(model.threads.keys().collect::<Vec<_>>(), [&3]);
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
