//! `SELVEDGE_TRACE`: what a process leaves behind.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use selvedge::sync::{Barrier, Mutex};
use selvedge::trace::{Event, EventKind, Level, Recording, Track, set_level};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::child;
use super::named;
use super::waiting::soon;

/// Runs threads, so that there is something to record.
fn work(rt: &Mxn) {
    let others = rt.stats().threads;
    rt.run(|| {
        let threads: Vec<_> = (0..4)
            .map(|n| named(&format!("worker-{n}"), || (0..20).for_each(|_| thread::yield_now())))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // A result comes before the end of its thread is recorded.
    soon("all have ended", rt, |stats| stats.threads <= others);
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

/// Another process aborts this one, which could go on.
pub(super) fn killed() {
    let rt = Mxn::new().unwrap();
    work(&rt);
    // SAFETY: no memory is involved.
    unsafe { libc::kill(std::process::id().cast_signed(), libc::SIGABRT) };
    std::thread::sleep(Duration::from_secs(10));
}

/// Ignores `SIGABRT` that other processes send. The first one finds a thread in a call, and the file that it
/// asks for cannot be written. The call goes on.
pub(super) fn ignores() {
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGABRT, libc::SIG_IGN) };
    work(&Mxn::new().unwrap());
    let path = std::env::var("SELVEDGE_TRACE").unwrap();
    std::fs::create_dir(with(Path::new(&path), "abort")).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let tid = Arc::new(AtomicI32::new(0));
    let its_tid = Arc::clone(&tid);
    let reads = std::thread::spawn(move || {
        // SAFETY: the calling thread's own `errno`.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { errno.write(1234) };
        // SAFETY: no memory is involved.
        its_tid.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        let mut byte = 0_u8;
        // SAFETY: room for one byte.
        let got = unsafe { libc::syscall(libc::SYS_read, reader.as_raw_fd(), &raw mut byte, 1) };
        // SAFETY: as above.
        assert_eq!((got, unsafe { errno.read() }), (1, 1234));
    });
    let sleeps = |tid| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        stat.contains(") S ")
    };
    while !sleeps(tid.load(Ordering::Relaxed)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let tid = tid.load(Ordering::Relaxed);
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, libc::SIGABRT) };
    let is_ignored = || {
        // SAFETY: plain data, for which zero is valid.
        let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a query into a valid place.
        unsafe { libc::sigaction(libc::SIGABRT, std::ptr::null(), &raw mut now) };
        now.sa_sigaction == libc::SIG_IGN
    };
    while !is_ignored() {
        std::thread::sleep(Duration::from_millis(1));
    }
    (&writer).write_all(&[1]).unwrap();
    reads.join().unwrap();
    for _ in 0..3 {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGABRT) };
    }
}

/// Lets nothing read standard error from now on.
fn lose_standard_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // SAFETY: no memory is involved.
    unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
}

/// The trace cannot be written at the end, and nothing reads the message.
pub(super) fn exit_in_vain() {
    work(&Mxn::new().unwrap());
    let path = std::env::var("SELVEDGE_TRACE").unwrap();
    std::fs::remove_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    lose_standard_error();
}

/// Threads wait for each other, and nothing reads the message.
pub(super) fn deadlock_in_vain() {
    lose_standard_error();
    deadlock();
}

pub(super) fn abort() {
    let rt = Mxn::new().unwrap();
    work(&rt);
    std::process::abort();
}

/// Aborts when an LWP was missing, and long after the name of a thread was an event.
pub(super) fn crash() {
    // Runtimes and threads that have ended leave room for those that come later.
    (0..200).for_each(|_| drop(OneToOne::new().unwrap()));
    let names = || (0..1_200).for_each(|_| named("short", || ()).join().unwrap());
    let other = OneToOne::new().unwrap();
    // A change of the level notes what a runtime has come to.
    let parked = other.spawn(thread::park);
    set_level(Level::Times);
    set_level(Level::Events);
    other.run(names);
    // It has a ring, and events of its own.
    other.run(|| (0..40).for_each(|_| thread::park_timeout(Duration::from_micros(1))));
    let age = Some(Duration::from_millis(10));
    let rt = Mxn::builder().concurrency(1).max_lwps(6).lwp_age(age).time_slice(None).build().unwrap();
    let (held, hold) = std::io::pipe().unwrap();
    let held = Arc::new(held);
    // Each blocks in the kernel until the other end is closed.
    let blocked: Vec<_> = (0..8)
        .map(|_| {
            let held = Arc::clone(&held);
            rt.spawn(move || assert!(!crate::unseen::read(&*held)))
        })
        .collect();
    soon("the bound", &rt, |stats| stats.bound_reached > 0);
    drop(hold);
    blocked.into_iter().for_each(|thread| thread.join().unwrap());
    // An LWP that has ended since: the thread that ends LWPs has noted the bound before.
    soon("an LWP has ended", &rt, |stats| stats.aged > 0);
    let long = rt.run(move || {
        names();
        let long = named("long-lived, é", thread::park);
        // More than the LWP's ring has room for.
        let yields = || (0..20_000).for_each(|_| thread::yield_now());
        let pair = [named("left", yields), named("right", yields)];
        pair.into_iter().for_each(|thread| thread.join().unwrap());
        long
    });
    work(&rt);
    let (id, recording) = (long.thread().id(), Recording::take());
    long.thread().unpark();
    long.join().unwrap();
    parked.thread().unpark();
    parked.join().unwrap();
    assert_eq!(recording.name(id), Some("long-lived, é"));
    std::process::abort();
}

