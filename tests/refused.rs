//! The monitor in a process that may not see its own kernel threads, has no descriptors left, or closes all
//! of them. It still finds the threads that sleep in the kernel, and does not interrupt them. And waits for
//! descriptors where the kernel or a sandbox refuses a call. The tests run in processes of their own, because
//! they change the process for good.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[allow(dead_code, reason = "shared")]
#[path = "concurrency/pipe.rs"]
mod pipe;
#[path = "concurrency/refuse.rs"]
mod refuse;
#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipe::Pipe;
use selvedge::{Mxn, Runtime, mxn};
use watchdog::Watchdog;

const POLLS: usize = 40;
/// The most polls that a signal may interrupt as they begin. On a crowded machine that moment is long,
/// because the thread may wait for a CPU.
const MAY_END: usize = POLLS / 2;

fn rungs() -> [(&'static str, mxn::Builder); 2] {
    // SAFETY: no thread here keeps anything in a thread-local.
    let pinned = unsafe { Mxn::builder().pinned() };
    [("its own register", Mxn::builder().concurrency(1)), ("pinned", pinned.concurrency(1))]
}

/// A thread sleeps in the kernel on the only slot until another thread runs. Then a thread sleeps again and
/// again while others compute.
fn sleepers_beside_others(refuse: fn()) {
    let rts =
        rungs().map(|(rung, builder)| (rung, builder.build().expect("a runtime"), Arc::new(Pipe::new())));
    refuse();
    // All pipes stay open: their descriptors must not become free.
    let pipes: Vec<_> = rts.iter().map(|(_, _, pipe)| Arc::clone(pipe)).collect();
    for (rung, rt, pipe) in rts {
        let reader = rt.spawn({
            let pipe = Arc::clone(&pipe);
            move || pipe.read()
        });
        rt.spawn(move || pipe.write(1)).join().expect("the writer");
        reader.join().expect("the reader");

        let done = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let done = Arc::clone(&done);
                rt.spawn(move || while !done.load(Ordering::Relaxed) {})
            })
            .collect();
        let interrupted = rt.spawn(|| {
            // By number, so that nothing answers the call for a green thread.
            let poll = || {
                let mut time = libc::timespec { tv_sec: 0, tv_nsec: 15_000_000 };
                // SAFETY: no descriptors, a time, and no set of signals.
                unsafe { libc::syscall(libc::SYS_ppoll, 0_usize, 0_usize, &raw mut time, 0_usize, 0_usize) }
            };
            (0..POLLS).filter(|_| poll() < 0).count()
        });
        let interrupted = interrupted.join().expect("the sleeper");
        done.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().expect("one that computes"));
        println!("{rung}: {interrupted} of {POLLS} interrupted, {}", rt.stats());
        assert!(interrupted <= MAY_END, "{rung}: {interrupted} of {POLLS} polls were interrupted");
    }
    drop(pipes);
}

/// Refuses the files of `/proc`, as a sandbox does.
fn files() {
    refuse::call(libc::SYS_openat, libc::EACCES);
    #[cfg(target_arch = "x86_64")]
    refuse::call(libc::SYS_open, libc::EACCES);
}

/// Refuses the clocks of kernel threads. (The usual clocks need no system call.)
fn clocks() {
    refuse::call(libc::SYS_clock_gettime, libc::EPERM);
}

fn use_up_descriptors() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a limit to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    // SAFETY: a number.
    while unsafe { libc::dup(2) } >= 0 {}
}

fn without_files() {
    sleepers_beside_others(files);
}

fn without_clocks() {
    sleepers_beside_others(clocks);
}

fn without_either() {
    sleepers_beside_others(|| {
        clocks();
        files();
    });
}

fn without_descriptors() {
    sleepers_beside_others(use_up_descriptors);
}

