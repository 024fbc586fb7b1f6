//! The robust mutex: owners that panic and owners that end, of every kind, and what their heirs find.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::sync::{
    Acquired, Condition, RawRobust, RawRobustMutex, RobustError, RobustMutex, RobustMutexGuard, UnlockError,
};
use selvedge::{OneToOne, Runtime, Wait, thread};

use crate::legs::{Leg, passed_on};
use crate::mixed::{KINDS, everywhere};

mod ends;

both! {
    a_panic_is_news,
    a_panic_before_the_lock_is_none,
    an_end_is_news_whatever_thread_it_was,
    a_thread_that_waits_already_is_told,
    one_of_many_inherits,
    what_is_not_mended_is_lost_for_all,
    an_heir_may_die_too,
    the_living_keep_their_locks,
    many_locks_of_one_thread,
    the_owner_is_refused,
    a_storm_of_deaths_loses_nothing,
}

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1000);

/// Runs `f` on a new thread of each kind, one after the other.
fn on_each_kind<L: Leg>(f: impl Fn() + Clone + Send + 'static) {
    let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
    rt.spawn(f.clone()).join().unwrap();
    rt.spawn_with(thread::Builder::new().bound(true), f.clone()).unwrap().join().unwrap();
    kernel.spawn(f.clone()).join().unwrap();
    std::thread::spawn(f).join().unwrap();
}

/// The guard, after only its owners have looked at the value.
fn adopt<'a, T>(acquired: Acquired<'a, RawRobustMutex, T>) -> RobustMutexGuard<'a, T> {
    match acquired {
        // SAFETY: in these tests guards are forgotten, not leaked.
        Acquired::OwnerDied(orphan) => unsafe { orphan.adopt() },
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        RobustError::NotRecoverable.to_string(),
        "an owner of the lock died, and what it left has not been mended"
    );
    assert_eq!(RobustError::TimedOut.to_string(), "the wait timed out");
    assert_eq!(RobustError::Interrupted.to_string(), "the wait was interrupted");
    let mutex = RobustMutex::new(1);
    assert_eq!(format!("{mutex:?}"), "Lock { locked: false, not_recoverable: false, .. }");
    assert_eq!(format!("{:?}", mutex.lock()), "Ok(Acquired(Consistent))");
}

fn a_panic_is_news<L: Leg>() {
    let mutex = Arc::new(RobustMutex::new(0));
    let theirs = Arc::clone(&mutex);
    on_each_kind::<L>(move || {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *theirs.lock().unwrap().unwrap() += 1;
            let _guard = theirs.lock().unwrap().unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let Acquired::OwnerPanicked(mut guard) = theirs.lock().unwrap() else { panic!("no news") };
        assert!(guard.mark_consistent());
        assert!(!guard.mark_consistent());
        drop(guard);
        assert!(matches!(theirs.lock(), Ok(Acquired::Consistent(_))));
    });
    assert_eq!(*mutex.lock().unwrap().unwrap(), 4);
}

/// A destructor that locks while its thread unwinds, and unlocks, has left well.
fn a_panic_before_the_lock_is_none<L: Leg>() {
    struct Locks<'a>(&'a RobustMutex<u32>);

    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap().unwrap() += 1;
        }
    }

    L::new().run(|| {
        let mutex = RobustMutex::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _locks = Locks(&mutex);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock().unwrap().unwrap(), 1);
    });
}

fn an_end_is_news_whatever_thread_it_was<L: Leg>() {
    let mutex = Arc::new(RobustMutex::new(0));
    let theirs = Arc::clone(&mutex);
    let heirs = Arc::clone(&mutex);
    on_each_kind::<L>(move || {
        let mut guard = match theirs.lock().unwrap() {
            Acquired::Consistent(guard) => guard,
            orphan => adopt(orphan),
        };
        *guard += 1;
        let _ = guard.mark_consistent();
        std::mem::forget(guard);
    });
    assert!(heirs.is_locked());
    // Of every form, and in every kind of thread.
    let mut guard = adopt(heirs.try_lock().unwrap().unwrap());
    assert_eq!(*guard, 4);
    assert!(guard.mark_consistent());
    drop(guard);
    on_each_kind::<L>(move || {
        let theirs = Arc::clone(&heirs);
        thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        assert!(adopt(heirs.lock_with(Wait::timeout(LONG).interruptible()).unwrap()).mark_consistent());
        let theirs = Arc::clone(&heirs);
        std::thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        assert!(adopt(heirs.try_lock_until(Instant::now() + LONG).unwrap().unwrap()).mark_consistent());
    });
}

