//! Calls at the wrong moment: while a runtime goes, after it, and in a forked child.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use selvedge::thread::{self, Builder};
use selvedge::{Mxn, Runtime};

use super::watchdog::Watchdog;
use super::{child, mxn, onetoone};

pub(crate) const ROLES: &[(&str, fn())] = &[("fork_without_exec", fork_without_exec)];

/// Each thread starts the next, `left` times, while the runtime is being dropped.
fn chain(left: usize, ended: Arc<AtomicUsize>) {
    if left > 0 {
        thread::yield_now();
        let theirs = ended.clone();
        // Dropping the handle detaches it: only the runtime waits for it.
        drop(thread::spawn(move || chain(left - 1, theirs)));
    }
    ended.fetch_add(1, Ordering::Relaxed);
}

fn drop_waits_for_all<R: Runtime>(runtime: R) {
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let theirs = ended.clone();
        runtime.spawn(move || chain(50, theirs));
    }
    drop(runtime);
    assert_eq!(ended.load(Ordering::Relaxed), 8 * 51);
}

#[test]
fn threads_spawned_while_the_runtime_goes_are_waited_for() {
    let _watchdog = Watchdog::start("threads_spawned_while_the_runtime_goes_are_waited_for");
    for _ in 0..20 {
        drop_waits_for_all(mxn());
        drop_waits_for_all(onetoone());
    }
}

thread_local! {
    static SPAWNS: Cell<Option<SpawnsInDrop>> = const { Cell::new(None) };
}

/// Starts a thread when its own ends.
struct SpawnsInDrop(Arc<AtomicUsize>);

impl Drop for SpawnsInDrop {
    fn drop(&mut self) {
        let (mine, theirs) = (self.0.clone(), self.0.clone());
        let spawned = Builder::new().spawn(move || {
            theirs.fetch_add(1, Ordering::Relaxed);
        });
        // Refused or run, but never lost and never hanging.
        if let Err(error) = spawned {
            assert!(!error.to_string().is_empty());
            mine.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn spawn_from_destructors<R: Runtime>(runtime: R) {
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..16 {
        let theirs = ended.clone();
        runtime.spawn(move || SPAWNS.set(Some(SpawnsInDrop(theirs))));
    }
    drop(runtime);
    assert_eq!(ended.load(Ordering::Relaxed), 16);
}

#[test]
fn destructors_of_the_last_threads_may_spawn() {
    let _watchdog = Watchdog::start("destructors_of_the_last_threads_may_spawn");
    spawn_from_destructors(mxn());
    spawn_from_destructors(onetoone());
}

fn dropped_by_its_own_thread<R: Runtime + Send + 'static>(runtime: R) {
    let (told, heard) = channel();
    let runtime = Arc::new(runtime);
    let theirs = runtime.clone();
    let (go, gone) = channel();
    let handle = runtime.spawn(move || {
        gone.recv().expect("the other owner says when it has let go");
        drop(theirs);
        // The runtime's value is gone; its threads go on, and may still spawn.
        told.send(thread::spawn(|| 5).join().expect("a thread of a runtime that goes")).expect("a listener");
    });
    drop(runtime);
    go.send(()).expect("a listener");
    assert_eq!(heard.recv(), Ok(5));
    handle.join().expect("the thread");
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_thread() {
    let _watchdog = Watchdog::start("a_runtime_may_be_dropped_by_its_own_thread");
    for _ in 0..20 {
        dropped_by_its_own_thread(mxn());
        dropped_by_its_own_thread(onetoone());
    }
}

#[test]
fn handles_outlive_their_runtime() {
    let _watchdog = Watchdog::start("handles_outlive_their_runtime");
    let (runtime, other) = (mxn(), onetoone());
    let (a, b) = (runtime.spawn(|| String::from("mxn")), other.spawn(|| String::from("onetoone")));
    drop((runtime, other));
    assert!(a.is_finished() && b.is_finished());
    a.thread().unpark();
    assert_eq!(
        (a.join().expect("its value"), b.join().expect("its value")),
        ("mxn".into(), "onetoone".into())
    );
}

/// In a child that does not exec, a runtime has lost its LWPs: its calls fail, and never wait for them.
fn fork_without_exec() {
    let runtime: Mxn = mxn();
    assert_eq!(runtime.spawn(|| 1).join().expect("a thread"), 1);
    // SAFETY: the child only makes calls that are under test, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: no preconditions. Ends the child if it hangs.
        unsafe { libc::alarm(20) };
        let refused = runtime.spawn_with(Builder::new(), || ()).is_err();
        // A kernel thread of the child is fine: it has one to start it.
        let kernel = std::thread::spawn(|| 4).join().is_ok_and(|n| n == 4);
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(!refused) | i32::from(!kernel) << 1) };
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(!libc::WIFSIGNALED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status) & 1, 0, "a green thread was started, which nobody will run");
    assert_eq!(libc::WEXITSTATUS(status) & 2, 0, "no kernel thread could be started");
    // The parent has noticed nothing.
    assert_eq!(runtime.spawn(|| 2).join().expect("a thread"), 2);
}

#[test]
fn a_forked_child_gets_errors() {
    child::run("fork_without_exec", &[]).expect_success();
}
