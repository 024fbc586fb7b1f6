use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{until, watched};
use crate::park::wait::{Wait, WaitError};
use crate::sync::{Condvar, Mutex};

#[test]
fn a_notification_without_waiters() {
    let condvar = Condvar::new();
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
    assert_eq!(format!("{condvar:?}"), "Condvar { .. }");
}

#[test]
fn values_go_to_and_fro() {
    const ROUNDS: u32 = 10_000;
    let _watched = watched();
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
}

/// Waits until `n` threads wait: the mutex is free and all have been counted under it.
fn all_wait(waiting: &Mutex<usize>, n: usize) {
    until(|| *waiting.lock() == n);
}

#[test]
fn a_broadcast_wakes_each_waiter_once() {
    for locked in [false, true] {
        let _watched = watched();
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
    }
}

#[test]
fn one_notification_wakes_one() {
    let _watched = watched();
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
            until(|| woken.load(Ordering::Relaxed) == n);
        }
        assert!(!go.notify_one());
    });
}

#[test]
fn timeouts_are_told_and_the_mutex_is_locked_again() {
    let _watched = watched();
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
    assert!(!condvar.notify_one(), "after their timeout, threads do not wait any more");
    // Without waiters, another mutex may be used.
    let other = Mutex::new(());
    assert!(condvar.wait_for(&mut other.lock(), Duration::ZERO).timed_out());
}

#[test]
fn the_last_waiter_that_gives_up_frees_the_condvar_for_another_mutex() {
    let _watched = watched();
    let (one, other, condvar) = (Mutex::new(()), Mutex::new(()), Condvar::new());
    for mutex in [&one, &other] {
        assert!(condvar.wait_for(&mut mutex.lock(), Duration::from_millis(1)).timed_out());
    }
}

#[test]
fn a_condition_is_waited_for_and_asked_no_more_than_needed() {
    let _watched = watched();
    let (value, changed) = (Mutex::new(0), Condvar::new());
    let mut asked = 0;
    std::thread::scope(|s| {
        let mut guard = value.lock();
        s.spawn(|| {
            for _ in 0..3 {
                *value.lock() += 1;
                changed.notify_one();
            }
        });
        changed.wait_while(&mut guard, |value| *value < 3);
        assert_eq!(*guard, 3);
    });
    let is_asked = |value: &mut u32| {
        asked += 1;
        *value != 3
    };
    assert!(!changed.wait_while_for(&mut value.lock(), is_asked, Duration::from_secs(60)).timed_out());
    assert_eq!(asked, 1);
}

#[test]
fn the_condition_counts_even_after_the_timeout() {
    let _watched = watched();
    let (value, changed) = (Mutex::new(true), Condvar::new());
    let times_out = |mut still: u32| {
        let condition = |_: &mut bool| {
            let holds = still > 0;
            still = still.saturating_sub(1);
            holds
        };
        changed.wait_while_for(&mut value.lock(), condition, Duration::from_millis(1)).timed_out()
    };
    assert!(times_out(u32::MAX));
    assert!(!times_out(1), "it holds no more after the wait");
}

#[test]
fn interruptible_waits_tell_their_timeouts() {
    let _watched = watched();
    let (value, changed) = (Mutex::new(false), Condvar::new());
    let mut guard = value.lock();
    let ended = changed.wait_with(&mut guard, Wait::timeout(Duration::from_millis(1)).interruptible());
    assert_eq!(ended, Err(WaitError::TimedOut));
    std::thread::scope(|s| {
        s.spawn(|| {
            *value.lock() = true;
            changed.notify_one();
        });
        while !*guard {
            let ended = changed.wait_with(&mut guard, Wait::timeout(Duration::from_secs(60)).interruptible());
            assert_eq!(ended, Ok(()));
        }
    });
}

/// A broadcast moves the waiter to the locked mutex, and there its timeout passes: it has been notified.
#[test]
fn a_timeout_after_a_broadcast_is_none() {
    let _watched = watched();
    // On a slow machine, the timeout may come first.
    while !is_moved_before_its_timeout() {}
}

fn is_moved_before_its_timeout() -> bool {
    let (waiting, go) = (Mutex::new(0), Condvar::new());
    let moved = std::thread::scope(|s| {
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
        moved
    });
    assert!(waiting.try_lock_for(Duration::from_secs(10)).is_some());
    moved == 1
}

#[test]
fn two_mutexes_at_once_are_refused() {
    let _watched = watched();
    let (waiting, go) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let mut waiting = waiting.lock();
            *waiting += 1;
            go.wait(&mut waiting);
        });
        all_wait(&waiting, 1);
        let other = Mutex::new(());
        let mut guard = other.lock();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go.wait(&mut guard)));
        assert!(refused.unwrap_err().downcast_ref::<&str>().unwrap().contains("more than one mutex"));
        // The waiter needs its own mutex, and not the other one, which stays locked.
        assert_eq!(go.notify_all(), 1);
        waiter.join().unwrap();
        drop(guard);
    });
}

#[test]
fn an_interrupt_is_reported_though_the_condition_holds() {
    let (mutex, condvar, wait) = (Mutex::new(()), Condvar::new(), Wait::forever().interruptible());
    crate::thread::current().interrupt();
    let mut guard = mutex.lock();
    let waits = [(); 2].map(|()| condvar.wait_while_with(&mut guard, |()| false, wait));
    assert_eq!(waits, [Err(WaitError::Interrupted), Ok(())]);
}
