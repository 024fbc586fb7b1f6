//! If a green thread sleeps in the kernel, unannounced, it delays no other thread. Threads may be queued
//! behind it, or have deadlines that were armed on its LWP.

#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::time::Duration;

use selvedge::{Mxn, Runtime, thread};

use watchdog::Watchdog;

/// The deadline passes when all others have slept for so long that the monitor sleeps too.
#[test]
fn a_deadline_behind_a_blocked_thread_is_kept_in_a_quiet_runtime() {
    let _watchdog = Watchdog::start("a deadline behind a blocked thread");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let sleeper = rt.spawn(|| thread::sleep(Duration::from_secs(2)));
    let blocker = rt.spawn(move || unseen::read(&reader));
    // Both end only if the slot is moved to another kernel thread.
    rt.spawn(|| ()).join().unwrap();
    sleeper.join().unwrap();
    drop(writer);
    assert!(!blocker.join().unwrap(), "it was blocked until now");
}