/// One of each kind waits; each that gets it ends with it, so that the next one must be told.
fn a_thread_that_waits_already_is_told<L: Leg>() {
    let lock = Arc::new(RawRobustMutex::new());
    assert_eq!(lock.lock(), Ok(Condition::Consistent));
    let theirs = Arc::clone(&lock);
    let counts = Arc::new(AtomicUsize::new(0));
    let waiting = Arc::clone(&counts);
    let all = std::thread::spawn(passed_on(move || {
        everywhere::<L, _>(2, move || {
            waiting.fetch_add(1, SeqCst);
            theirs.lock().unwrap()
        })
    }));
    while counts.load(SeqCst) < 2 * KINDS {
        std::thread::yield_now();
    }
    std::thread::sleep(SHORT);
    lock.unlock().unwrap();
    let found = all.join().unwrap();
    assert_eq!(found.iter().filter(|&&found| found == Condition::Consistent).count(), 1, "{found:?}");
    assert_eq!(lock.lock(), Ok(Condition::OwnerDied));
    assert!(lock.mark_consistent());
    assert_eq!(lock.unlock(), Ok(()));
}

fn one_of_many_inherits<L: Leg>() {
    L::new().run(|| {
        for round in 0..20 {
            let lock = Arc::new(RawRobustMutex::new());
            let theirs = Arc::clone(&lock);
            let owner = thread::Builder::new()
                .bound(round % 2 == 0)
                .spawn(move || {
                    assert_eq!(theirs.lock(), Ok(Condition::Consistent));
                    thread::park();
                })
                .unwrap();
            while !lock.is_locked() {
                thread::yield_now();
            }
            let heirs: Vec<_> = (0..5)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || {
                        let found = lock.lock().unwrap();
                        let _ = lock.mark_consistent();
                        lock.unlock().unwrap();
                        found
                    })
                })
                .collect();
            thread::yield_now();
            owner.thread().unpark();
            let found: Vec<_> = heirs.into_iter().map(|heir| heir.join().unwrap()).collect();
            assert_eq!(found.iter().filter(|&&found| found == Condition::OwnerDied).count(), 1, "{found:?}");
            owner.join().unwrap();
        }
    });
}

fn what_is_not_mended_is_lost_for_all<L: Leg>() {
    let mutex = Arc::new(RobustMutex::new(0));
    let theirs = Arc::clone(&mutex);
    std::thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
    let orphan = mutex.lock().unwrap();
    assert_eq!(orphan.condition(), Condition::OwnerDied);
    let theirs = Arc::clone(&mutex);
    let counts = Arc::new(AtomicUsize::new(0));
    let waiting = Arc::clone(&counts);
    let all = std::thread::spawn(passed_on(move || {
        everywhere::<L, _>(2, move || {
            waiting.fetch_add(1, SeqCst);
            theirs.lock().unwrap_err()
        })
    }));
    while counts.load(SeqCst) < 2 * KINDS {
        std::thread::yield_now();
    }
    drop(orphan);
    assert_eq!(all.join().unwrap(), [RobustError::NotRecoverable; 2 * KINDS]);
    assert!(mutex.is_not_recoverable() && !mutex.is_locked());
    assert_eq!(mutex.try_lock().unwrap_err(), RobustError::NotRecoverable);
    assert_eq!(mutex.try_lock_for(SHORT).unwrap_err(), RobustError::NotRecoverable);
    let mutex = Arc::into_inner(mutex).unwrap();
    assert_eq!(RobustMutex::new(mutex.into_inner()).lock().unwrap().condition(), Condition::Consistent);
}

fn an_heir_may_die_too<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(RobustMutex::new(()));
        let theirs = Arc::clone(&mutex);
        thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        // By a panic: what was left is still to be mended.
        let theirs = Arc::clone(&mutex);
        let panics = thread::spawn(move || {
            let _orphan = theirs.lock().unwrap();
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        assert_eq!(mutex.lock().unwrap_or_else(|error| panic!("{error}")).condition(), Condition::OwnerDied);
        // (That one was dropped.)
        assert!(mutex.is_not_recoverable());
        // By its end.
        let mutex = Arc::new(RobustMutex::new(()));
        for _ in 0..3 {
            let theirs = Arc::clone(&mutex);
            thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        }
        assert!(adopt(mutex.lock().unwrap()).mark_consistent());
        // First by a panic, then by its end.
        let theirs = Arc::clone(&mutex);
        assert!(
            catch_unwind(AssertUnwindSafe(|| {
                let _guard = theirs.lock();
                panic!("on purpose");
            }))
            .is_err()
        );
        let theirs = Arc::clone(&mutex);
        thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        assert_eq!(mutex.lock().unwrap().condition(), Condition::OwnerDied);
    });
}

