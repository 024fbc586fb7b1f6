//! How far back the events go: rings are as long as a program or its user wants them.

use std::path::Path;
use std::time::Duration;

use selvedge::trace::{EventKind, Level, Recording, Track, set_level, set_ring_events};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::{child, traced};

/// How many threads end. Each makes three events or more, so two of the usual rings have no room for them.
const THREADS: usize = 20_000;

/// Starts threads one by one, on the same LWP, or on two if the first is missed.
fn work(rt: &Mxn) {
    rt.run(|| (0..THREADS).for_each(|_| thread::spawn(|| ()).join().unwrap()));
}

fn build() -> Mxn {
    Mxn::builder().concurrency(1).max_lwps(2).build().unwrap()
}

/// Returns `true` if the end of each thread is in the recording.
fn is_whole(recording: &Recording) -> bool {
    recording.events().iter().filter(|it| it.kind == EventKind::Exit).count() >= THREADS
}

/// Sets what `PROGRAM` says, and checks what `KEEPS` says.
pub(super) fn many() {
    if let Ok(events) = std::env::var("PROGRAM") {
        set_ring_events(events.parse().unwrap()).unwrap();
    }
    let rt = build();
    set_level(Level::Events);
    work(&rt);
    let recording = Recording::take();
    assert!(recording.events().len() > 800, "{}", recording.events().len());
    assert_eq!(is_whole(&recording).to_string(), std::env::var("KEEPS").unwrap());
}

/// Rings that are open keep their size. Those of a runtime that is built later have the new one.
pub(super) fn grown() {
    let old = build();
    set_level(Level::Events);
    set_ring_events(1_000_000).unwrap();
    let is_whole_after = |rt| {
        set_level(Level::Off);
        set_level(Level::Events);
        work(rt);
        is_whole(&Recording::take())
    };
    assert!(!is_whole_after(&old));
    assert!(is_whole_after(&build()));
}

#[test]
fn a_longer_ring_keeps_what_a_shorter_one_has_lost() {
    let keeps = |keeps, more: &[(&str, &str)]| {
        let mut variables = vec![("KEEPS", keeps)];
        variables.extend(more);
        child::run("many", &variables).expect_success();
    };
    keeps("false", &[]);
    keeps("false", &[("SELVEDGE_TRACE_EVENTS", "16000")]);
    keeps("true", &[("SELVEDGE_TRACE_EVENTS", "1000000")]);
    keeps("true", &[("PROGRAM", "1000000")]);
    // What the program sets counts more.
    keeps("true", &[("PROGRAM", "1000000"), ("SELVEDGE_TRACE_EVENTS", "1000")]);
    keeps("false", &[("PROGRAM", "1000"), ("SELVEDGE_TRACE_EVENTS", "1000000")]);
    child::run("grown", &[]).expect_success();
}

/// The variable counts for `SELVEDGE_TRACE`, too. An invalid one is an error, with and without a trace.
#[test]
fn the_variable_is_read_with_and_without_a_file() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("trace");
    let file = ("SELVEDGE_TRACE", path.to_str().unwrap());
    child::run("many", &[file, ("KEEPS", "true"), ("SELVEDGE_TRACE_EVENTS", "1000000")]).expect_success();
    let written = |path: &Path| Recording::read(std::fs::File::open(path).unwrap()).unwrap();
    assert!(is_whole(&written(&path)));
    for invalid in ["999", "10000001", "many", ""] {
        for more in [&[][..], &[file]] {
            let mut variables = vec![("KEEPS", "true"), ("SELVEDGE_TRACE_EVENTS", invalid)];
            variables.extend(more);
            let ended = child::run("many", &variables);
            let range = "expected a whole number from 1000 to 10000000";
            let expected = format!("invalid value `{invalid}` in SELVEDGE_TRACE_EVENTS: {range}");
            assert!(!ended.status.success() && ended.said.contains(&expected), "{}", ended.said);
        }
    }
}

/// A green thread that starts a kernel thread writes that into the ring of its LWP. It must not lose the LWP
/// in the middle, or the ring has two writers. A debug assertion of the recorder tells.
#[test]
fn a_green_thread_that_starts_a_kernel_thread_keeps_its_lwp() {
    traced("a_green_thread_that_starts_a_kernel_thread_keeps_its_lwp", Level::Events, || {
        let (rt, other) = (build(), OneToOne::new().unwrap());
        let (by, started) = rt.run(move || {
            let started = other.spawn(|| thread::current().id());
            (thread::current().id(), started.join().unwrap())
        });
        let recording = Recording::take();
        let is_start = |kind| matches!(kind, EventKind::Spawn { by: Some(it), .. } if it == by);
        let starts = recording.events().iter().filter(|it| it.thread == Some(started) && is_start(it.kind));
        assert_eq!(starts.count(), 1);
    });
}

/// The LWPs of a runtime write into the rings of runtimes that have ended. What these have left there stays.
#[test]
fn what_runtimes_that_have_ended_leave_is_there() {
    traced("what_runtimes_that_have_ended_leave_is_there", Level::Events, || {
        let ids: Vec<_> = (0..5).map(|_| build().run(|| thread::current().id())).collect();
        let recording = Recording::take();
        let mut runtimes = Vec::new();
        for id in ids {
            let of_it = recording.events().iter().filter(|it| it.thread == Some(id));
            let exit = of_it.filter(|it| it.kind == EventKind::Exit).map(|it| it.track).collect::<Vec<_>>();
            let [Track::Lwp { runtime, .. }] = exit[..] else { panic!("{exit:?}") };
            assert_eq!(recording.runtime_of(id), Some(runtime));
            runtimes.push(runtime);
        }
        assert!(runtimes.is_sorted_by(|one, next| one < next), "{runtimes:?}");
    });
}

/// A recording says from when on nothing of an LWP is overwritten. So does the same recording from a file.
#[test]
fn a_recording_says_from_when_on_it_is_whole() {
    traced("a_recording_says_from_when_on_it_is_whole", Level::Events, || {
        let rt = build();
        let first = rt.run(|| thread::current().id());
        let recording = Recording::take();
        assert_eq!(recording.whole_since(), Some(Duration::ZERO));
        work(&rt);
        let recording = Recording::take();
        let since = recording.whole_since().unwrap();
        assert!(since > Duration::ZERO && since <= recording.length(), "{since:?}");
        let mut of_lwps = recording.events().iter().filter(|it| matches!(it.track, Track::Lwp { .. }));
        assert!(of_lwps.any(|it| it.at == since));
        assert!(!recording.events().iter().any(|it| it.thread == Some(first) && it.kind == EventKind::Exit));
        let mut bytes = Vec::new();
        recording.write(&mut bytes).unwrap();
        assert_eq!(Recording::read(&*bytes).unwrap().whole_since(), Some(since));
    });
}
