//! Statistics of locks: what is counted of which thread, and what is not.

use std::sync::Arc;
use std::time::Duration;

use selvedge::sync::stats::{self, LockStats};
use selvedge::sync::{LockWith, Mutex, MutexGuard};
use selvedge::thread::{Builder, WaitReason};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;

both! {
    waits_are_counted,
    a_lock_that_is_free_is_not_noticed,
    giving_up_is_counted,
    handing_over_is_counted,
    names_come_and_go,
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

/// Scenarios run at once in one process, so none switches it off.
fn named(name: &str) -> Arc<Mutex<u32>> {
    stats::enable();
    let mutex = Arc::new(Mutex::new(0));
    // Others have lain here, and have been counted.
    let _ = of(&mutex);
    stats::name(&*mutex, name);
    mutex
}

fn of(mutex: &Mutex<u32>) -> Option<LockStats> {
    // SAFETY: nothing is unlocked.
    let address = std::ptr::from_ref(unsafe { mutex.raw() }).addr();
    stats::report().locks().iter().find(|lock| lock.address() == address).cloned()
}

/// A count and what it was before: the address may have been another lock's.
fn grown(mutex: &Mutex<u32>, before: Option<&LockStats>, what: fn(&LockStats) -> u64) -> u64 {
    of(mutex).map_or(0, |lock| what(&lock)) - before.map_or(0, what)
}

/// Waits until a thread sleeps in the queue of the mutex, which the caller has locked.
fn until_waited_for(mutex: &Mutex<u32>) {
    let waits = || {
        // SAFETY: nothing is unlocked.
        format!("{:?}", unsafe { mutex.raw() }).contains("waiters: true")
    };
    while !waits() {
        thread::yield_now();
    }
}

fn waits_are_counted<L: Leg>() {
    let rt = L::new();
    let mutex = named("waits are counted");
    let before = of(&mutex);
    rt.run(|| {
        for bound in [false, true] {
            let held = mutex.lock();
            let theirs = Arc::clone(&mutex);
            let waiter = Builder::new().bound(bound).spawn(move || *theirs.lock() += 1).unwrap();
            until_waited_for(&mutex);
            thread::sleep(Duration::from_millis(2));
            drop(held);
            waiter.join().unwrap();
        }
    });
    let lock = of(&mutex).unwrap();
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::contended), 2);
    assert!(grown(&mutex, before.as_ref(), LockStats::slept) >= 2);
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::spun), 0);
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::gave_up), 0);
    let waited = lock.waited() - before.as_ref().map_or(Duration::ZERO, LockStats::waited);
    assert!(waited >= Duration::from_millis(4), "{waited:?}");
    assert!(lock.longest() >= Duration::from_millis(2) && lock.longest() <= lock.waited());
    assert_eq!(lock.kind(), Some(WaitReason::Mutex));
    assert_eq!(lock.name(), Some("waits are counted"));
    let table = stats::report().to_string();
    // Locks of other threads may have the same name.
    let address = format!("{:#x}", lock.address());
    let row = table.lines().find(|row| row.contains(&address)).expect("a row");
    assert!(row.contains("\"waits are counted\""), "{row}");
    assert!(table.starts_with("      waited"), "{table}");
    stats::unname(&*mutex);
}

fn a_lock_that_is_free_is_not_noticed<L: Leg>() {
    let mutex = named("free");
    let before = of(&mutex);
    L::new().run(|| {
        for _ in 0..1000 {
            *mutex.lock() += 1;
            assert!(mutex.try_lock().is_some());
        }
    });
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::contended), 0);
    stats::unname(&*mutex);
}

fn giving_up_is_counted<L: Leg>() {
    let mutex = named("giving up");
    let before = of(&mutex);
    L::new().run(|| {
        let _held = mutex.lock();
        let theirs = Arc::clone(&mutex);
        let timed = thread::spawn(move || theirs.try_lock_for(Duration::from_millis(2)).is_none());
        assert!(timed.join().unwrap());
        let theirs = Arc::clone(&mutex);
        let interrupted = thread::spawn(move || {
            theirs.lock_with(Wait::timeout(LONG).interruptible()).err() == Some(WaitError::Interrupted)
        });
        until_waited_for(&mutex);
        interrupted.thread().interrupt();
        assert!(interrupted.join().unwrap());
        // A thread that does not wait is not counted.
        assert!(mutex.try_lock().is_none());
    });
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::gave_up), 2);
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::contended), 2);
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::spun), 0);
    stats::unname(&*mutex);
}

fn handing_over_is_counted<L: Leg>() {
    let mutex = named("handing over");
    let before = of(&mutex);
    L::new().run(|| {
        for _ in 0..3 {
            let held = mutex.lock();
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || *theirs.lock() += 1);
            until_waited_for(&mutex);
            MutexGuard::unlock_fair(held);
            waiter.join().unwrap();
        }
    });
    assert_eq!(grown(&mutex, before.as_ref(), LockStats::handed_over), 3);
    stats::unname(&*mutex);
}

fn names_come_and_go<L: Leg>() {
    let mutex = named("first");
    let rt = L::new();
    let held = mutex.lock();
    stats::name(&*mutex, "second, and longer");
    let theirs = Arc::clone(&mutex);
    let waiter = rt.spawn(move || drop(theirs.lock()));
    let report = loop {
        let report = rt.deadlocks();
        if report.waiting().len() == 1 {
            break report;
        }
    };
    assert_eq!(report.waiting()[0].called(), Some("second, and longer"));
    assert!(matches!(rt.deadlocks().waiting()[0].reason(), WaitReason::Mutex));
    drop(held);
    waiter.join().unwrap();
    assert_eq!(of(&mutex).unwrap().name(), Some("second, and longer"));
    stats::unname(&*mutex);
    assert_eq!(of(&mutex).unwrap().name(), None);
}
