//! Regions that announce blocking. A thread that is back at once keeps the slot. If a region lasts, the slot
//! goes to a waiter, whatever the earlier regions were like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::calls::{Pipe, nanosleep};
use crate::ladder::{MIGRATING, ThreadRegister, best_of, builder, on, sized};

/// Announces so many regions, while a thread always waits for the only slot. Returns how often the slot moved
/// for each.
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
        let rt = builder(rung).concurrency(1).build().unwrap();
        // A busy machine makes some of them long.
        let what = format!("{rung:?}: times that the slot moved in a short region");
        best_of(&what, |&moved| moved < 0.1, || moves(&rt, 5_000, || ()));
        // The control. A busy machine may be late to look.
        let what = format!("{rung:?}: times that it moved in a long one");
        best_of(&what, |&moved| moved > 0.8, || moves(&rt, 100, || nanosleep(Duration::from_micros(300))));
    });
}

/// A thread that has had many short regions blocks in one, and only one that waits for its slot can end
/// that. Gives how long it had to wait.
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
fn a_waiter_for_a_trusted_thread_soon_gets_its_slot() {
    on(MIGRATING, "a long region after short ones", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
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
            best_of(&what, |&waited| waited < Duration::from_millis(2), median);
        });
        // A thread that is preempted before it blocks loses that round.
        assert!(rt.stats().compensated - before >= rounds / 2, "{}", rt.stats());
    });
}

/// Two threads run at once, or the watchdog barks: both slots are there.
fn both_run(rt: &Mxn) {
    let met = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let meet = || {
        let met = Arc::clone(&met);
        rt.spawn(move || {
            met.fetch_add(1, Ordering::Relaxed);
            while met.load(Ordering::Relaxed) < 2 {
                std::hint::spin_loop();
            }
        })
    };
    for thread in [meet(), meet()] {
        thread.join().unwrap();
    }
}

/// A section without preemption ends where others may have the slot already.
#[test]
fn a_section_inside_a_region_leaves_the_slots_alone() {
    on(MIGRATING, "sections inside regions", |rung| {
        let rt = builder(rung).concurrency(2).time_slice(None).build().unwrap();
        for round in 0..200 {
            // Long ones too: others may take their slots.
            let rest = Duration::from_micros(if round % 10 == 0 { 300 } else { 0 });
            let section = move || {
                thread::blocking(|| {
                    nanosleep(rest);
                    thread::no_preempt(|| ());
                });
            };
            for thread in [rt.spawn(section), rt.spawn(section)] {
                thread.join().unwrap();
            }
            both_run(&rt);
        }
    });
}

#[test]
fn a_section_does_not_move_a_pinned_thread() {
    on(&[ThreadRegister::Pinned], "sections of pinned threads", |rung| {
        let rt = Arc::new(builder(rung).concurrency(2).build().unwrap());
        // SAFETY: no memory is involved.
        let tid = || unsafe { libc::gettid() };
        let stays = |rt: Arc<Mxn>| {
            move || {
                let home = tid();
                for _ in 0..200 {
                    // It may be this one's slot that goes.
                    rt.set_concurrency(1).unwrap();
                    std::thread::sleep(Duration::from_micros(50));
                    thread::no_preempt(|| ());
                    assert_eq!(tid(), home);
                    rt.set_concurrency(2).unwrap();
                }
            }
        };
        for thread in [rt.spawn(stays(rt.clone())), rt.spawn(stays(rt.clone()))] {
            thread.join().unwrap();
        }
    });
}
