//! Panics that the program catches: what was held is free again, whichever thread runs meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use selvedge::sync::{Condvar, LazyLock, Mutex, OnceLock, RwLock, RwLockUpgradableReadGuard, Semaphore};

use super::{Bank, count, start};

/// Ends with what `hold` gives by a panic, quietly: without the message.
fn panic_with<G>(hold: impl FnOnce() -> G) {
    let panics = || {
        let _held = hold();
        resume_unwind(Box::new("on purpose"));
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
}

#[test]
fn a_panic_unlocks_a_mutex() {
    count(|| {
        let mutex = Arc::new(Mutex::new(0));
        let other = start(&mutex, |mutex| *mutex.lock() += 1);
        panic_with(|| mutex.lock());
        *mutex.lock() += 1;
        other.join().unwrap();
        assert_eq!(*mutex.lock(), 2);
    });
}

#[test]
fn a_panic_leaves_a_read_write_lock() {
    count(|| {
        let lock = Arc::new(RwLock::new(0));
        let other = start(&lock, |lock| *lock.write() += 1);
        panic_with(|| lock.read());
        panic_with(|| lock.write());
        other.join().unwrap();
        panic_with(|| lock.upgradable_read());
        panic_with(|| RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()));
        assert!(lock.try_write().is_some_and(|value| *value == 1));
    });
}

#[test]
fn a_panic_gives_permits_back() {
    count(|| {
        let permits = Arc::new(Semaphore::new(2));
        let other = start(&permits, |permits| drop(permits.acquire()));
        panic_with(|| permits.acquire_many(2));
        panic_with(|| permits.try_acquire_owned());
        other.join().unwrap();
        assert_eq!(permits.available_permits(), 2);
    });
}

/// Which thread a lock lets in does not depend on one that unwinds, in another lock or in the same.
#[test]
fn others_lock_while_one_unwinds() {
    count(|| {
        let bank = Arc::new((Bank::default(), RwLock::new(0), Condvar::new()));
        let [writer, reader] = [true, false].map(|writes| {
            start(&bank, move |(Bank(accounts), lock, changed)| {
                if writes {
                    *lock.write() += 1;
                    *accounts[1].lock() += 1;
                    changed.notify_all();
                } else {
                    panic_with(|| lock.read());
                }
            })
        });
        let (Bank(accounts), lock, changed) = &*bank;
        changed.wait_while(&mut accounts[1].lock(), |account| *account == 0);
        panic_with(|| (accounts[0].lock(), lock.read()));
        writer.join().unwrap();
        reader.join().unwrap();
        assert!(accounts.iter().all(|account| account.try_lock().is_some()) && lock.try_write().is_some());
    });
}

/// A value that looks at another when it is dropped.
struct Looks<'a>(&'a OnceLock<u32>, &'a AtomicBool);

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.get() == Some(&7), SeqCst);
    }
}

#[test]
fn what_is_made_is_there_for_a_thread_that_unwinds() {
    count(|| {
        let (cell, seen) = (OnceLock::from(7), AtomicBool::new(false));
        panic_with(|| Looks(&cell, &seen));
        assert!(seen.load(SeqCst));
    });
}

/// Counts its drops.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_was_made_is_dropped_by_a_panic() {
    count(|| {
        let drops = AtomicU32::new(0);
        panic_with(|| OnceLock::from(Counted(&drops)));
        panic_with(|| {
            let made = LazyLock::new(|| Counted(&drops));
            LazyLock::force(&made);
            made
        });
        let unused = Counted(&drops);
        panic_with(|| LazyLock::new(move || unused));
        assert_eq!(drops.load(SeqCst), 3);
    });
}

/// A mistake: after a panic the value is half changed, and nothing says so.
#[test]
#[should_panic(expected = "half changed")]
fn negative_half_changed() {
    loom::model(|| {
        let halves = Arc::new(Mutex::new([0, 0]));
        let other = start(&halves, |halves| {
            panic_with(|| {
                let mut halves = halves.lock();
                halves[0] += 1;
                halves
            });
        });
        let [one, two] = *halves.lock();
        assert_eq!(one, two, "half changed");
        other.join().unwrap();
    });
}

/// A mistake: the program does not catch it. Its own message comes through, whatever was held.
#[test]
#[should_panic(expected = "not caught")]
fn negative_not_caught() {
    count(|| {
        let shared = Arc::new((Bank::default(), Semaphore::new(1), RwLock::new(0)));
        let other = start(&shared, |(bank, permits, lock)| {
            let _held = (permits.acquire(), bank.both(0, 1), lock.write());
        });
        let (bank, permits, lock) = &*shared;
        let held = (lock.read(), bank.0[0].try_lock(), permits.try_acquire());
        assert!(held.1.is_some(), "not caught");
        drop(held);
        other.join().unwrap();
    });
}
