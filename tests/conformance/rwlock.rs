//! The read-write lock, as std's and parking_lot's documentation promises it: between threads of every kind.

mod shares;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::sync::{
    RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWith, RwLockWriteGuard, UpgradeWith,
};
use selvedge::thread::{Builder, JoinHandle};
use selvedge::{OneToOne, Runtime, Wait, thread};

use crate::legs::{Leg, passed_on};
use crate::waiting::until_waits;

both! {
    many_read_or_one_writes,
    readers_are_in_at_once,
    try_forms_never_wait,
    timed_waits_end_and_leave_nothing,
    a_waiting_writer_keeps_new_readers_out,
    readers_may_read_again,
    a_writer_that_gives_up_opens_the_door,
    guards_are_kept_across_sleeps_and_yields,
    a_panicking_thread_releases_and_does_not_poison,
    every_wait_can_be_interrupted,
    an_interrupt_and_a_grant_leave_the_lock_whole,
    neither_side_starves,
    what_was_written_is_read,
}

const LONG: Duration = Duration::from_secs(1000);
const SOON: Duration = Duration::from_millis(2);

/// Threads of every kind at once: of the leg's runtime, bound, 1:1 and foreign. Each gets its number.
fn everywhere<L: Leg>(each: usize, work: impl Fn(usize) + Clone + Send + 'static) {
    let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
    let mut ours: Vec<JoinHandle<()>> = Vec::new();
    let mut foreign = Vec::new();
    for n in 0..each {
        let numbered = |kind: usize| {
            let work = work.clone();
            move || work(n * KINDS + kind)
        };
        ours.push(rt.spawn(numbered(0)));
        ours.push(rt.spawn_with(Builder::new().bound(true), numbered(1)).unwrap());
        ours.push(kernel.spawn(numbered(2)));
        foreign.push(std::thread::spawn(numbered(3)));
    }
    ours.into_iter().for_each(|handle| handle.join().unwrap());
    foreign.into_iter().for_each(|handle| handle.join().unwrap());
}

const KINDS: usize = 4;

/// Waits until a writer or an upgrader waits: then no new reader comes in. The caller reads.
fn until_a_writer_waits<T>(lock: &RwLock<T>) {
    while lock.try_read().is_some() {
        thread::yield_now();
    }
}

