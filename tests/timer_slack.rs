//! While an LWP sleeps until a deadline, the kernel is to add no slack to it. What the program sees, or has
//! set, is as before. In a process of its own, because it looks at all LWPs.
#![cfg(target_os = "linux")]

#[path = "support/watchdog.rs"]
mod watchdog;

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use selvedge::{Mxn, Runtime, thread};
use watchdog::Watchdog;

/// The slack of the calling kernel thread.
fn own_slack() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }
}

fn own_number() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::gettid() }
}

/// The slack of any kernel thread of this process. `None`: the kernel does not say.
fn slack_of(number: i32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{number}/timerslack_ns")).ok()?.trim().parse().ok()
}

/// One test at a time: both count on a quiet runtime.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn an_lwp_sleeps_without_slack_until_a_deadline() {
    let (_alone, _watchdog) = (ALONE.lock(), Watchdog::start("no slack"));
    static LWP: AtomicI32 = AtomicI32::new(0);
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let sleeper = rt.spawn(|| {
        let before = own_slack();
        LWP.store(own_number(), Ordering::Release);
        thread::park_timeout(Duration::from_secs(1000));
        (before, own_slack(), own_number())
    });
    let lwp = loop {
        match LWP.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            lwp => break lwp,
        }
    };
    if slack_of(lwp).is_none() {
        eprintln!("skipped: this kernel does not say what slack a thread has");
        sleeper.thread().unpark();
        return;
    }
    // The LWP looks for work before it sleeps.
    while slack_of(lwp) != Some(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    sleeper.thread().unpark();
    let (before, after, number) = sleeper.join().unwrap();
    assert_eq!((after, number), (before, lwp));
    assert!(before > 1, "{before} is what the kernel gives");
}

#[test]
fn a_slack_that_the_program_has_set_stays() {
    let (_alone, _watchdog) = (ALONE.lock(), Watchdog::start("a slack stays"));
    const MINE: i32 = 123_456;
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    rt.run(|| {
        let mut kept = 0;
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, MINE) }, 0);
        let lwp = own_number();
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
            if own_number() == lwp {
                assert_eq!(own_slack(), MINE);
                kept += 1;
            }
        }
        assert!(kept > 0, "it never came back to its LWP");
    });
}
