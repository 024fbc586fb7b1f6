//! The locks with std's signatures: the same program is compiled against `std::sync` and against
//! `selvedge::sync::poison`, and does the same; and what these can do besides.

use std::time::{Duration, Instant};

use selvedge::sync::poison::{Condvar, Mutex, PoisonError, RwLock, TryLockError};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;

both! {
    a_panic_poisons,
    a_panic_before_the_lock_does_not,
    waiters_get_the_news,
    a_condition_is_waited_for,
    deadlines_pass,
    interrupts_end_waits,
    readers_and_writers_wait_as_mutexes_do,
}

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1000);

/// A program that uses std's locks, on std's threads. What std documents, and nothing else.
macro_rules! program {
    ($name:ident, $($sync:tt)*) => {
        mod $name {
            use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
            use std::sync::mpsc::channel;
            use std::time::Duration;

            use $($sync)*::{
                Arc, Barrier, BarrierWaitResult, Condvar, LazyLock, LockResult, Mutex, MutexGuard, Once, OnceLock, OnceState,
                PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult, WaitTimeoutResult, Weak,
                atomic,
            };

            static COUNT: Mutex<u32> = Mutex::new(0);
            static CHANGED: Condvar = Condvar::new();

            fn poisoned<T>(mutex: &Mutex<T>) {
                let panicked = catch_unwind(|| {
                    let _guard = mutex.lock();
                    panic!("on purpose");
                });
                assert!(panicked.is_err());
            }

            #[test]
            fn values_are_reached() {
                let mut mutex = Mutex::from(vec![1]);
                mutex.lock().unwrap().push(2);
                mutex.get_mut().unwrap().push(3);
                {
                    let guard: MutexGuard<'_, Vec<i32>> = mutex.lock().unwrap();
                    assert_eq!(format!("{guard:?}"), "[1, 2, 3]");
                    assert!(format!("{mutex:?}").contains("<locked>"));
                    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
                }
                assert_eq!(format!("{mutex:?}"), "Mutex { data: [1, 2, 3], poisoned: false, .. }");
                assert_eq!(mutex.into_inner().unwrap(), [1, 2, 3]);
                assert_eq!(*Mutex::<u8>::default().lock().unwrap(), 0);
                let unsized_: Box<Mutex<[u8]>> = Box::new(Mutex::new([1, 2]));
                unsized_.lock().unwrap()[0] = 7;
                assert_eq!(unsized_.lock().unwrap().iter().sum::<u8>(), 9);
                let shown = Mutex::new(5);
                assert_eq!(shown.lock().unwrap().to_string(), "5");
            }

            #[test]
            fn a_panic_is_told_to_all() {
                let mut mutex = Mutex::new(1);
                assert!(!mutex.is_poisoned());
                poisoned(&mutex);
                assert!(mutex.is_poisoned());
                let locked: LockResult<MutexGuard<'_, i32>> = mutex.lock();
                let error: PoisonError<_> = locked.unwrap_err();
                assert_eq!(**error.get_ref(), 1);
                let mut guard = error.into_inner();
                *guard = 2;
                drop(guard);
                let tried: TryLockResult<MutexGuard<'_, i32>> = mutex.try_lock();
                assert!(matches!(tried, Err(TryLockError::Poisoned(_))));
                drop(tried);
                assert_eq!(format!("{mutex:?}"), "Mutex { data: 2, poisoned: true, .. }");
                assert!(mutex.get_mut().is_err());
                mutex.clear_poison();
                assert!(!mutex.is_poisoned());
                assert_eq!(*mutex.lock().unwrap(), 2);
                poisoned(&mutex);
                assert_eq!(mutex.into_inner().unwrap_err().into_inner(), 2);
            }

            #[test]
            fn threads_take_turns() {
                std::thread::scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|| {
                            for _ in 0..500 {
                                *COUNT.lock().unwrap() += 1;
                            }
                            CHANGED.notify_all();
                        });
                    }
                    let count = CHANGED.wait_while(COUNT.lock().unwrap(), |count| *count != 2000).unwrap();
                    assert_eq!(*count, 2000);
                });
            }

            #[test]
            fn a_condition_is_told() {
                let pair = Arc::new((Mutex::new(false), Condvar::new()));
                let theirs = Arc::clone(&pair);
                let (asked, answer) = channel();
                let waiter = std::thread::spawn(move || {
                    let mut ready = theirs.0.lock().unwrap();
                    asked.send(()).unwrap();
                    while !*ready {
                        ready = theirs.1.wait(ready).unwrap();
                    }
                });
                answer.recv().unwrap();
                *pair.0.lock().unwrap() = true;
                pair.1.notify_one();
                waiter.join().unwrap();
                assert_eq!(format!("{:?}", pair.1), "Condvar { .. }");
            }

            #[test]
            #[allow(deprecated, reason = "std has it")]
            fn waits_end_in_time() {
                let (mutex, condvar) = (Mutex::new(0), Condvar::default());
                let short = Duration::from_millis(1);
                let (guard, result): (_, WaitTimeoutResult) =
                    condvar.wait_timeout(mutex.lock().unwrap(), short).unwrap();
                let (guard, _) = condvar.wait_timeout_ms(guard, 1).unwrap();
                let mut looks = 0;
                let condition = |n: &mut i32| {
                    looks += 1;
                    *n == 0
                };
                let (guard, late) = condvar.wait_timeout_while(guard, short, condition).unwrap();
                assert!(late.timed_out() && looks >= 2);
                let (guard, early) = condvar.wait_timeout_while(guard, short, |n| *n != 0).unwrap();
                assert!(!early.timed_out());
                drop(guard);
                // (A wait may end early for no reason.)
                let _ = result.timed_out();
            }

            #[test]
            fn a_wait_tells_of_poison() {
                let pair = Arc::new((Mutex::new(0), Condvar::new()));
                let theirs = Arc::clone(&pair);
                let (asked, answer) = channel();
                let waiter = std::thread::spawn(move || {
                    let guard = theirs.0.lock().unwrap();
                    asked.send(()).unwrap();
                    let waited = theirs.1.wait_while(guard, |n| *n == 0);
                    waited.is_err_and(|poisoned| *poisoned.into_inner() == 0)
                });
                answer.recv().unwrap();
                poisoned(&pair.0);
                pair.1.notify_all();
                assert!(waiter.join().unwrap());
                let waited = pair.1.wait_timeout(pair.0.lock().unwrap_or_else(PoisonError::into_inner), Duration::ZERO);
                assert!(waited.is_err_and(|poisoned| poisoned.into_inner().1.timed_out()));
            }

            static LIST: RwLock<Vec<u32>> = RwLock::new(Vec::new());

            #[test]
            fn readers_and_writers_take_turns() {
                std::thread::scope(|s| {
                    for n in 0..4 {
                        s.spawn(move || LIST.write().unwrap().push(n));
                        s.spawn(|| assert!(LIST.read().unwrap().len() <= 4));
                    }
                });
                assert_eq!(LIST.read().unwrap().iter().sum::<u32>(), 6);
                let mut lock = RwLock::from(5);
                {
                    let reader: RwLockReadGuard<'_, i32> = lock.read().unwrap();
                    assert_eq!((*reader, reader.to_string()), (5, "5".to_string()));
                    assert!(lock.try_read().is_ok());
                    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
                }
                {
                    let mut writer: RwLockWriteGuard<'_, i32> = lock.write().unwrap();
                    *writer += 1;
                    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
                    assert!(format!("{lock:?}").contains("<locked>"));
                    let reader = RwLockWriteGuard::downgrade(writer);
                    assert_eq!((*reader, format!("{reader:?}")), (6, "6".to_string()));
                    assert!(lock.try_read().is_ok() && lock.try_write().is_err());
                }
                *lock.get_mut().unwrap() += 1;
                assert_eq!(format!("{lock:?}"), "RwLock { data: 7, poisoned: false, .. }");
                assert_eq!(lock.into_inner().unwrap(), 7);
                assert_eq!(*RwLock::<u8>::default().read().unwrap(), 0);
            }

            #[test]
            fn only_writers_poison() {
                let mut lock = RwLock::new(1);
                let reader_panics = catch_unwind(|| {
                    let _guard = lock.read();
                    panic!("on purpose");
                });
                assert!(reader_panics.is_err() && !lock.is_poisoned());
                let writer_panics = catch_unwind(|| {
                    let _guard = lock.write();
                    panic!("on purpose");
                });
                assert!(writer_panics.is_err() && lock.is_poisoned());
                assert_eq!(**lock.read().unwrap_err().get_ref(), 1);
                assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
                assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
                *lock.write().unwrap_err().into_inner() = 2;
                assert!(lock.get_mut().is_err());
                lock.clear_poison();
                assert_eq!(*lock.read().unwrap(), 2);
                // One that has become a reader.
                let reader_panics = catch_unwind(|| {
                    let _guard = RwLockWriteGuard::downgrade(lock.write().unwrap());
                    panic!("on purpose");
                });
                assert!(reader_panics.is_err() && !lock.is_poisoned());
                // One that becomes a reader while a panic unwinds.
                struct Downgrades<'a>(Option<RwLockWriteGuard<'a, i32>>);
                impl Drop for Downgrades<'_> {
                    fn drop(&mut self) {
                        drop(self.0.take().map(RwLockWriteGuard::downgrade));
                    }
                }
                let unwinds = catch_unwind(|| {
                    let _guard = Downgrades(Some(lock.write().unwrap()));
                    panic!("on purpose");
                });
                assert!(unwinds.is_err() && !lock.is_poisoned());
            }

            #[test]
            fn what_is_made_once_is_here_too() {
                static ONCE: Once = Once::new();
                static LAZY: LazyLock<u32> = LazyLock::new(|| 7);
                let cell: OnceLock<u32> = OnceLock::new();
                ONCE.call_once_force(|state: &OnceState| assert!(!state.is_poisoned()));
                assert!(ONCE.is_completed());
                assert_eq!((*cell.get_or_init(|| 6), *LAZY), (6, 7));
                let barrier = Arc::new(Barrier::new(1));
                let weak: Weak<Barrier> = Arc::downgrade(&barrier);
                let result: BarrierWaitResult = weak.upgrade().unwrap().wait();
                assert!(result.is_leader() && !atomic::AtomicBool::new(false).into_inner());
            }

            #[test]
            fn panics_may_pass() {
                fn safe<T: UnwindSafe + RefUnwindSafe + Send + Sync>() {}
                safe::<Mutex<std::cell::Cell<u8>>>();
                fn to_threads<T: UnwindSafe + RefUnwindSafe + Send>() {}
                to_threads::<RwLock<std::cell::Cell<u8>>>();
                safe::<Condvar>();
                fn shared<T: Sync>() {}
                shared::<MutexGuard<'_, u32>>();
                shared::<RwLock<u32>>();
                shared::<(RwLockReadGuard<'_, u32>, RwLockWriteGuard<'_, u32>)>();
                let mutex = Mutex::new(Vec::<u8>::new());
                assert!(catch_unwind(AssertUnwindSafe(|| mutex.lock().unwrap()[0])).is_err());
                assert!(mutex.is_poisoned());
            }
        }
    };
}

