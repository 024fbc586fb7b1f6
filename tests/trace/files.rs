//! `SELVEDGE_TRACE`: what a process leaves behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge::sync::Mutex;
use selvedge::trace::{Event, EventKind, Recording};
use selvedge::{Mxn, Runtime, thread};

use super::child;
use super::named;

/// Runs threads, so that there is something to record.
fn work(rt: &Mxn) {
    rt.run(|| {
        let threads: Vec<_> = (0..4)
            .map(|n| named(&format!("worker-{n}"), || (0..20).for_each(|_| thread::yield_now())))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

pub(super) fn exit() {
    work(&Mxn::new().unwrap());
}

pub(super) fn panic() {
    let rt = Mxn::new().unwrap();
    work(&rt);
    let panics = rt.spawn_with(thread::Builder::new().name("fool".into()), || panic!("on purpose")).unwrap();
    panics.join().unwrap_err();
    let late = rt.spawn_with(thread::Builder::new().name("late".into()), || panic!("again")).unwrap();
    late.join().unwrap_err();
}

/// A fork panics. What its parent wants to be written is not the fork's.
pub(super) fn fork_panics() {
    work(&Mxn::new().unwrap());
    // SAFETY: the child panics, and ends without anything else of this process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = selvedge::OneToOne::new().unwrap();
        let panicked = own.spawn(|| panic!("in the fork")).join().is_err();
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(!panicked)) };
    }
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// Aborts, with a handler of the program's own.
pub(super) fn own_abort() {
    extern "C" fn own(_: libc::c_int) {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(7) };
    }
    let handler = own as extern "C" fn(libc::c_int);
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
    abort();
}

pub(super) fn abort() {
    let rt = Mxn::new().unwrap();
    work(&rt);
    std::process::abort();
}

pub(super) fn overflow() {
    let rt = Mxn::new().unwrap();
    work(&rt);
    #[allow(unconditional_recursion)]
    fn deeper(n: u64) -> u64 {
        std::hint::black_box([n; 64]);
        deeper(n + 1) + 1
    }
    rt.run(|| deeper(0));
}

pub(super) fn deadlock() {
    static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let rt = Mxn::new().unwrap();
    work(&rt);
    let threads = [(0, 1), (1, 0)].map(|(first, second)| {
        rt.spawn(move || {
            let _first = LOCKS[first].lock();
            thread::sleep(Duration::from_millis(20));
            let _second = LOCKS[second].lock();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Runs a role with `SELVEDGE_TRACE` set to a file of this name.
fn run(role: &str, name: &str, more: &[(&str, &str)]) -> (child::Ended, tempfile::TempDir, PathBuf) {
    let _watchdog = super::Watchdog::start(role);
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join(name);
    let mut variables = vec![("SELVEDGE_TRACE", path.to_str().unwrap())];
    variables.extend(more);
    let ended = child::run(role, &variables);
    (ended, room, path)
}

/// Reads a recording, and checks that the workers are in it.
fn read(path: &Path) -> Recording {
    let recording = Recording::read(File::open(path).unwrap()).unwrap();
    let ends = recording.events().iter().filter(|event| event.kind == EventKind::Exit);
    let names: Vec<_> = ends.filter_map(|event| recording.name(event.thread?)).collect();
    assert!(names.contains(&"worker-0") && names.contains(&"worker-3"), "{names:?}");
    recording
}

fn with(path: &Path, more: &str) -> PathBuf {
    PathBuf::from(format!("{}.{more}", path.display()))
}

#[test]
fn an_exit_leaves_the_file_in_each_format() {
    let (ended, _room, path) = run("exit", "trace", &[]);
    ended.expect_success();
    assert_eq!(read(&path).reason(), None);
    let (ended, _room, path) = run("exit", "trace.json", &[]);
    ended.expect_success();
    let trace: serde_json::Value = serde_json::from_reader(File::open(path).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 20);
    let (ended, _room, path) = run("exit", "trace.pftrace", &[]);
    ended.expect_success();
    assert!(std::fs::metadata(path).unwrap().len() > 200);
}

#[test]
fn a_panic_leaves_the_last_events() {
    let (ended, _room, path) = run("panic", "trace", &[]);
    ended.expect_success();
    read(&path);
    let recording = read(&with(&path, "panic"));
    assert_eq!(recording.reason(), Some("a thread panicked"));
    // Only the first one writes: its events are soon gone.
    let is_late = |event: &Event| event.thread.and_then(|id| recording.name(id)) == Some("late");
    assert!(!recording.events().iter().any(is_late));
    // Without a clock, times would be counts.
    let bytes = std::fs::read(with(&path, "panic")).unwrap();
    assert!(bytes.windows(4).any(|tag| tag == b"CLCK"));
}

#[test]
fn the_panic_of_a_fork_leaves_nothing() {
    let (ended, _room, path) = run("fork_panics", "trace", &[]);
    ended.expect_success();
    assert!(ended.said.contains("in the fork") && !with(&path, "panic").exists(), "{}", ended.said);
}

#[test]
fn a_programs_own_handler_of_aborts_stays() {
    let (ended, _room, path) = run("own_abort", "trace", &[]);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.said);
    assert!(!with(&path, "abort").exists());
}

#[test]
fn a_variable_may_ask_for_a_sample() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("trace");
    let ended = child::run("exit", &[("SELVEDGE_TRACE", &format!("1/1000:{}", path.display()))]);
    ended.expect_success();
    let recording = Recording::read(File::open(path).unwrap()).unwrap();
    assert_eq!(recording.sampled().get(), 1_000);
    let threads = recording.events().iter().filter(|event| event.thread.is_some()).count();
    assert!(threads < 20, "{threads}");
}

#[test]
fn an_abort_leaves_the_last_events() {
    let (ended, _room, path) = run("abort", "trace", &[]);
    ended.expect_abort(&[]);
    assert_eq!(read(&with(&path, "abort")).reason(), Some("the process aborts"));
}

#[test]
fn a_stack_overflow_leaves_the_last_events() {
    let (ended, _room, path) = run("overflow", "trace", &[]);
    ended.expect_abort(&["has overflowed its stack"]);
    read(&with(&path, "abort"));
}

#[test]
fn a_deadlock_leaves_the_last_events() {
    let (ended, _room, path) = run("deadlock", "trace", &[("SELVEDGE_DEADLOCK", "abort")]);
    ended.expect_abort(&[]);
    assert_eq!(read(&with(&path, "deadlock")).reason(), Some("threads wait forever"));
}

#[test]
fn a_file_that_cannot_be_made_is_an_error() {
    let ended = child::run("exit", &[("SELVEDGE_TRACE", "/nowhere/at/all")]);
    assert!(!ended.status.success());
    for word in ["SELVEDGE_TRACE", "/nowhere/at/all", "a file to write"] {
        assert!(ended.said.contains(word), "{}", ended.said);
    }
}