/// Aborts after three runtimes that were traced, and one of an earlier session.
pub(super) fn abort_later() {
    work(&Mxn::new().unwrap());
    set_level(Level::Off);
    set_level(Level::Events);
    (0..3).for_each(|_| work(&Mxn::new().unwrap()));
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
    static BOTH: Barrier = Barrier::new(2);
    let rt = Mxn::new().unwrap();
    work(&rt);
    let threads = [(0, 1), (1, 0)].map(|(first, second)| {
        rt.spawn(move || {
            let _first = LOCKS[first].lock();
            BOTH.wait();
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

/// So programs that start each other with the same variable have a file each.
#[test]
fn a_name_may_have_the_process_id() {
    let (ended, room, _path) = run("exit", "trace-%p-%p", &[]);
    ended.expect_success();
    let files: Vec<_> = std::fs::read_dir(room.path()).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let id = |id: &str| id.parse::<u32>().unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let ids = name.strip_prefix("trace-").unwrap().split_once('-').unwrap();
    assert!(id(ids.0) == id(ids.1) && id(ids.0) != std::process::id(), "{name}");
    read(file);
}

#[test]
fn an_abort_leaves_the_last_events() {
    let (ended, _room, path) = run("abort", "trace", &[]);
    ended.expect_abort(&[]);
    assert_eq!(read(&with(&path, "abort")).reason(), Some("the process aborts"));
}

#[test]
fn an_abort_leaves_the_events_of_all_runtimes_of_the_session() {
    let (ended, _room, path) = run("abort_later", "trace", &[]);
    ended.expect_abort(&[]);
    let recording = read(&with(&path, "abort"));
    let ends = recording.events().iter().filter(|event| event.kind == EventKind::Exit);
    let mut by_runtime: HashMap<u32, usize> = HashMap::new();
    for end in ends {
        if let Track::Lwp { runtime, .. } = end.track {
            *by_runtime.entry(runtime).or_default() += 1;
        }
    }
    // Four workers, and the thread that started them.
    assert_eq!(by_runtime, HashMap::from([(2, 5), (3, 5), (4, 5)]));
}

#[test]
fn a_process_that_is_aborted_by_another_ends_and_leaves_the_last_events() {
    let (ended, _room, path) = run("killed", "trace", &[]);
    ended.expect_abort(&[]);
    assert_eq!(read(&with(&path, "abort")).reason(), Some("the process aborts"));
}

#[test]
fn a_process_that_ignores_aborts_by_others_goes_on() {
    run("ignores", "trace", &[]).0.expect_success();
}

#[test]
fn a_message_that_nothing_reads_does_no_harm() {
    run("exit_in_vain", "trace", &[]).0.expect_success();
    let (ended, _room, path) = run("deadlock_in_vain", "trace", &[("SELVEDGE_DEADLOCK", "abort")]);
    ended.expect_abort(&[]);
    assert_eq!(read(&with(&path, "deadlock")).reason(), Some("threads wait forever"));
}

/// A crash leaves what a reader needs besides events: the runtimes, the CPUs, names, and each ring as one.
#[test]
fn an_abort_leaves_what_is_known_of_runtimes_and_threads() {
    let (ended, _room, path) = run("crash", "trace", &[]);
    ended.expect_abort(&[]);
    let recording = read(&with(&path, "abort"));
    let facts: Vec<_> = recording.runtimes().collect();
    let [.., one, green] = facts[..] else { panic!("{facts:?}") };
    assert_eq!((one.number, green.number), (201, 202));
    assert_eq!(one.lwps, 1);
    assert!(!one.has_green_threads && green.has_green_threads, "{facts:?}");
    assert_eq!((green.concurrency, green.max_lwps, green.time_slice), (1, Some(6), None));
    assert!(green.bound_reached > 0 && (1..=6).contains(&green.lwps), "{green:?}");
    assert!(recording.cpus() > 0 && recording.cpus() <= one.concurrency.max(1), "{}", recording.cpus());
    // Its name was an event, and is not one any more.
    let events = recording.events();
    let name_of = |event: &Event| event.thread.and_then(|id| recording.name(id));
    let of_it = |event: &&Event| name_of(event) == Some("long-lived, é");
    assert!(events.iter().any(|it| of_it(&it) && matches!(it.kind, EventKind::Dispatch { .. })));
    assert!(!events.iter().any(|it| of_it(&it) && matches!(it.kind, EventKind::Spawn { .. })));
    // Of 40,000 yields, most are overwritten.
    assert!(recording.whole_since() > Some(Duration::ZERO));
    // All events of one kernel thread are on one track. There are two threads of the 1:1 runtime, the main
    // thread of the child, and that of the test.
    let parks = events.iter().filter(|it| matches!(it.kind, EventKind::Block { .. }));
    let kernel = parks.filter(|it| matches!(it.track, Track::Kernel(_)));
    let mut blocks: HashMap<Track, usize> = HashMap::new();
    kernel.for_each(|it| *blocks.entry(it.track).or_default() += 1);
    assert!(blocks.values().any(|&blocks| blocks >= 40), "{blocks:?}");
    assert!(blocks.len() <= 4, "{blocks:?}");
    // No row is there twice.
    let lwps = recording.tracks().iter().filter(|it| matches!(it, Track::Lwp { .. }));
    assert!(lwps.count() <= 6, "{:?}", recording.tracks());
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
