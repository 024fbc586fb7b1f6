use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lock_api::RawMutex as _;

use super::{until, watched};
use crate::park::table::all_waiters;
use crate::park::wait_queue;
use crate::sync::{CheckedMutex, CheckedMutexGuard, FairMutex, Mutex, MutexGuard, RawMutex};

#[test]
fn takes_four_bytes() {
    assert_eq!(size_of::<Mutex<()>>(), 4);
}

#[test]
fn keeps_threads_apart() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 10_000;
    let _watched = watched();
    let mutex = Mutex::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for _ in 0..ROUNDS {
                    *mutex.lock() += 1;
                }
            });
        }
    });
    assert!(!mutex.is_locked());
    assert_eq!(mutex.into_inner(), THREADS * ROUNDS);
}

/// Two threads go in lock step over two mutexes, so nearly every lock waits.
#[test]
fn hands_off_in_lock_step() {
    // On one CPU a turn may cost the other thread's whole slice: barging is allowed.
    const ROUNDS: usize = 300;
    let _watched = watched();
    let turn = AtomicU32::new(0);
    let mutex = Mutex::new(());
    std::thread::scope(|s| {
        for mine in 0..2 {
            let (turn, mutex) = (&turn, &mutex);
            s.spawn(move || {
                let mut done = 0;
                while done < ROUNDS {
                    let _guard = mutex.lock();
                    if turn.load(Ordering::Relaxed) == mine {
                        turn.store(1 - mine, Ordering::Relaxed);
                        done += 1;
                    }
                }
            });
        }
    });
}

#[test]
fn a_deadline_gives_up() {
    let _watched = watched();
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    std::thread::scope(|s| {
        s.spawn(|| {
            let begin = Instant::now();
            assert!(mutex.try_lock_for(Duration::from_millis(20)).is_none());
            assert!(begin.elapsed() >= Duration::from_millis(20));
            assert!(mutex.try_lock_until(Instant::now()).is_none());
            assert!(mutex.try_lock().is_none());
        });
    });
    drop(guard);
    assert!(mutex.try_lock().is_some());
    assert!(mutex.try_lock_until(Instant::now()).is_some());
    assert!(mutex.try_lock_for(Duration::MAX).is_some());
}

/// Some threads give up at any moment, and the others still get the lock: a thread that gives up passes
/// its wake-up on.
#[test]
fn deadlines_lose_no_wakeups() {
    let _watched = watched();
    let mutex = Mutex::new(0u32);
    let taken = AtomicU32::new(0);
    std::thread::scope(|s| {
        for thread in 0..3u64 {
            let (mutex, taken) = (&mutex, &taken);
            s.spawn(move || {
                for round in 0..3_000u64 {
                    let timeout = Duration::from_micros((round * 7 + thread) % 120);
                    if let Some(mut value) = mutex.try_lock_for(timeout) {
                        *value += 1;
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..3_000 {
                    *mutex.lock() += 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(mutex.into_inner(), taken.into_inner());
}

#[test]
fn may_be_unlocked_by_another_thread() {
    let _watched = watched();
    let raw = RawMutex::new();
    raw.lock();
    std::thread::scope(|s| {
        s.spawn(|| {
            // SAFETY: locked above, by a thread that will not unlock it.
            unsafe { raw.unlock() };
        });
        raw.lock();
    });
    assert!(raw.is_locked());
}

#[test]
fn a_fair_unlock_hands_over() {
    let _watched = watched();
    let mutex = Mutex::new(0);
    let waiting = AtomicBool::new(false);
    let mut guard = mutex.lock();
    std::thread::scope(|s| {
        s.spawn(|| {
            waiting.store(true, Ordering::Relaxed);
            *mutex.lock() = 1;
        });
        until(|| waiting.load(Ordering::Relaxed));
        // The waiter may not be queued yet, so it gets more than one chance. If the lock has waiters,
        // each bump lets one of them in.
        while *guard == 0 {
            MutexGuard::bump(&mut guard);
        }
    });
}

#[test]
fn a_fair_unlock_of_a_checked_mutex_hands_over() {
    let _watched = watched();
    let mutex = CheckedMutex::new(0);
    let mut guard = mutex.lock().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| *mutex.lock().unwrap() = 1);
        let mut no_waiters = true;
        while std::mem::take(&mut no_waiters) {
            std::thread::yield_now();
            wait_queue::if_empty(mutex.raw().key(), || no_waiters = true);
        }
        CheckedMutexGuard::unlock_fair(guard);
        // The waiter has had the lock by now, or has it.
        guard = mutex.lock().unwrap();
        assert_eq!(*guard, 1, "the waiter was passed over");
        drop(guard);
    });
}

/// Two threads that take the lock again at once cannot keep a third out.
#[test]
fn no_thread_starves() {
    let _watched = watched();
    let mutex = Mutex::new(());
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _guard = mutex.lock();
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(20) {}
                }
            });
        }
        for _ in 0..50 {
            drop(mutex.lock());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_panic_unlocks() {
    let mutex = Mutex::new(0);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = mutex.lock();
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    assert!(!mutex.is_locked());
}

#[test]
fn guards_can_be_mapped_and_everything_has_a_debug_form() {
    let mutex = Mutex::new((1, "two"));
    let part = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    assert_eq!(*part, "two");
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    drop(part);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: (1, \"two\") }");
    assert_eq!(format!("{:?}", RawMutex::new()), "RawMutex { locked: false, waiters: false }");
}

/// The queue is found by address. If a mutex is dropped and its address used again, it must leave nothing
/// behind.
#[test]
fn a_mutex_may_die_as_soon_as_its_last_user_is_out() {
    let _watched = watched();
    for _ in 0..500 {
        let mutex = std::sync::Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                std::thread::spawn(move || *mutex.lock() += 1)
            })
            .collect();
        drop(mutex);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_fair_mutex_is_handed_to_its_waiter() {
    let _watched = watched();
    let (fair, go) = (FairMutex::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        let guard = fair.lock();
        s.spawn(|| {
            let mut guard = fair.lock();
            *guard = 1;
            until(|| go.load(Ordering::Acquire));
        });
        // SAFETY: only a look at the raw lock.
        until(|| unsafe { fair.raw() }.0.has_waiters());
        drop(guard);
        assert!(fair.try_lock().is_none(), "it has an owner, even if that has not woken up yet");
        go.store(true, Ordering::Release);
    });
    assert_eq!(fair.into_inner(), 1);
}

#[test]
fn waiters_of_a_fair_mutex_have_it_in_the_order_of_arrival() {
    let _watched = watched();
    let fair = FairMutex::new(vec![]);
    // SAFETY: only a look at the raw lock.
    let key = unsafe { fair.raw() }.0.key();
    let queued = || all_waiters().into_iter().filter(|(_, at)| *at == key).count();
    std::thread::scope(|s| {
        let guard = fair.lock();
        for n in 0..5 {
            let fair = &fair;
            s.spawn(move || fair.lock().push(n));
            until(|| queued() > n);
        }
        drop(guard);
    });
    assert_eq!(fair.into_inner(), [0, 1, 2, 3, 4]);
}