program!(std_itself, std::sync);
program!(ours, selvedge::sync::poison);

fn a_panic_poisons<L: Leg>() {
    L::new().run(|| {
        let mutex = std::sync::Arc::new(Mutex::new(0));
        for bound in [false, true] {
            let theirs = std::sync::Arc::clone(&mutex);
            let panics = move || {
                let mut guard = theirs.lock().unwrap();
                *guard += 1;
                thread::yield_now();
                panic!("on purpose");
            };
            assert!(thread::Builder::new().bound(bound).spawn(panics).unwrap().join().is_err());
            assert!(mutex.is_poisoned());
            assert!(matches!(mutex.try_lock_for(SHORT), Err(TryLockError::Poisoned(_))));
            assert!(mutex.lock_with(Wait::forever().interruptible()).unwrap().is_err());
            mutex.clear_poison();
        }
        // Another thread's panic is none of this one's.
        let guard = mutex.lock().unwrap();
        assert!(thread::spawn(|| panic!("on purpose")).join().is_err());
        assert_eq!(*guard, 2);
        drop(guard);
        assert!(!mutex.is_poisoned());
    });
}

fn a_panic_before_the_lock_does_not<L: Leg>() {
    struct Locks(std::sync::Arc<Mutex<u32>>);

    impl Drop for Locks {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }

    L::new().run(|| {
        let mutex = std::sync::Arc::new(Mutex::new(0));
        let locks = Locks(std::sync::Arc::clone(&mutex));
        let panics = thread::spawn(move || {
            let _locks = locks;
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        assert_eq!(*mutex.lock().unwrap(), 1);
        // A leaked guard keeps it locked, and says nothing.
        let theirs = std::sync::Arc::clone(&mutex);
        thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        assert!(!mutex.is_poisoned());
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    });
}

fn waiters_get_the_news<L: Leg>() {
    L::new().run(|| {
        let mutex = std::sync::Arc::new(Mutex::new(0));
        let theirs = std::sync::Arc::clone(&mutex);
        let panics = thread::spawn(move || {
            let _guard = theirs.lock().unwrap();
            thread::park();
            panic!("on purpose");
        });
        while mutex.try_lock().is_ok() {
            thread::yield_now();
        }
        let waiters: Vec<_> = (0..5)
            .map(|_| {
                let theirs = std::sync::Arc::clone(&mutex);
                thread::spawn(move || theirs.lock().map(drop).is_err())
            })
            .collect();
        thread::yield_now();
        panics.thread().unpark();
        assert!(panics.join().is_err());
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
        assert_eq!(*mutex.lock().unwrap_or_else(PoisonError::into_inner), 0);
    });
}

fn a_condition_is_waited_for<L: Leg>() {
    const ROUNDS: u32 = 200;
    L::new().run(|| {
        let pair = std::sync::Arc::new((Mutex::new(0_u32), Condvar::new()));
        let players: Vec<_> = (0..2)
            .map(|mine| {
                let pair = std::sync::Arc::clone(&pair);
                thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut turn =
                            pair.1.wait_while(pair.0.lock().unwrap(), |turn| *turn % 2 != mine).unwrap();
                        *turn += 1;
                        pair.1.notify_one();
                    }
                })
            })
            .collect();
        for player in players {
            player.join().unwrap();
        }
        assert_eq!(*pair.0.lock().unwrap(), 2 * ROUNDS);
    });
}

