//! A runtime that has nothing to do does nothing; one that is dropped leaves nothing. In processes of
//! their own, because what is counted is the process's.

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[path = "idle/sleepers.rs"]
mod sleepers;
#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::fs;
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};
use watchdog::Watchdog;

/// Longer than the monitor goes on looking after the last activity.
const SETTLED: Duration = Duration::from_secs(30);
/// How long nothing may happen; ten seconds with `SELVEDGE_STRESS=full`.
fn quiet() -> Duration {
    if full() { Duration::from_secs(10) } else { Duration::from_millis(1500) }
}

fn full() -> bool {
    std::env::var_os("SELVEDGE_STRESS").is_some_and(|value| value == "full")
}

/// Name and context switches of each kernel thread of this process.
fn kernel_threads() -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("a /proc") {
        let task = task.expect("a task").path();
        // A thread may end between the two reads.
        let (Ok(status), Ok(name)) =
            (fs::read_to_string(task.join("status")), fs::read_to_string(task.join("comm")))
        else {
            continue;
        };
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let count =
            switches.map(|line| line.rsplit('\t').next().expect("a count").parse::<u64>().expect("a number"));
        found.push((name.trim().to_owned(), count.sum()));
    }
    found.sort();
    found
}

/// What belongs to a runtime.
fn crew() -> Vec<(String, u64)> {
    kernel_threads().into_iter().filter(|(name, _)| name.starts_with("selvedge")).collect()
}

/// Kernel threads name themselves, so a new one may be counted late.
fn wait_for_crew(members: usize) {
    let deadline = Instant::now() + SETTLED;
    while crew().len() != members {
        assert!(Instant::now() < deadline, "not {members}: {:?}", crew());
        std::thread::yield_now();
    }
}

fn an_idle_runtime_sleeps() {
    let rt = Mxn::builder().concurrency(3).build().expect("a runtime");
    rt.run(|| {
        let sleepers: Vec<_> =
            (0..50).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(2)))).collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("a sleeper"));
    });
    // 3 LWPs, 2 spares, the monitor and the keeper of the reserve.
    wait_for_crew(7);
    // Threads that wait without a deadline do not count as something to do.
    let parked = rt.spawn(thread::park);
    let deadline = Instant::now() + SETTLED;
    loop {
        let before = crew();
        std::thread::sleep(quiet());
        let after = crew();
        if before == after {
            break;
        }
        assert!(Instant::now() < deadline, "an idle runtime goes on:\n{before:?}\n{after:?}");
    }
    // It was not dead, only asleep.
    parked.thread().unpark();
    parked.join().expect("a thread that was parked");
}

fn a_dropped_runtime_leaves_no_kernel_thread() {
    for lwps in [1, 2, 5] {
        let rt = Mxn::builder().concurrency(lwps).build().expect("a runtime");
        rt.spawn(|| ()).join().expect("a thread");
        wait_for_crew(lwps + 4);
        drop(rt);
        // The kernel takes a joined thread out of /proc a moment after it has said so.
        wait_for_crew(0);
    }
}

#[test]
fn idle() {
    let _watchdog = Watchdog::start("idle");
    child::run("idle", if full() { &[("SELVEDGE_STRESS", "full")] } else { &[] }).expect_success();
}

#[test]
fn dropped() {
    let _watchdog = Watchdog::start("dropped");
    child::run("dropped", &[]).expect_success();
}

/// Runs a role in a process of its own.
fn run(role: &str) {
    let _watchdog = Watchdog::start(role);
    child::run(role, if full() { &[("SELVEDGE_STRESS", "full")] } else { &[] }).expect_success();
}

#[test]
fn a_thread_in_read() {
    run("read");
}

#[test]
fn a_thread_in_accept() {
    run("accept");
}

#[test]
fn a_thread_in_poll() {
    run("poll");
}

#[test]
fn a_thread_in_a_region() {
    run("blocking");
}

#[test]
fn several_threads_in_regions() {
    run("several blocking");
}

#[test]
fn a_thread_at_a_lock_of_std() {
    run("std");
}

#[test]
fn threads_of_all_kinds() {
    run("all");
}

#[test]
fn runtimes_that_wait_for_their_threads() {
    run("closing");
}

#[test]
fn others_beside_a_sleeper() {
    run("others");
}

#[test]
fn a_sleeper_that_goes_on() {
    run("goes on");
}

#[test]
#[ignore = "the other side of the tests above"]
fn child() {
    child::play(&[
        ("idle", an_idle_runtime_sleeps),
        ("dropped", a_dropped_runtime_leaves_no_kernel_thread),
        ("read", sleepers::one_reads),
        ("accept", sleepers::one_accepts),
        ("poll", sleepers::one_polls),
        ("blocking", sleepers::one_blocks),
        ("several blocking", sleepers::several_block),
        ("std", sleepers::one_waits_for_std),
        ("all", sleepers::all_sleep),
        ("closing", sleepers::dropped_while_they_sleep),
        ("others", sleepers::others_go_on_beside_a_sleeper),
        ("goes on", sleepers::a_sleeper_goes_on),
    ]);
}
