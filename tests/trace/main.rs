//! The trace from outside: times, recordings and files, of both runtimes.

#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "shared; no test here changes masks")]
#[path = "../support/cpus.rs"]
mod allowed;
#[path = "../support/child.rs"]
mod child;
mod cpus;
mod files;
mod forks;
mod queues;
mod recordings;
mod rings;
mod sleeps;
mod slots;
mod switching;
mod times;
#[path = "../support/unseen.rs"]
mod unseen;
#[path = "../support/waiting.rs"]
mod waiting;
#[path = "../support/watchdog.rs"]
mod watchdog;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex as OurMutex};
use selvedge::thread::{self, Builder, JoinHandle};
use selvedge::trace::{Level, set_level};
use watchdog::Watchdog;

/// Runs `test` with this level while no other test of this program runs: there is one trace in a process.
fn traced<R>(what: &str, level: Level, test: impl FnOnce() -> R) -> R {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = Watchdog::start(what);
    set_level(level);
    let result = test();
    set_level(Level::Off);
    result
}

fn named<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(f).unwrap()
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What a thread of the tests does: it computes, yields, sleeps, parks, and waits for a lock and a condition.
fn live(shared: &(OurMutex<u32>, Condvar), rounds: u32) {
    for round in 0..rounds {
        compute(Duration::from_micros(200));
        thread::yield_now();
        thread::sleep(Duration::from_micros(300));
        thread::park_timeout(Duration::from_micros(100));
        let mut count = shared.0.lock();
        *count += 1;
        shared.1.notify_all();
        if round % 8 == 0 {
            compute(Duration::from_micros(100));
            let _ = shared.1.wait_for(&mut count, Duration::from_micros(200));
        }
    }
}

/// Runs as a child process of a test.
#[test]
#[ignore = "run as a child by other tests"]
fn child() {
    child::play(&[
        ("exit", files::exit),
        ("panic", files::panic),
        ("abort", files::abort),
        ("abort_later", files::abort_later),
        ("crash", files::crash),
        ("fork_panics", files::fork_panics),
        ("own_abort", files::own_abort),
        ("killed", files::killed),
        ("ignores", files::ignores),
        ("exit_in_vain", files::exit_in_vain),
        ("deadlock_in_vain", files::deadlock_in_vain),
        ("overflow", files::overflow),
        ("deadlock", files::deadlock),
        ("many", rings::many),
        ("grown", rings::grown),
        ("fork", forks::fork),
    ]);
}
