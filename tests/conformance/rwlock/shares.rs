//! Shares of a read-write lock that are upgraded, downgraded and passed on.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use selvedge::sync::{
    Barrier, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeWith,
};
use selvedge::thread::{Builder, Priority};
use selvedge::{Runtime, Wait, thread};

use super::{KINDS, everywhere, until_a_writer_waits};
use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    a_downgrade_lets_no_writer_between,
    an_upgrade_lets_no_writer_between,
    one_upgradable_at_a_time_beside_readers,
    a_thread_that_goes_on_reading_lets_others_read_beside,
    fair_unlocks_pass_the_lock_on,
    a_bump_is_a_turn_for_others,
    writers_of_high_priority_go_first,
}

fn a_downgrade_lets_no_writer_between<L: Leg>() {
    let lock = Arc::new(RwLock::new(0_usize));
    let theirs = Arc::clone(&lock);
    everywhere::<L>(2, move |n| {
        for round in 0..50 {
            let mine = n * 1000 + round;
            let mut writer = theirs.write();
            *writer = mine;
            if round % 2 == 0 {
                let reader = RwLockWriteGuard::downgrade(writer);
                thread::yield_now();
                assert_eq!(*reader, mine);
            } else {
                let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
                thread::yield_now();
                assert_eq!(*reader, mine);
                assert_eq!(*RwLockUpgradableReadGuard::downgrade(reader), mine);
            }
        }
    });
}

fn an_upgrade_lets_no_writer_between<L: Leg>() {
    const ROUNDS: usize = 48;
    let lock = Arc::new(RwLock::new(0_usize));
    let theirs = Arc::clone(&lock);
    everywhere::<L>(2, move |n| {
        for round in 0..ROUNDS {
            if (n + round) % 4 == 0 {
                let _reader = theirs.read();
                thread::yield_now();
            } else {
                let reader = theirs.upgradable_read();
                let before = *reader;
                thread::yield_now();
                let mut writer = RwLockUpgradableReadGuard::upgrade(reader);
                assert_eq!(*writer, before);
                *writer += 1;
            }
        }
    });
    assert_eq!(*lock.read(), 2 * KINDS * ROUNDS * 3 / 4);
}

fn one_upgradable_at_a_time_beside_readers<L: Leg>() {
    let shared = Arc::new((RwLock::new(()), AtomicBool::new(false)));
    let _reader = shared.0.read();
    let theirs = Arc::clone(&shared);
    everywhere::<L>(2, move |_| {
        for _ in 0..20 {
            let upgradable = theirs.0.upgradable_read();
            assert!(!theirs.1.swap(true, SeqCst), "two at once");
            thread::yield_now();
            assert!(theirs.0.try_read().is_some(), "a waiter for the upgradable share keeps no reader out");
            theirs.1.store(false, SeqCst);
            drop(upgradable);
        }
    });
}

/// Each gives something up and keeps a share; those that waited for what it gave up come in while it has
/// that.
fn a_thread_that_goes_on_reading_lets_others_read_beside<L: Leg>() {
    let rt = L::new();
    let lock = Arc::new(RwLock::new(()));
    let reads = || {
        let lock = Arc::clone(&lock);
        rt.spawn(move || drop(lock.read()))
    };
    // What a writer has, for a reader's share.
    let writer = lock.write();
    let reader = reads();
    until_waited_for(&lock);
    let kept = RwLockWriteGuard::downgrade(writer);
    reader.join().unwrap();
    drop(kept);
    // The closed door, by a thread that gives up upgrading.
    let other = lock.read();
    let (gave_up, kept) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let theirs = (Arc::clone(&lock), Arc::clone(&gave_up), Arc::clone(&kept));
    let upgrader = rt.spawn(move || {
        let guard = theirs.0.upgradable_read();
        let Err((guard, _)) = UpgradeWith::upgrade_with(guard, Wait::forever().interruptible()) else {
            panic!("a thread reads");
        };
        theirs.1.wait();
        theirs.2.wait();
        drop(guard);
    });
    until_a_writer_waits(&lock);
    let reader = reads();
    until_waited_for(&lock);
    upgrader.thread().interrupt();
    gave_up.wait();
    reader.join().unwrap();
    kept.wait();
    upgrader.join().unwrap();
    drop(other);
    // The right to upgrade.
    let upgradable = lock.upgradable_read();
    let theirs = Arc::clone(&lock);
    let next = rt.spawn(move || drop(theirs.upgradable_read()));
    until_waited_for(&lock);
    let kept = RwLockUpgradableReadGuard::downgrade(upgradable);
    next.join().unwrap();
    drop(kept);
}

fn until_waited_for(lock: &RwLock<()>) {
    // SAFETY: only looked at.
    while !format!("{:?}", unsafe { lock.raw() }).contains("waiters: true") {
        thread::yield_now();
    }
}

fn fair_unlocks_pass_the_lock_on<L: Leg>() {
    L::new().run(|| {
        for round in 0..20 {
            let lock = Arc::new(RwLock::new(0));
            let start_writer = || {
                let theirs = Arc::clone(&lock);
                thread::spawn(move || *theirs.write() += 1)
            };
            let writer = if round % 2 == 0 {
                let reader = lock.read();
                let writer = start_writer();
                until_a_writer_waits(&lock);
                RwLockReadGuard::unlock_fair(reader);
                writer
            } else {
                let (reader, other) = (lock.upgradable_read(), lock.read());
                let writer = start_writer();
                until_a_writer_waits(&lock);
                drop(other);
                RwLockUpgradableReadGuard::unlock_fair(reader);
                writer
            };
            // The lock is the writer's by now, wherever that is.
            assert_eq!(*lock.read(), 1);
            writer.join().unwrap();
        }
    });
}

fn a_bump_is_a_turn_for_others<L: Leg>() {
    L::new().run(|| {
        let lock = Arc::new(RwLock::new(0));
        let mut writer = lock.write();
        let theirs = Arc::clone(&lock);
        let other = thread::spawn(move || *theirs.write() += 1);
        while *writer == 0 {
            RwLockWriteGuard::bump(&mut writer);
            thread::yield_now();
        }
        other.join().unwrap();
        let mut reader = RwLockWriteGuard::downgrade(writer);
        let theirs = Arc::clone(&lock);
        let other = thread::spawn(move || *theirs.write() += 1);
        while *reader == 1 {
            RwLockReadGuard::bump(&mut reader);
            thread::yield_now();
        }
        other.join().unwrap();
    });
}

fn writers_of_high_priority_go_first<L: Leg>() {
    let rt = L::new();
    let first = rt.run(|| {
        let lock = Arc::new(RwLock::new(Vec::new()));
        let reader = lock.read();
        let waiters = [Priority::Low, Priority::High, Priority::Normal].map(|priority| {
            let theirs = Arc::clone(&lock);
            let waits = move || theirs.write().push(priority);
            let waiter = Builder::new().priority(priority).spawn(waits).unwrap();
            until_waits(&rt, &waiter);
            waiter
        });
        RwLockReadGuard::unlock_fair(reader);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        lock.read()[0]
    });
    assert_eq!(first, Priority::High);
}
