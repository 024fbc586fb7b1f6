//! A preempted thread gets its turns beside threads that are never preempted. Those compute for less than a
//! slice, and sleep for less than that. So some of them always wait, and dispatches are rare.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::Runtime;
use selvedge::thread::{self, Builder};

use crate::ladder::{MIGRATING, best_of, builder, on};

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
fn a_preempted_thread_is_not_forgotten_beside_bursts() {
    let millisecond = calibrated();
    on(MIGRATING, "a thread that computes beside bursts", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
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

#[test]
fn a_thread_that_yields_lets_a_preempted_one_run() {
    on(MIGRATING, "a thread that yields beside one that computes", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let (steps, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, ends) = (Arc::clone(&steps), Arc::clone(&over));
        let computes = rt.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Its own slice does not end, so only its yields let the other thread run.
        let yields = Builder::new().time_slice(Some(Duration::from_secs(100))).spawn_on(&rt, move || {
            let mut turns = 0;
            let begun = Instant::now();
            while turns < 4 && begun.elapsed() < Duration::from_secs(20) {
                let before = steps.load(Ordering::Relaxed);
                thread::yield_now();
                turns += u32::from(steps.load(Ordering::Relaxed) != before);
            }
            over.store(true, Ordering::Relaxed);
            turns
        });
        let turns = yields.unwrap().join().unwrap();
        assert!(turns >= 4, "{rung:?}: {turns} turns in 20 s");
        computes.join().unwrap();
    });
}