fn many_read_or_one_writes<L: Leg>() {
    const ROUNDS: usize = 200;
    let shared = Arc::new((RwLock::new(0_usize), AtomicI32::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L>(2, move |n| {
        let (lock, inside) = &*theirs;
        let change = |value: &mut usize| {
            assert_eq!(inside.swap(-1, SeqCst), 0, "a writer is not alone");
            let before = *value;
            if before.is_multiple_of(64) {
                // Others come meanwhile, and must wait.
                thread::yield_now();
            }
            *value = before + 1;
            assert_eq!(inside.swap(0, SeqCst), -1);
        };
        let read = || {
            assert!(inside.fetch_add(1, SeqCst) >= 0, "a reader beside a writer");
            inside.fetch_sub(1, SeqCst);
        };
        for round in 0..ROUNDS {
            match (n + round) % 5 {
                0 => change(&mut lock.write()),
                1 => {
                    let reader = lock.upgradable_read();
                    read();
                    let mut writer = RwLockUpgradableReadGuard::upgrade(reader);
                    change(&mut writer);
                    let _reader = RwLockWriteGuard::downgrade(writer);
                    read();
                }
                2 => {
                    let _reader = lock.read();
                    let _again = lock.read_recursive();
                    read();
                }
                _ => {
                    let _reader = lock.read();
                    read();
                }
            }
        }
    });
    assert_eq!(*shared.0.read(), 2 * KINDS * ROUNDS * 2 / 5);
    assert!(!shared.0.is_locked());
}

fn readers_are_in_at_once<L: Leg>() {
    let shared = Arc::new((RwLock::new(()), AtomicUsize::new(0), AtomicUsize::new(0)));
    let writer = shared.0.write();
    let starter = {
        let theirs = Arc::clone(&shared);
        std::thread::spawn(passed_on(move || {
            everywhere::<L>(2, move |_| {
                theirs.2.fetch_add(1, SeqCst);
                let _guard = theirs.0.read();
                theirs.1.fetch_add(1, SeqCst);
                // None leaves before all are in.
                while theirs.1.load(SeqCst) < 2 * KINDS {
                    thread::yield_now();
                }
            });
        }))
    };
    while shared.2.load(SeqCst) < 2 * KINDS {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(shared.1.load(SeqCst), 0);
    drop(writer);
    starter.join().unwrap();
}

fn try_forms_never_wait<L: Leg>() {
    L::new().run(|| {
        let lock = RwLock::new(1);
        {
            let _reader = lock.read();
            assert!(lock.try_read().is_some() && lock.try_read_recursive().is_some());
            assert!(lock.try_upgradable_read().is_some());
            assert!(lock.try_write().is_none());
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
        }
        {
            let _upgradable = lock.upgradable_read();
            assert!(lock.try_read().is_some());
            assert!(lock.try_upgradable_read().is_none() && lock.try_write().is_none());
        }
        {
            let _writer = lock.write();
            assert!(lock.try_read().is_none() && lock.try_read_recursive().is_none());
            assert!(lock.try_upgradable_read().is_none() && lock.try_write().is_none());
            assert!(lock.is_locked_exclusive());
            assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
        }
        assert!(lock.try_write().is_some());
        let reader = lock.upgradable_read();
        let mut writer = RwLockUpgradableReadGuard::try_upgrade(reader).unwrap();
        *writer = 2;
        let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
        let other = lock.read();
        assert!(RwLockUpgradableReadGuard::try_upgrade(reader).is_err());
        assert_eq!(*other, 2);
        drop(other);
        assert_eq!(lock.into_inner(), 2);
    });
}

fn timed_waits_end_and_leave_nothing<L: Leg>() {
    let lock = Arc::new(RwLock::new(()));
    let writer = lock.write();
    let theirs = Arc::clone(&lock);
    everywhere::<L>(1, move |_| {
        let start = Instant::now();
        assert!(theirs.try_read_for(SOON).is_none());
        assert!(theirs.try_read_recursive_for(SOON).is_none());
        assert!(theirs.try_upgradable_read_for(SOON).is_none());
        assert!(theirs.try_write_for(SOON).is_none());
        assert!(start.elapsed() >= 4 * SOON);
        assert!(theirs.try_read_until(Instant::now()).is_none());
        assert!(theirs.try_write_until(Instant::now()).is_none());
        assert!(theirs.try_upgradable_read_until(Instant::now()).is_none());
    });
    drop(writer);
    let reader = lock.read();
    let theirs = Arc::clone(&lock);
    everywhere::<L>(1, move |_| {
        assert!(theirs.try_write_for(SOON).is_none());
        // The others do so too, one after the other.
        let upgradable = theirs.upgradable_read();
        let upgradable = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, SOON).unwrap_err();
        assert!(RwLockUpgradableReadGuard::try_upgrade_until(upgradable, Instant::now()).is_err());
    });
    drop(reader);
    assert!(lock.try_write_for(Duration::MAX).is_some());
    assert!(lock.try_read_for(Duration::MAX).is_some());
}

fn a_waiting_writer_keeps_new_readers_out<L: Leg>() {
    L::new().run(|| {
        let lock = Arc::new(RwLock::new(0));
        let reader = lock.read();
        let spawn_writer = || {
            let theirs = Arc::clone(&lock);
            thread::spawn(move || *theirs.write() += 1)
        };
        let writers = [spawn_writer(), spawn_writer()];
        until_a_writer_waits(&lock);
        let theirs = Arc::clone(&lock);
        let late = thread::spawn(move || *theirs.read());
        assert!(lock.try_read_for(SOON).is_none());
        assert!(lock.try_upgradable_read_for(SOON).is_none());
        assert!(!late.is_finished());
        assert_eq!(*reader, 0);
        RwLockReadGuard::unlock_fair(reader);
        assert!(late.join().unwrap() >= 1, "the reader came in before a writer that was there first");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(*lock.read(), 2);
    });
}

fn readers_may_read_again<L: Leg>() {
    L::new().run(|| {
        let lock = Arc::new(RwLock::new(0));
        let reader = lock.read();
        let theirs = Arc::clone(&lock);
        let writer = thread::spawn(move || *theirs.write() += 1);
        until_a_writer_waits(&lock);
        for _ in 0..10 {
            assert_eq!(*lock.read_recursive(), 0);
            assert!(lock.try_read_recursive().is_some());
            assert!(lock.try_read_recursive_for(LONG).is_some());
            assert!(lock.read_recursive_with(Wait::forever().interruptible()).is_ok());
        }
        drop(reader);
        writer.join().unwrap();
    });
}

fn a_writer_that_gives_up_opens_the_door<L: Leg>() {
    L::new().run(|| {
        for upgrades in [false, true] {
            let lock = Arc::new(RwLock::new(()));
            let _reader = lock.read();
            let theirs = Arc::clone(&lock);
            let writer = thread::spawn(move || {
                let timeout = Duration::from_millis(30);
                if upgrades {
                    let reader = theirs.upgradable_read();
                    RwLockUpgradableReadGuard::try_upgrade_for(reader, timeout).is_ok()
                } else {
                    theirs.try_write_for(timeout).is_some()
                }
            });
            // On a busy machine it may have given up before it is seen.
            while !writer.is_finished() && lock.try_read().is_some() {
                thread::yield_now();
            }
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    let theirs = Arc::clone(&lock);
                    thread::spawn(move || drop(theirs.read()))
                })
                .collect();
            assert!(!writer.join().unwrap());
            // All while the first one reads on.
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        }
    });
}

