//! Regions that announce blocking: who is back at once keeps the slot, and from one that lasts it goes to who waits, whatever the
//! ones before were like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::calls::{Pipe, nanosleep};
use crate::ladder::{MIGRATING, best_of, on, report, sized};

/// Somebody always waits for the only slot, while a thread announces so many regions. Gives how often the slot moved for each.
fn moves(rt: &Mxn, regions: u32, region: fn()) -> f64 {
    let over = Arc::new(AtomicBool::new(false));
    let waiter = {
        let over = Arc::clone(&over);
        rt.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        })
    };
    let before = rt.stats().compensated;
    rt.run(|| (0..regions).for_each(|_| thread::blocking(region)));
    let moved = rt.stats().compensated - before;
    over.store(true, Ordering::Relaxed);
    waiter.join().unwrap();
    moved as f64 / f64::from(regions)
}

#[test]
fn short_regions_keep_the_slot() {
    on(MIGRATING, "short regions", |rung| {
        let rt = rung.builder().concurrency(1).build().unwrap();
        // A busy machine makes some of them long.
        let what = format!("{rung:?}: times that the slot moved in a short region");
        best_of(10, &what, |&moved| moved < 0.1, || moves(&rt, 5_000, || ()));
        // The control.
        let moved = moves(&rt, 100, || nanosleep(Duration::from_micros(300)));
        report(format_args!("{rung:?}: times that it moved in a long one: {moved}"));
        assert!(moved > 0.8, "{moved}");
    });
}

/// A thread that has had many short regions blocks in one, and only one that waits for its slot can end that. Gives how long it had to wait.
fn blocks_after_all() -> Duration {
    let (pipe, blocks) = (Pipe::new(), AtomicBool::new(false));
    let (begun, returned) = (std::sync::OnceLock::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..100).for_each(|_| thread::blocking(|| ()));
            begun.get_or_init(Instant::now);
            blocks.store(true, Ordering::Release);
            thread::blocking(|| pipe.read());
            returned.store(true, Ordering::Relaxed);
        });
        while !blocks.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(!returned.load(Ordering::Relaxed), "an empty pipe was read");
        let waited = begun.get().expect("it has begun").elapsed();
        pipe.write();
        waited
    })
}

#[test]
fn who_waits_for_a_trusted_thread_soon_gets_its_slot() {
    on(MIGRATING, "a long region after short ones", |rung| {
        let rt = rung.builder().concurrency(1).build().unwrap();
        let before = rt.stats().compensated;
        let rounds = sized(200, 10_000);
        rt.run(|| {
            // The monitor's rounds in a runtime that has nothing for it to do are 10 ms apart.
            let median = || {
                let mut waits: Vec<_> = (0..rounds).map(|_| blocks_after_all()).collect();
                waits.sort_unstable();
                waits[waits.len() / 2]
            };
            let what = format!("{rung:?}: waited for the slot of a thread that was to be back soon");
            best_of(5, &what, |&waited| waited < Duration::from_millis(2), median);
        });
        assert!(rt.stats().compensated - before >= rounds, "{}", rt.stats());
    });
}
