//! Programs that were not written for Selvedge, in green threads (feature `interpose`). They use std's locks,
//! parking, sockets and pipes, parking_lot, processes and times. The futexes below are tested against the
//! kernel's.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "interpose/c_threads.rs"]
mod c_threads;
#[path = "interpose/cancel.rs"]
mod cancel;
#[allow(dead_code, reason = "shared")]
#[path = "support/child.rs"]
mod child;
#[path = "interpose/descriptors.rs"]
mod descriptors;
#[path = "interpose/faults.rs"]
mod faults;
#[path = "interpose/futexes.rs"]
mod futexes;
#[path = "interpose/locks.rs"]
mod locks;
#[path = "interpose/manual.rs"]
mod manual;
#[path = "interpose/masks.rs"]
mod masks;
#[allow(dead_code, reason = "shared")]
#[path = "support/random.rs"]
mod random;
#[path = "interpose/std_threads.rs"]
mod std_threads;
#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use selvedge::{Mxn, Runtime, ThreadRegister, thread};

use watchdog::Watchdog;

/// Runs `body` in a green thread, on each rung on which a green thread has a register. One runtime has as
/// many slots as there are CPUs, and one has a single slot.
fn green(what: &str, body: impl Fn(&Mxn) + Copy + Send + Sync) {
    let rungs = [ThreadRegister::Switched, ThreadRegister::Syscall];
    let all = rungs.into_iter().flat_map(|rung| [Some(1), None].map(|slots| (rung, slots)));
    for (rung, slots) in all {
        let builder = Mxn::builder().thread_register(rung);
        let builder = if let Some(slots) = slots { builder.concurrency(slots) } else { builder };
        let rt = match builder.build() {
            Ok(rt) => rt,
            Err(error) => {
                eprintln!("skipped: {rung}: {error}");
                continue;
            }
        };
        assert!(rt.info().interposed);
        let _watchdog = Watchdog::start(format!("{what}, {rung}, {slots:?}"));
        rt.run(|| body(&rt));
    }
}

/// Runs `body` in so many green threads, and returns what each returns.
fn all<T: Send + 'static>(count: usize, body: impl Fn(usize) -> T + Clone + Send + 'static) -> Vec<T> {
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let body = body.clone();
            thread::spawn(move || body(number))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
#[ignore = "called in child processes"]
fn child() {
    child::play(&[
        ("closed", faults::closed),
        ("handlers", faults::handlers),
        ("urgent", descriptors::urgent),
        ("closed_while_connecting", manual::closed_while_connecting),
        ("sends_some", manual::sends_some),
        ("forks", faults::forks),
        ("overflows", std_threads::overflows),
        ("plain_program", std_threads::plain_program),
        ("std_forks", std_threads::std_forks),
        ("few_descriptors", faults::few_descriptors),
    ]);
}
