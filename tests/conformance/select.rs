//! The process default, and `run`: a runtime for programs that do not choose one.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge::thread;

use crate::subprocess::{again_with, assert_passed, is_child};
use crate::watchdog::Watchdog;

/// Threads that are enough to see which model runs them.
const MANY: usize = 200;

fn kernel_threads() -> usize {
    fs::read_dir("/proc/self/task").expect("a Linux kernel").count()
}

/// Returns `true` if threads that this one spawns have kernel threads of their own.
fn has_kernel_threads() -> bool {
    let parked: Vec<_> = (0..MANY).map(|_| thread::spawn(thread::park)).collect();
    let many = kernel_threads() >= MANY;
    for handle in parked {
        handle.thread().unpark();
        handle.join().unwrap();
    }
    many
}

/// Plays `scenario` in a process for each model; it is told whether threads must be kernel threads.
fn on_each_model(scenario: fn(bool)) {
    let _watchdog = Watchdog::start("a runtime chosen by the environment");
    if is_child() {
        return scenario(std::env::var("SELVEDGE_RUNTIME").as_deref() == Ok("onetoone"));
    }
    for model in ["mxn", "onetoone"] {
        assert_passed(&again_with("SELVEDGE_RUNTIME", model));
    }
}

#[test]
fn a_foreign_thread_spawns_on_the_process_default() {
    on_each_model(|kernel| {
        assert_eq!(has_kernel_threads(), kernel);
        let scoped = thread::scope(|s| s.spawn(|| 1).join().unwrap());
        assert_eq!(scoped, 1);
    });
}

#[test]
fn run_is_on_the_model_that_was_asked_for() {
    on_each_model(|kernel| {
        let mut borrowed = 0;
        let seen = selvedge::run(|| {
            borrowed += 1;
            has_kernel_threads()
        });
        assert_eq!((seen, borrowed), (kernel, 1));
        assert_eq!(selvedge::try_run(|| 7).unwrap(), 7);
        assert_eq!(selvedge::run(|| selvedge::run(|| 8)), 8, "it nests");
    });
}

#[test]
fn run_gives_panics_on() {
    on_each_model(|_| {
        let payload =
            catch_unwind(AssertUnwindSafe(|| selvedge::run(|| std::panic::panic_any(3_u8)))).unwrap_err();
        assert!(payload.is::<u8>());
    });
}

#[test]
fn run_does_not_wait_for_threads_that_are_left_behind() {
    on_each_model(|_| {
        let left = selvedge::run(|| thread::spawn(thread::park));
        assert!(!left.is_finished());
        std::mem::forget(left);
    });
}

#[test]
fn many_threads_may_need_the_default_at_once() {
    on_each_model(|_| {
        std::thread::scope(|s| {
            for n in 0..8 {
                s.spawn(move || assert_eq!(thread::spawn(move || n).join().unwrap(), n));
            }
        });
    });
}
