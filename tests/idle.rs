//! A runtime that has nothing to do does nothing; one that is dropped leaves nothing. In processes of their own, because
//! what is counted is the process's.

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
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
    // 3 LWPs, 2 spares, the monitor and who keeps the reserve.
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

#[test]
#[ignore = "the other side of the tests above"]
fn child() {
    child::play(&[("idle", an_idle_runtime_sleeps), ("dropped", a_dropped_runtime_leaves_no_kernel_thread)]);
}
