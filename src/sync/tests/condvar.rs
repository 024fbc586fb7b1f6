use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::watched;
use crate::sync::{Condvar, Mutex};

#[test]
fn nobody_to_notify() {
    let condvar = Condvar::new();
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
    assert_eq!(format!("{condvar:?}"), "Condvar { .. }");
}

#[test]
fn values_go_to_and_fro() {
    const ROUNDS: u32 = 10_000;
    watched(|| {
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|s| {
            for mine in 0..2 {
                let (turn, changed) = (&turn, &changed);
                s.spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut turn = turn.lock();
                        changed.wait_while(&mut turn, |turn| *turn % 2 != mine);
                        *turn += 1;
                        changed.notify_one();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 2 * ROUNDS);
    });
}

/// Waits until `n` threads wait, which is so when the mutex is free and all have been counted under it.
fn all_wait(waiting: &Mutex<usize>, n: usize) {
    while *waiting.lock() != n {
        std::thread::yield_now();
    }
}

#[test]
fn a_broadcast_wakes_everybody_once() {
    for locked in [false, true] {
        watched(|| {
            let (waiting, go, woken) = (Mutex::new(0), Condvar::new(), AtomicUsize::new(0));
            std::thread::scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        let mut waiting = waiting.lock();
                        *waiting += 1;
                        go.wait(&mut waiting);
                        woken.fetch_add(1, Ordering::Relaxed);
                    });
                }
                all_wait(&waiting, 20);
                let guard = locked.then(|| waiting.lock());
                assert_eq!(go.notify_all(), 20);
                assert_eq!(go.notify_all(), 0);
                drop(guard);
            });
            assert_eq!(woken.into_inner(), 20);
            assert!(!waiting.is_locked());
        });
    }
}

#[test]
fn one_notification_wakes_one() {
    watched(|| {
        let (waiting, go, woken) = (Mutex::new(0), Condvar::new(), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    let mut waiting = waiting.lock();
                    *waiting += 1;
                    go.wait(&mut waiting);
                    woken.fetch_add(1, Ordering::Relaxed);
                });
            }
            all_wait(&waiting, 5);
            for n in 1..=5 {
                assert!(go.notify_one());
                while woken.load(Ordering::Relaxed) != n {
                    std::thread::yield_now();
                }
            }
            assert!(!go.notify_one());
        });
    });
}

#[test]
fn timeouts_are_told_and_the_mutex_is_locked_again() {
    watched(|| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let mut guard = mutex.lock();
        let begin = Instant::now();
        assert!(condvar.wait_for(&mut guard, Duration::from_millis(10)).timed_out());
        assert!(begin.elapsed() >= Duration::from_millis(10));
        assert!(mutex.is_locked());
        assert!(condvar.wait_until(&mut guard, Instant::now()).timed_out());
        assert!(condvar.wait_while_for(&mut guard, |_| true, Duration::from_millis(1)).timed_out());
        assert!(!condvar.wait_while_for(&mut guard, |_| false, Duration::from_millis(1)).timed_out());
        assert!(condvar.wait_while_until(&mut guard, |_| true, Instant::now()).timed_out());
        assert!(!condvar.notify_one(), "those whose timeout passed do not wait any more");
        // Another mutex may be used now.
        let other = Mutex::new(());
        assert!(condvar.wait_for(&mut other.lock(), Duration::ZERO).timed_out());
    });
}

/// A broadcast moves the waiter to the locked mutex, and there its timeout passes: it has been notified.
#[test]
fn a_timeout_after_a_broadcast_is_none() {
    watched(|| {
        let (waiting, go) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|s| {
            let waiter = s.spawn(|| {
                let mut waiting = waiting.lock();
                *waiting += 1;
                go.wait_for(&mut waiting, Duration::from_millis(50)).timed_out()
            });
            all_wait(&waiting, 1);
            let guard = waiting.lock();
            let moved = go.notify_all();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(70) {}
            drop(guard);
            assert_eq!(waiter.join().unwrap(), moved == 0);
        });
        assert!(waiting.try_lock_for(Duration::from_secs(10)).is_some());
    });
}

#[test]
fn two_mutexes_at_once_are_refused() {
    watched(|| {
        let (waiting, go) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut waiting = waiting.lock();
                *waiting += 1;
                go.wait(&mut waiting);
            });
            all_wait(&waiting, 1);
            let other = Mutex::new(());
            let refused =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go.wait(&mut other.lock())))
                    .unwrap_err();
            assert!(refused.downcast_ref::<&str>().unwrap().contains("more than one mutex"));
            assert!(go.notify_one());
        });
    });
}
