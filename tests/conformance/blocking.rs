//! Bound threads, and calls that block in the kernel.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use selvedge::{Runtime, thread};

use crate::legs::{Leg, settle};

both! {
    a_bound_thread_is_a_thread,
    a_bound_thread_has_a_kernel_thread_of_its_own,
    bound_and_other_threads_wake_each_other,
    blocking_gives_the_value_and_panics_on,
    blocked_threads_do_not_stop_the_others,
    blocking_works_on_a_foreign_thread,
}

fn bound() -> thread::Builder {
    thread::Builder::new().bound(true)
}

fn a_bound_thread_is_a_thread<L: Leg>() {
    let rt = L::new();
    let handle =
        rt.spawn_with(bound().name("bound".into()), || thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(handle.join().unwrap().as_deref(), Some("bound"));
    let payload = rt.spawn_with(bound(), || std::panic::panic_any(1_u8)).unwrap().join().unwrap_err();
    assert!(payload.is::<u8>());
    // What it spawns belongs to its own runtime.
    let inner = rt.spawn_with(bound(), || thread::spawn(thread::park)).unwrap().join().unwrap();
    settle(&rt, 1);
    inner.thread().unpark();
    inner.join().unwrap();
}

/// The number that the kernel knows the running kernel thread by.
#[cfg(unix)]
fn kernel_number() -> String {
    std::fs::read_link("/proc/thread-self").expect("a Linux kernel").to_string_lossy().into_owned()
}

/// The number that the kernel knows the running kernel thread by.
#[cfg(windows)]
fn kernel_number() -> u32 {
    unsafe extern "system" {
        safe fn GetCurrentThreadId() -> u32;
    }
    GetCurrentThreadId()
}

fn a_bound_thread_has_a_kernel_thread_of_its_own<L: Leg>() {
    let rt = L::new();
    let numbers = rt.run(|| {
        let mine = kernel_number();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                bound().spawn(|| {
                    let before = kernel_number();
                    thread::park();
                    assert_eq!(before, kernel_number(), "a bound thread does not migrate");
                    before
                })
            })
            .collect();
        let join = |waiter: std::io::Result<thread::JoinHandle<_>>| {
            let waiter = waiter.unwrap();
            waiter.thread().unpark();
            waiter.join().unwrap()
        };
        waiters.into_iter().map(join).chain([mine]).collect::<HashSet<_>>()
    });
    assert_eq!(numbers.len(), 5, "{numbers:?}");
}

fn bound_and_other_threads_wake_each_other<L: Leg>() {
    const ROUNDS: usize = 300;
    let rt = L::new();
    rt.run(|| {
        let turn = Arc::new(AtomicUsize::new(0));
        let (theirs, me) = (Arc::clone(&turn), thread::current());
        let other = bound()
            .spawn(move || {
                for round in 0..ROUNDS {
                    while theirs.load(SeqCst) != 2 * round + 1 {
                        thread::park();
                    }
                    theirs.fetch_add(1, SeqCst);
                    me.unpark();
                }
            })
            .unwrap();
        for round in 0..ROUNDS {
            turn.fetch_add(1, SeqCst);
            other.thread().unpark();
            while turn.load(SeqCst) != 2 * round + 2 {
                thread::park();
            }
        }
        other.join().unwrap();
    });
}

fn blocking_gives_the_value_and_panics_on<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        assert_eq!(thread::blocking(|| 7), 7);
        assert_eq!(rt.blocking(|| thread::blocking(|| 8)), 8, "it nests");
        let outcome = std::panic::catch_unwind(|| thread::blocking(|| std::panic::panic_any(9_u8)));
        assert_eq!(*outcome.unwrap_err().downcast::<u8>().unwrap(), 9);
        thread::yield_now();
    });
}

fn blocked_threads_do_not_stop_the_others<L: Leg>() {
    const BLOCKED: usize = 20;
    let rt = L::new();
    let (ends, waits): (Vec<_>, Vec<_>) = (0..BLOCKED).map(|_| mpsc::channel::<()>()).unzip();
    let begun = Arc::new(AtomicUsize::new(0));
    let blocked: Vec<_> = waits
        .into_iter()
        .map(|wait| {
            let begun = Arc::clone(&begun);
            rt.spawn(move || {
                begun.fetch_add(1, SeqCst);
                thread::blocking(|| wait.recv()).unwrap();
            })
        })
        .collect();
    // On `Pinned`, one that begins later may take the LWP of a thread that waits below.
    while begun.load(SeqCst) < BLOCKED {
        std::thread::yield_now();
    }
    // More threads are in the kernel than there are CPUs; others must still run.
    assert_eq!(rt.run(|| thread::spawn(|| 7).join().unwrap()), 7);
    for end in ends {
        end.send(()).unwrap();
    }
    for handle in blocked {
        handle.join().unwrap();
    }
}

fn blocking_works_on_a_foreign_thread<L: Leg>() {
    let _rt = L::new();
    let foreign = std::thread::spawn(|| {
        thread::blocking(|| {
            std::thread::sleep(Duration::from_millis(1));
            4
        })
    });
    assert_eq!(foreign.join().unwrap(), 4);
}
