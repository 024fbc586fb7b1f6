//! The reentrant mutex: its owner, how often that has locked it, and what others see.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync::{LockWith, MappedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};

both! {
    the_owner_locks_again,
    others_wait_for_the_last_guard,
    the_owner_stays_the_owner_wherever_it_runs,
    all_kinds_of_threads_exclude_each_other,
    parts_are_locked_too,
    an_owner_lets_others_in_for_a_while,
    an_interrupted_owner_has_it_as_often_as_before,
    a_leaked_guard_is_inherited_by_no_thread,
}

const SHORT: Duration = Duration::from_millis(2);

type Shared = Arc<ReentrantMutex<Cell<usize>>>;

fn shared() -> Shared {
    Arc::new(ReentrantMutex::new(Cell::new(0)))
}

/// What another thread gets that tries the lock.
fn others_get_it(mutex: &Shared) -> bool {
    let mutex = Arc::clone(mutex);
    thread::spawn(move || !mutex.is_owned_by_current_thread() && mutex.try_lock().is_some()).join().unwrap()
}

fn the_owner_locks_again<L: Leg>() {
    everywhere::<L, _>(1, || {
        let mutex = ReentrantMutex::new(Cell::new(0));
        assert!(!mutex.is_owned_by_current_thread());
        let guards: Vec<ReentrantMutexGuard<'_, _>> = vec![
            mutex.lock(),
            mutex.try_lock().unwrap(),
            mutex.try_lock_for(SHORT).unwrap(),
            mutex.try_lock_until(Instant::now()).unwrap(),
            mutex.lock_with(Wait::forever().interruptible()).unwrap(),
            mutex.lock_with(Wait::timeout(SHORT).interruptible()).unwrap(),
            mutex.lock_with(Wait::until(Instant::now()).interruptible()).unwrap(),
        ];
        for guard in guards {
            assert!(mutex.is_owned_by_current_thread() && mutex.is_locked());
            guard.set(guard.get() + 1);
        }
        assert!(!mutex.is_owned_by_current_thread() && !mutex.is_locked());
        assert_eq!(mutex.into_inner().get(), 7);
    });
}

fn others_wait_for_the_last_guard<L: Leg>() {
    L::new().run(|| {
        let mutex = shared();
        for round in 0..50 {
            let (first, second) = (mutex.lock(), mutex.lock());
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || theirs.lock().get());
            thread::yield_now();
            drop(first);
            thread::yield_now();
            assert!(!others_get_it(&mutex));
            second.set(round);
            drop(second);
            assert_eq!(waiter.join().unwrap(), round);
        }
        assert!(others_get_it(&mutex));
    });
}

fn the_owner_stays_the_owner_wherever_it_runs<L: Leg>() {
    let rt = L::new();
    let threads: Vec<_> = (0..6)
        .map(|_| {
            rt.spawn(|| {
                let mutex = ReentrantMutex::new(Cell::new(0));
                for round in 0..200 {
                    let outer = mutex.lock();
                    if round % 20 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                    thread::yield_now();
                    assert!(mutex.is_owned_by_current_thread());
                    let inner = mutex.try_lock().expect("it is this thread's");
                    thread::yield_now();
                    drop(outer);
                    inner.set(inner.get() + 1);
                }
                mutex.into_inner().get()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 200);
    }
}

fn all_kinds_of_threads_exclude_each_other<L: Leg>() {
    const ROUNDS: usize = 300;
    let mutex = shared();
    let theirs = Arc::clone(&mutex);
    everywhere::<L, _>(2, move || {
        for round in 0..ROUNDS {
            let outer = theirs.lock();
            let before = outer.get();
            if round % 50 == 0 {
                thread::yield_now();
            }
            let inner = theirs.lock();
            drop(outer);
            inner.set(before + 1);
        }
    });
    assert_eq!(mutex.lock().get(), 2 * KINDS * ROUNDS);
}

fn parts_are_locked_too<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(ReentrantMutex::new((Cell::new(1), Cell::new('a'))));
        let part = ReentrantMutexGuard::map(mutex.lock(), |pair| &pair.0);
        let Err(part) = MappedReentrantMutexGuard::try_map(part, |_| None::<&u8>) else { unreachable!() };
        part.set(2);
        let theirs = Arc::clone(&mutex);
        assert!(thread::spawn(move || theirs.try_lock().is_none()).join().unwrap());
        assert_eq!(mutex.lock().0.get(), 2);
        MappedReentrantMutexGuard::unlock_fair(part);
        assert!(!mutex.is_locked());
        assert_eq!(format!("{mutex:?}"), "ReentrantMutex { data: (Cell { value: 2 }, Cell { value: 'a' }) }");
    });
}

fn an_owner_lets_others_in_for_a_while<L: Leg>() {
    L::new().run(|| {
        let mutex = shared();
        let mut guard = mutex.lock();
        ReentrantMutexGuard::unlocked(&mut guard, || assert!(others_get_it(&mutex)));
        assert!(!others_get_it(&mutex));
        for _ in 0..20 {
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || {
                let guard = theirs.lock();
                guard.set(guard.get() + 1);
            });
            let before = guard.get();
            while guard.get() == before {
                thread::yield_now();
                ReentrantMutexGuard::bump(&mut guard);
            }
            assert!(mutex.is_owned_by_current_thread());
            waiter.join().unwrap();
        }
        ReentrantMutexGuard::unlock_fair(guard);
        assert!(!mutex.is_locked());
    });
}

fn an_interrupted_owner_has_it_as_often_as_before<L: Leg>() {
    L::new().run(|| {
        let mutex = shared();
        let guard = mutex.lock();
        thread::current().interrupt();
        let wait = Wait::forever().interruptible();
        assert_eq!(mutex.lock_with(wait).unwrap_err(), WaitError::Interrupted);
        assert!(mutex.lock_with(wait).is_ok());
        assert!(!others_get_it(&mutex));
        drop(guard);
        assert!(!mutex.is_locked());
        assert!(others_get_it(&mutex));
    });
}

/// A thread ends with the lock: no other is taken for it, not even the one that gets what it has left.
fn a_leaked_guard_is_inherited_by_no_thread<L: Leg>() {
    L::new().run(|| {
        for bound in [false, true] {
            let mutex = shared();
            let theirs = Arc::clone(&mutex);
            let leaks = move || std::mem::forget(theirs.lock());
            thread::Builder::new().bound(bound).spawn(leaks).unwrap().join().unwrap();
            for bound in [false, true] {
                for _ in 0..20 {
                    let theirs = Arc::clone(&mutex);
                    let others = move || {
                        !theirs.is_owned_by_current_thread() && theirs.try_lock_for(SHORT / 8).is_none()
                    };
                    assert!(thread::Builder::new().bound(bound).spawn(others).unwrap().join().unwrap());
                }
            }
        }
    });
}