fn deadlines_pass<L: Leg>() {
    L::new().run(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let guard = mutex.lock().unwrap();
        let (guard, result) = condvar.wait_until(guard, Instant::now() + SHORT).unwrap();
        assert!(result.timed_out());
        let (guard, result) = condvar.wait_with(guard, Wait::timeout(SHORT).interruptible()).unwrap();
        assert_eq!(result, Err(WaitError::TimedOut));
        let until = Wait::until(Instant::now() + SHORT);
        let (guard, result) = condvar.wait_with(guard, until.interruptible()).unwrap();
        assert_eq!(result, Err(WaitError::TimedOut));
        drop(guard);
        assert!(mutex.try_lock_for(SHORT).is_ok());
    });
}

fn interrupts_end_waits<L: Leg>() {
    L::new().run(|| {
        let pair = std::sync::Arc::new((Mutex::new(()), Condvar::new()));
        for wait in 0..3 {
            let theirs = std::sync::Arc::clone(&pair);
            let waiter = thread::spawn(move || {
                let guard = theirs.0.lock().unwrap();
                let wait = match wait {
                    0 => Wait::forever(),
                    1 => Wait::timeout(LONG),
                    _ => Wait::until(Instant::now() + LONG),
                };
                theirs.1.wait_with(guard, wait.interruptible()).unwrap().1.is_err()
            });
            thread::yield_now();
            waiter.thread().interrupt();
            assert!(waiter.join().unwrap());
        }
    });
}

