//! Locks that are used as they should not be. An owner locks them again, other threads unlock them, and they
//! are unlocked while they are free.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_api::{
    RawMutex as _, RawMutexFair as _, RawMutexTimed as _, RawRwLockDowngrade as _, RawRwLockUpgrade as _,
    RawRwLockUpgradeDowngrade as _, RawRwLockUpgradeTimed as _,
};
use selvedge::sync::{LockWith, Mutex, RawMutex, ReentrantMutex, RwLock};
use selvedge::{Runtime, Wait, WaitError, thread};

use super::watchdog::Watchdog;
use super::{mxn, onetoone};

const SHORT: Duration = Duration::from_millis(3);

fn on_each_kind(f: impl Fn() + Clone + Send + 'static) {
    mxn().run(f.clone());
    mxn().spawn_with(thread::Builder::new().bound(true), f.clone()).unwrap().join().unwrap();
    onetoone().run(f.clone());
    f();
}

/// It waits for itself: in all forms that end, until they end.
#[test]
fn an_owner_locks_a_plain_mutex_again() {
    let _watchdog = Watchdog::start("an owner locks a plain mutex again");
    on_each_kind(|| {
        let mutex = Mutex::new(1);
        let guard = mutex.lock();
        let start = Instant::now();
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock_for(SHORT).is_none());
        assert!(mutex.try_lock_until(Instant::now() + SHORT).is_none());
        let timed = mutex.lock_with(Wait::timeout(SHORT).interruptible());
        assert_eq!(timed.unwrap_err(), WaitError::TimedOut);
        assert!(start.elapsed() >= 3 * SHORT);
        thread::current().interrupt();
        assert!(mutex.lock_with(Wait::forever().interruptible()).is_err());
        assert_eq!(*guard, 1);
        drop(guard);
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn another_thread_unlocks_a_plain_mutex() {
    let _watchdog = Watchdog::start("another thread unlocks a plain mutex");
    let raw = Arc::new(RawMutex::new());
    let theirs = Arc::clone(&raw);
    on_each_kind(move || {
        theirs.lock();
        let other = Arc::clone(&theirs);
        // SAFETY: it is locked, by a thread that leaves it to this one.
        std::thread::spawn(move || unsafe { other.unlock() }).join().unwrap();
        assert!(theirs.try_lock_for(SHORT), "a semaphore of one");
        // SAFETY: locked just now.
        unsafe { theirs.unlock() };
    });
    assert!(!raw.is_locked());
}

#[test]
fn a_free_mutex_is_unlocked() {
    let _watchdog = Watchdog::start("a free mutex is unlocked");
    let raw = RawMutex::new();
    // SAFETY: it is not locked, and what then happens is documented.
    refused("unlocked a mutex that is not locked", || unsafe { raw.unlock() });
    // SAFETY: it is not locked, and what then happens is documented.
    refused("unlocked a mutex that is not locked", || unsafe { raw.unlock_fair() });
    assert!(raw.try_lock());
    assert!(!raw.try_lock());
}

/// `f` panics, and says so.
#[track_caller]
fn refused(how: &str, f: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it is taken notice of");
    let said = panic.downcast_ref::<&str>().expect("a message");
    assert!(said.contains(how), "{said}");
}

#[test]
fn a_free_read_write_lock_is_unlocked() {
    let _watchdog = Watchdog::start("a free read-write lock is unlocked");
    let lock = RwLock::new(7);
    // SAFETY: nothing is unlocked yet.
    let raw = unsafe { lock.raw() };
    let refused = |f: &dyn Fn()| refused("unlocked a read-write lock that is not locked", f);
    let by_writer = || {
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { lock.force_unlock_write() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { lock.force_unlock_write_fair() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { raw.downgrade() });
    };
    let by_reader = || {
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { lock.force_unlock_read() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { lock.force_unlock_read_fair() });
    };
    let by_upgradable = || {
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { raw.unlock_upgradable() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { raw.downgrade_upgradable() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| unsafe { raw.upgrade() });
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| assert!(!unsafe { raw.try_upgrade() }));
        // SAFETY: it is not locked like that, and what then happens is documented.
        refused(&|| assert!(!unsafe { raw.try_upgrade_for(SHORT) }));
    };
    by_writer();
    by_reader();
    by_upgradable();
    let written = lock.try_write().expect("it is free");
    by_reader();
    by_upgradable();
    drop(written);
    let read = (lock.try_read().expect("it is free"), lock.try_read());
    by_writer();
    by_upgradable();
    assert_eq!(*read.0, 7);
    drop(read);
    assert!(lock.try_write().is_some());
}

#[test]
fn leaked_guards_keep_their_locks() {
    let _watchdog = Watchdog::start("leaked guards keep their locks");
    on_each_kind(|| {
        let (mutex, reentrant) = (Arc::new(Mutex::new(())), Arc::new(ReentrantMutex::new(())));
        std::mem::forget((mutex.lock(), reentrant.lock()));
        assert!(mutex.try_lock().is_none());
        assert!(reentrant.try_lock().is_some(), "its owner may");
        let theirs = (Arc::clone(&mutex), Arc::clone(&reentrant));
        let others = move || theirs.0.try_lock().is_none() && theirs.1.try_lock_for(SHORT).is_none();
        assert!(std::thread::spawn(others).join().unwrap());
    });
}