/// Threads end with other locks held. The owner of one, and a waiter for a living thread's, notice nothing.
fn the_living_keep_their_locks<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(RobustMutex::new(0));
        let guard = mutex.lock().unwrap().unwrap();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let theirs = Arc::clone(&mutex);
                thread::spawn(move || *theirs.lock().unwrap().unwrap() += 1)
            })
            .collect();
        for _ in 0..20 {
            let other = Arc::new(RawRobustMutex::new());
            let theirs = Arc::clone(&other);
            thread::spawn(move || _ = theirs.lock().unwrap()).join().unwrap();
            thread::yield_now();
            assert_eq!(other.lock(), Ok(Condition::OwnerDied));
            other.unlock().unwrap();
        }
        assert_eq!(*guard, 0);
        drop(guard);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(*mutex.lock().unwrap().unwrap(), 4);
    });
}

fn many_locks_of_one_thread<L: Leg>() {
    L::new().run(|| {
        let locks: Arc<[RawRobustMutex]> = (0..100).map(|_| RawRobustMutex::new()).collect();
        let theirs = Arc::clone(&locks);
        thread::spawn(move || {
            for lock in theirs.iter() {
                assert_eq!(lock.lock(), Ok(Condition::Consistent));
            }
            for lock in theirs.iter().step_by(2) {
                lock.unlock().unwrap();
            }
        })
        .join()
        .unwrap();
        for (n, lock) in locks.iter().enumerate() {
            let expected = if n % 2 == 0 { Condition::Consistent } else { Condition::OwnerDied };
            assert_eq!(lock.lock(), Ok(expected));
            assert_eq!(lock.mark_consistent(), n % 2 == 1);
            lock.unlock().unwrap();
        }
    });
}

fn the_owner_is_refused<L: Leg>() {
    let lock = Arc::new(RawRobustMutex::new());
    assert_eq!(lock.unlock(), Err(UnlockError::NotLocked));
    assert!(!lock.mark_consistent());
    let theirs = Arc::clone(&lock);
    on_each_kind::<L>(move || {
        let _ = theirs.lock().unwrap();
        let again = [
            theirs.lock().map(Some),
            theirs.try_lock(),
            theirs.try_lock_for(LONG),
            theirs.try_lock_until(Instant::now() + LONG),
            theirs.lock_with(Wait::forever().interruptible()).map(Some),
            theirs.lock_with(Wait::timeout(LONG).interruptible()).map(Some),
            theirs.lock_with(Wait::until(Instant::now() + LONG).interruptible()).map(Some),
        ];
        assert_eq!(again, [Err(RobustError::Deadlock); 7]);
        let others = Arc::clone(&theirs);
        let others = thread::spawn(move || {
            assert!(!others.mark_consistent() && !others.is_owned_by_current_thread());
            assert_eq!(others.try_lock(), Ok(None));
            others.unlock()
        });
        assert_eq!(others.join().unwrap(), Err(UnlockError::NotOwner));
        assert_eq!(theirs.unlock(), Ok(()));
    });
}

fn a_storm_of_deaths_loses_nothing<L: Leg>() {
    let lock = Arc::new(RawRobustMutex::new());
    let (entered, inherited) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let died = Arc::new(AtomicUsize::new(0));
    let rt = L::new();
    for wave in 0..8 {
        let threads: Vec<_> = (0..12)
            .map(|n| {
                let (lock, entered) = (Arc::clone(&lock), Arc::clone(&entered));
                let (inherited, died) = (Arc::clone(&inherited), Arc::clone(&died));
                let run = move || {
                    for round in 0..20 {
                        if lock.lock().unwrap() == Condition::OwnerDied {
                            inherited.fetch_add(1, SeqCst);
                            assert!(lock.mark_consistent());
                        }
                        entered.fetch_add(1, SeqCst);
                        if (wave + n) % 4 == 0 && round == n {
                            died.fetch_add(1, SeqCst);
                            return;
                        }
                        if round % 7 == 0 {
                            thread::yield_now();
                        }
                        lock.unlock().unwrap();
                    }
                };
                rt.spawn_with(thread::Builder::new().bound(n % 3 == 0), run).unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
    let last = usize::from(lock.lock().unwrap() == Condition::OwnerDied);
    assert_eq!(inherited.load(SeqCst) + last, died.load(SeqCst));
    assert_eq!(died.load(SeqCst), 24);
}