fn readers_and_writers_wait_as_mutexes_do<L: Leg>() {
    L::new().run(|| {
        let lock = std::sync::Arc::new(RwLock::new(()));
        let guard = lock.write().unwrap();
        let theirs = std::sync::Arc::clone(&lock);
        let waited = thread::spawn(move || {
            let start = Instant::now();
            let until = || Instant::now() + SHORT;
            assert!(matches!(theirs.try_read_for(SHORT), Err(TryLockError::WouldBlock)));
            assert!(matches!(theirs.try_read_until(until()), Err(TryLockError::WouldBlock)));
            assert!(matches!(
                theirs.read_with(Wait::timeout(SHORT).interruptible()),
                Err(WaitError::TimedOut)
            ));
            assert!(matches!(
                theirs.read_with(Wait::until(until()).interruptible()),
                Err(WaitError::TimedOut)
            ));
            assert!(matches!(theirs.try_write_for(SHORT), Err(TryLockError::WouldBlock)));
            assert!(matches!(theirs.try_write_until(until()), Err(TryLockError::WouldBlock)));
            assert!(matches!(
                theirs.write_with(Wait::timeout(SHORT).interruptible()),
                Err(WaitError::TimedOut)
            ));
            assert!(matches!(
                theirs.write_with(Wait::until(until()).interruptible()),
                Err(WaitError::TimedOut)
            ));
            start.elapsed()
        });
        assert!(waited.join().unwrap() >= 8 * SHORT);
        for write in [false, true] {
            let theirs = std::sync::Arc::clone(&lock);
            let waiter = thread::spawn(move || match write {
                false => theirs.read_with(Wait::forever().interruptible()).is_err(),
                true => theirs.write_with(Wait::forever().interruptible()).is_err(),
            });
            thread::yield_now();
            waiter.thread().interrupt();
            assert!(waiter.join().unwrap());
        }
        drop(guard);
        // A writer that panics, on a thread of this kind.
        let theirs = std::sync::Arc::clone(&lock);
        let panics = thread::spawn(move || {
            let _guard = theirs.write_with(Wait::forever().interruptible()).unwrap().unwrap();
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        assert!(
            lock.read_with(Wait::forever().interruptible()).unwrap().is_err()
                && lock.write_with(Wait::forever().interruptible()).unwrap().is_err()
        );
        lock.clear_poison();
        assert!(lock.try_read_for(SHORT).is_ok() && lock.try_write_for(SHORT).is_ok());
    });
}