/// Descriptors that the program closes are closed, and those of the monitor are out of the program's reach.
fn descriptors() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let rt = Mxn::builder().concurrency(1).build().expect("a runtime");
    // One round, so that the monitor has started.
    sleep_beside_another(&rt);
    let monitor =
        rt.stats().helpers.iter().find(|helper| helper.name == "selvedge-mon").expect("a monitor").tid;
    /// `KCMP_FILES` of `kcmp(2)`, which compares the descriptor tables of two kernel threads.
    const FILES: libc::c_int = 2;
    let me = std::process::id();
    // SAFETY: no memory is involved.
    let same = unsafe { libc::syscall(libc::SYS_kcmp, me, monitor, FILES, 0, 0) };
    if same < 0 {
        println!("skipped: no kcmp: {}", std::io::Error::last_os_error());
    } else {
        assert_ne!(same, 0, "the monitor uses the program's descriptors");
    }
    drop(writer);
    assert_eq!(reader.read(&mut [0]).expect("an end"), 0);
    sleep_beside_another(&rt);
}

/// Threads wait for bytes, and for their deadlines, without the call that has nanoseconds. Old kernels do not
/// have it (`ENOSYS`), and old sandboxes do not know it (`EPERM`).
#[cfg(feature = "net")]
fn waits_to_the_millisecond(error: libc::c_int) {
    use selvedge::os::unix::net::UnixStream;
    use std::io::{ErrorKind, Write};
    use std::time::Duration;

    for (rung, builder) in rungs() {
        let rt = builder.build().expect("a runtime");
        refuse::call(libc::SYS_epoll_pwait2, error);
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        let reader = rt.spawn(move || {
            let mut byte = [0];
            one.set_read_timeout(Some(Duration::from_millis(3))).expect("a limit");
            let late = one.read(&mut byte).expect_err("nothing to read");
            assert_eq!(late.kind(), ErrorKind::WouldBlock);
            one.set_read_timeout(None).expect("no limit");
            selvedge::thread::scope(|s| {
                // The only slot is idle meanwhile.
                s.spawn(|| {
                    selvedge::thread::sleep(Duration::from_millis(20));
                    other.write_all(&[7]).expect("room for a byte");
                });
                one.read_exact(&mut byte).expect("a byte");
            });
            byte[0]
        });
        assert_eq!(reader.join().expect("the reader"), 7, "{rung}");
    }
}

fn sleep_beside_another(rt: &Mxn) {
    let pipe = Arc::new(Pipe::new());
    let reader = rt.spawn({
        let pipe = Arc::clone(&pipe);
        move || pipe.read()
    });
    rt.spawn(move || pipe.write(1)).join().expect("the writer");
    reader.join().expect("the reader");
}

fn run(role: &str) {
    let _watchdog = Watchdog::start(role);
    child::run(role, &[]).expect_success();
}

#[test]
fn sleepers_are_found_without_files() {
    run("files");
}

#[test]
fn sleepers_are_found_without_clocks() {
    run("clocks");
}

#[test]
fn sleepers_are_found_without_either() {
    run("either");
}

#[test]
fn sleepers_are_found_without_descriptors() {
    run("descriptors used up");
}

#[test]
fn the_monitor_has_descriptors_of_its_own() {
    run("descriptors");
}

#[test]
#[cfg(feature = "net")]
fn descriptors_are_waited_for_without_nanoseconds() {
    run("no nanoseconds");
    run("nanoseconds refused");
}

#[test]
#[ignore = "the other side of the tests above"]
fn child() {
    child::play(&[
        ("files", without_files),
        ("clocks", without_clocks),
        ("either", without_either),
        ("descriptors used up", without_descriptors),
        ("descriptors", descriptors),
        #[cfg(feature = "net")]
        ("no nanoseconds", || waits_to_the_millisecond(libc::ENOSYS)),
        #[cfg(feature = "net")]
        ("nanoseconds refused", || waits_to_the_millisecond(libc::EPERM)),
    ]);
}
