//! The kernel threads of a runtime that take the program's signals.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::Runtime;

use crate::calls::nanosleep;
use crate::ladder::{MIGRATING, ThreadRegister, builder, on};
use crate::signals::{in_a_process, lwps};

/// Returns the name of each kernel thread of a runtime, and the set of signals that it blocks.
fn blocked_by_all() -> Vec<(String, u64)> {
    let read =
        |task: &std::path::Path, file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux kernel");
    let named = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = read(&task, "comm").trim().to_owned();
        let status = read(&task, "status");
        let set = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        name.starts_with("selvedge-").then_some((name, u64::from_str_radix(set.trim(), 16).ok()?))
    });
    named.collect()
}

/// The process: signals go to the program's threads and to LWPs, including those that are made later.
pub(crate) fn helpers(rung: ThreadRegister) {
    const OF: [c_int; 4] = [libc::SIGTERM, libc::SIGPROF, libc::SIGUSR1, libc::SIGALRM];
    const USUAL: u64 = 1 << (libc::SIGUSR1 - 1);
    // LWPs block the signals that the builder of the runtime blocks.
    // SAFETY: all zeroes is a valid, empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set to change.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    // SAFETY: a set.
    assert_eq!(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) }, 0);
    let rt = builder(rung).concurrency(1).build().unwrap();
    // The reserve's thread makes LWPs for these threads.
    let over = Arc::new(AtomicBool::new(false));
    let sleepers: Vec<_> = (0..12)
        .map(|_| {
            let over = Arc::clone(&over);
            rt.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    nanosleep(Duration::from_millis(1));
                }
            })
        })
        .collect();
    while lwps().len() < 10 {
        std::thread::yield_now();
    }
    // An LWP that has just been started blocks all signals for a moment.
    let soon = Instant::now() + Duration::from_secs(10);
    loop {
        let of_helpers = |name: &str| matches!(name, "selvedge-mon" | "selvedge-rsv");
        let all = blocked_by_all();
        let helpers = all.iter().filter(|(name, _)| of_helpers(name)).count();
        let wrong: Vec<_> = all
            .iter()
            .filter(|(name, set)| {
                let all_blocked = OF.iter().all(|signal| set & 1 << (signal - 1) != 0);
                if of_helpers(name) { !all_blocked } else { *set != USUAL }
            })
            .collect();
        if helpers == 2 && wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < soon, "{helpers} helpers; wrong are {wrong:x?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Relaxed);
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
}

#[test]
fn helpers_take_no_signals_and_lwps_take_the_usual() {
    on(MIGRATING, "signals of helpers", |rung| in_a_process("helpers", rung));
}
