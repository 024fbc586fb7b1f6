//! A fork of a process that is traced: the threads and the events are the parent's.

use std::time::Duration;

use selvedge::trace::{Level, Recording, level, set_level};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::child;

/// Forks, lets the child run `f`, and returns its exit status.
fn in_fork(f: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `f`, and ends without anything else of this process.
    match unsafe { libc::fork() } {
        0 => {
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_ok();
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!fine)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: it waits for the child, and writes its status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            status
        }
    }
}

pub(super) fn fork() {
    set_level(Level::Events);
    let rt = Mxn::new().unwrap();
    rt.run(|| (0..10).for_each(|_| thread::yield_now()));
    let named = rt.spawn_with(thread::Builder::new().name("the parent's".into()), || ()).unwrap();
    let id = named.thread().id();
    named.join().unwrap();
    let check = || {
        assert_eq!(level(), Level::Off);
        assert!(Recording::take().events().is_empty());
        assert_eq!(Recording::take().length(), Duration::ZERO);
        assert_eq!(Recording::take().name(id), None);
        set_level(Level::Events);
        let own = OneToOne::new().unwrap();
        own.run(|| thread::sleep(Duration::from_millis(1)));
        assert!(!Recording::take().events().is_empty());
    };
    assert_eq!(in_fork(check), 0, "from a kernel thread");
    assert_eq!(rt.run(|| in_fork(check)), 0, "from a green thread");
    assert_eq!(level(), Level::Events);
    assert!(!Recording::take().events().is_empty());
    assert_eq!(Recording::take().name(id), Some("the parent's"));
}

#[test]
fn a_fork_begins_without_a_trace() {
    let _watchdog = super::Watchdog::start("a_fork_begins_without_a_trace");
    child::run("fork", &[]).expect_success();
}