fn guards_are_kept_across_sleeps_and_yields<L: Leg>() {
    let shared = Arc::new((RwLock::new(false), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L>(1, move |n| {
        for _ in 0..3 {
            if n % 2 == 0 {
                let mut guard = theirs.0.write();
                assert!(!*guard, "two at once");
                *guard = true;
                thread::sleep(Duration::from_millis(1));
                *guard = false;
            } else {
                let guard = theirs.0.read();
                thread::sleep(Duration::from_millis(1));
                assert!(!*guard, "a writer beside a reader");
            }
        }
    });
}

fn a_panicking_thread_releases_and_does_not_poison<L: Leg>() {
    L::new().run(|| {
        let lock = Arc::new(RwLock::new(1));
        for writes in [false, true] {
            let theirs = Arc::clone(&lock);
            let panics = thread::spawn(move || {
                let _reader = (!writes).then(|| theirs.read());
                let mut writer = writes.then(|| theirs.write());
                if let Some(value) = writer.as_deref_mut() {
                    *value = 2;
                }
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(panics.join().is_err());
            assert!(lock.try_write().is_some());
        }
        assert_eq!(*lock.read(), 2, "as it was left");
    });
}

type Waiting = fn(&RwLock<u32>) -> bool;

/// Each waits for a lock that another thread has; whether it was interrupted.
const WAITS: [(&str, Waiting); 8] = [
    ("read", |lock| lock.read_with(Wait::forever().interruptible()).is_err()),
    ("read for", |lock| lock.read_with(Wait::timeout(LONG).interruptible()).is_err()),
    ("read until", |lock| lock.read_with(Wait::until(Instant::now() + LONG).interruptible()).is_err()),
    ("read again", |lock| lock.read_recursive_with(Wait::forever().interruptible()).is_err()),
    ("write", |lock| lock.write_with(Wait::forever().interruptible()).is_err()),
    ("write for", |lock| lock.write_with(Wait::timeout(LONG).interruptible()).is_err()),
    ("upgradable read", |lock| lock.upgradable_read_with(Wait::forever().interruptible()).is_err()),
    ("upgradable read until", |lock| {
        lock.upgradable_read_with(Wait::until(Instant::now() + LONG).interruptible()).is_err()
    }),
];

fn every_wait_can_be_interrupted<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let lock = Arc::new(RwLock::new(0));
        let writer = lock.write();
        for (what, wait) in WAITS {
            for asleep in [false, true] {
                let theirs = Arc::clone(&lock);
                let waiter = thread::spawn(move || (wait(&theirs), thread::take_interrupt()));
                if asleep {
                    until_waits(&rt, &waiter);
                }
                waiter.thread().interrupt();
                assert_eq!(waiter.join().unwrap(), (true, false), "{what}");
            }
        }
        drop(writer);
        let reader = lock.read();
        for asleep in [false, true] {
            let theirs = Arc::clone(&lock);
            let upgrader = thread::spawn(move || {
                let guard = theirs.upgradable_read();
                let Err((guard, _)) = UpgradeWith::upgrade_with(guard, Wait::forever().interruptible())
                else {
                    return false;
                };
                // Still a reader, and the door is open.
                *guard == 0 && theirs.try_read().is_some()
            });
            if asleep {
                until_a_writer_waits(&lock);
            }
            upgrader.thread().interrupt();
            assert!(upgrader.join().unwrap());
        }
        drop(reader);
        assert!(lock.try_write().is_some());
    });
}

fn an_interrupt_and_a_grant_leave_the_lock_whole<L: Leg>() {
    L::new().run(|| {
        for round in 0..200 {
            let lock = Arc::new(RwLock::new(0));
            let guard = lock.write();
            let theirs = Arc::clone(&lock);
            let waiter = thread::spawn(move || {
                let refused = if round % 2 == 0 {
                    theirs.write_with(Wait::forever().interruptible()).map(drop).is_err()
                } else {
                    theirs.read_with(Wait::forever().interruptible()).map(drop).is_err()
                };
                (refused, thread::take_interrupt())
            });
            let of = waiter.thread().clone();
            thread::yield_now();
            drop(guard);
            of.interrupt();
            let (refused, taken) = waiter.join().unwrap();
            let reports = [refused, taken, of.is_interrupted()];
            assert_eq!(reports.iter().filter(|&&report| report).count(), 1, "{reports:?}");
            assert!(lock.try_write().is_some());
        }
    });
}

fn neither_side_starves<L: Leg>() {
    for few_write in [true, false] {
        let shared = Arc::new((RwLock::new(()), AtomicBool::new(false)));
        let theirs = Arc::clone(&shared);
        everywhere::<L>(1, move |n| {
            let (lock, over) = &*theirs;
            if n == 0 {
                // One of the runtime's own, against all others.
                for _ in 0..20 {
                    if few_write {
                        drop(lock.write());
                    } else {
                        drop(lock.read());
                    }
                }
                over.store(true, SeqCst);
                return;
            }
            while !over.load(SeqCst) {
                let start = Instant::now();
                let hold = || while start.elapsed() < Duration::from_micros(30) {};
                if few_write {
                    let _guard = lock.read();
                    hold();
                } else {
                    let _guard = lock.write();
                    hold();
                }
                if n % 2 == 0 {
                    thread::yield_now();
                }
            }
        });
    }
}

fn what_was_written_is_read<L: Leg>() {
    let lock = Arc::new(RwLock::new([0_usize; 16]));
    let theirs = Arc::clone(&lock);
    everywhere::<L>(2, move |n| {
        for round in 0..200 {
            if n % 3 == 0 {
                let mut values = theirs.write();
                values.iter_mut().for_each(|value| *value += 1);
            } else {
                let values = theirs.read();
                assert!(values.iter().all(|value| *value == values[0]), "half written in round {round}");
            }
        }
    });
    assert_eq!(lock.read()[0], 3 * 200);
}
