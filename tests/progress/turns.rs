//! A thread whose slice was taken gets its turns beside threads that never have theirs taken: they compute for less than a slice and sleep for
//! less than that, so that some of them always wait, and dispatches are rare.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Runtime, thread};

use crate::ladder::{MIGRATING, best_of, on};

/// Computes for so long, by its own count, whatever else has the CPU meanwhile.
fn compute(steps: u64) {
    black_box((0..steps).fold(1_u64, |x, step| black_box(x.wrapping_mul(31) ^ step)));
}

/// How many steps take a millisecond.
fn calibrated() -> u64 {
    let took = (0..20).map(|_| {
        let start = Instant::now();
        compute(100_000);
        start.elapsed()
    });
    let fastest = took.min().expect("some").as_nanos().max(1);
    u64::try_from(100_000 * 1_000_000 / fastest).expect("a number").max(1)
}

#[test]
fn who_lost_its_slice_is_not_forgotten_beside_bursts() {
    let millisecond = calibrated();
    on(MIGRATING, "a thread that computes beside bursts", |rung| {
        let rt = rung.builder().concurrency(1).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let bursts = (0..6).map(|_| {
            let over = Arc::clone(&over);
            rt.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    compute(millisecond / 2);
                    thread::sleep(Duration::from_micros(300));
                }
            })
        });
        let bursts: Vec<_> = bursts.collect();
        let what = format!("{rung:?}: 30 ms of computing beside threads that compute 0.5 ms and sleep 0.3");
        // Forgotten, it got a slice for each 251 bursts.
        best_of(
            3,
            &what,
            |&took| took < Duration::from_secs(1),
            || {
                let start = Instant::now();
                rt.spawn(move || compute(30 * millisecond)).join().unwrap();
                start.elapsed()
            },
        );
        over.store(true, Ordering::Relaxed);
        bursts.into_iter().for_each(|burst| burst.join().unwrap());
    });
}
