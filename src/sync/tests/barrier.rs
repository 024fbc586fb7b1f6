use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::watched;
use crate::sync::{Barrier, WaitGroup};

#[test]
fn rounds_do_not_mix() {
    const THREADS: usize = 5;
    const ROUNDS: usize = 2_000;
    let _watched = watched();
    let barrier = Barrier::new(THREADS);
    let arrivals = AtomicUsize::new(0);
    let leaders = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for round in 0..ROUNDS {
                    arrivals.fetch_add(1, Ordering::Relaxed);
                    leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed);
                    let seen = arrivals.load(Ordering::Relaxed);
                    assert!(seen >= THREADS * (round + 1), "released too early");
                    assert!(seen < THREADS * (round + 2), "a thread is two rounds ahead");
                }
            });
        }
    });
    assert_eq!(leaders.into_inner(), ROUNDS);
}

/// Rounds of one barrier end while threads wait at another.
#[test]
fn barriers_do_not_mix() {
    let _watched = watched();
    let (slow, quick, may_end) = (Barrier::new(3), Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                slow.wait();
                assert!(may_end.load(Ordering::Relaxed), "released by another barrier");
            });
        }
        s.spawn(|| (0..500).for_each(|_| _ = quick.wait()));
        (0..500).for_each(|_| _ = quick.wait());
        may_end.store(true, Ordering::Relaxed);
        slow.wait();
    });
}

#[test]
fn none_or_one_never_waits() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        assert!(barrier.wait().is_leader());
        assert!(barrier.wait().is_leader());
        assert!(barrier.wait_timeout(Duration::ZERO).unwrap().is_leader());
    }
}

#[test]
fn a_timeout_takes_its_arrival_back() {
    let _watched = watched();
    let barrier = Barrier::new(2);
    for _ in 0..3 {
        assert!(barrier.wait_timeout(Duration::from_millis(1)).is_none());
    }
    std::thread::scope(|s| {
        let other = s.spawn(|| barrier.wait().is_leader());
        let leader = barrier.wait().is_leader();
        assert_ne!(other.join().unwrap(), leader);
    });
    assert_eq!(format!("{barrier:?}"), "Barrier { .. }");
}

/// Timeouts race with the last arrival. In every round either all are released, or the thread that gave
/// up is not counted.
#[test]
fn timeouts_and_releases_agree() {
    let _watched = watched();
    let barrier = Barrier::new(2);
    let (released, rounds) = (AtomicUsize::new(0), 2_000);
    std::thread::scope(|s| {
        s.spawn(|| {
            for round in 0..rounds {
                let timeout = Duration::from_micros(round % 60);
                while barrier.wait_timeout(timeout).is_none() {}
                released.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..rounds {
            barrier.wait();
        }
    });
    assert_eq!(released.into_inner() as u64, rounds);
}

/// A wait that no thread could end panics. Its thread has not arrived.
#[cfg(unix)]
#[test]
fn an_arrival_whose_wait_panics_is_taken_back() {
    use crate::sys::child_tests as child;
    child::isolated(concat!(module_path!(), "::an_arrival_whose_wait_panics_is_taken_back"), || {
        // From here on, a fork is noticed.
        crate::park::current::current();
        child::forked(|| {
            let barrier = Barrier::new(2);
            for _ in 0..2 {
                assert!(std::panic::catch_unwind(|| barrier.wait()).is_err());
                assert!(barrier.wait_timeout(Duration::ZERO).is_none());
            }
        });
    });
}

/// Groups end while a thread waits for another group.
#[test]
fn wait_groups_do_not_mix() {
    let _watched = watched();
    let (slow, may_end) = (WaitGroup::new(), AtomicBool::new(false));
    let member = slow.clone();
    std::thread::scope(|s| {
        s.spawn(|| {
            slow.wait();
            assert!(may_end.load(Ordering::Relaxed), "released by another group");
        });
        for _ in 0..200 {
            let quick = WaitGroup::new();
            let other = quick.clone();
            s.spawn(|| drop(other));
            quick.wait();
        }
        may_end.store(true, Ordering::Relaxed);
        drop(member);
    });
}
