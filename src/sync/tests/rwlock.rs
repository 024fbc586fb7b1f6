use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_api::RawRwLock as _;

use super::{until, watched};
use crate::park::wait::{Wait, WaitError};
use crate::sync::{
    RawRwLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWith, RwLockWriteGuard, UpgradeWith,
};

const SOON: Duration = Duration::from_millis(1);

/// Waits until a thread is in one of the queues.
fn until_waited_for(lock: &RwLock<impl Sized>) {
    // SAFETY: only a look.
    until(|| format!("{:?}", unsafe { lock.raw() }).contains("waiters: true"));
}

#[test]
fn takes_eight_bytes() {
    assert_eq!(size_of::<RwLock<()>>(), 8);
}

/// Comes in and leaves in one of many ways.
fn step(lock: &RwLock<usize>, way: usize, read: &dyn Fn(), change: &dyn Fn(&mut usize)) {
    let brief = Duration::from_micros(30);
    match way {
        0 | 1 => change(&mut lock.write()),
        2 => {
            let mut writer = lock.write();
            change(&mut writer);
            RwLockWriteGuard::unlock_fair(writer);
        }
        3 => {
            let mut writer = lock.write();
            change(&mut writer);
            let reader = RwLockWriteGuard::downgrade(writer);
            read();
            RwLockReadGuard::unlock_fair(reader);
        }
        4 => {
            let reader = lock.upgradable_read();
            read();
            change(&mut RwLockUpgradableReadGuard::upgrade(reader));
        }
        5 => {
            let reader = lock.upgradable_read();
            read();
            match RwLockUpgradableReadGuard::try_upgrade_for(reader, brief) {
                Ok(mut writer) => {
                    change(&mut writer);
                    drop(RwLockWriteGuard::downgrade_to_upgradable(writer));
                }
                Err(reader) => drop(RwLockUpgradableReadGuard::downgrade(reader)),
            }
        }
        6 => {
            if let Some(mut writer) = lock.try_write_for(brief) {
                change(&mut writer);
            }
        }
        7 => {
            if let Some(_reader) = lock.try_read_for(brief) {
                read();
            }
        }
        8 => {
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

/// Readers and writers of all kinds count themselves while they are in.
#[test]
fn keeps_writers_apart_from_all() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 3_000;
    let _watched = watched();
    let lock = RwLock::new(0usize);
    // Readers that are in, or -1 for a writer.
    let inside = AtomicI32::new(0);
    let written = AtomicUsize::new(0);
    let change = |value: &mut usize| {
        assert_eq!(inside.swap(-1, Ordering::Relaxed), 0);
        *value += 1;
        written.fetch_add(1, Ordering::Relaxed);
        assert_eq!(inside.swap(0, Ordering::Relaxed), -1);
    };
    let read = || {
        assert!(inside.fetch_add(1, Ordering::Relaxed) >= 0);
        inside.fetch_sub(1, Ordering::Relaxed);
    };
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let (lock, read, change) = (&lock, &read, &change);
            s.spawn(move || {
                for round in 0..ROUNDS {
                    step(lock, (round * 7 + thread) % 13, read, change);
                }
            });
        }
    });
    assert!(!lock.is_locked());
    assert_eq!(
        // SAFETY: only a look.
        format!("{:?}", unsafe { lock.raw() }),
        "RawRwLock { written: false, readers: 0, upgradable: false, waiters: false }"
    );
    assert_eq!(lock.into_inner(), written.into_inner());
}

#[test]
fn deadlines_give_up() {
    let _watched = watched();
    let lock = RwLock::new(());
    let reader = lock.read();
    assert!(lock.try_write().is_none());
    let begin = Instant::now();
    assert!(lock.try_write_for(Duration::from_millis(20)).is_none());
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert!(lock.try_write_until(Instant::now()).is_none());
    assert!(lock.try_read().is_some());
    drop(reader);
    let writer = lock.write();
    assert!(lock.try_read().is_none());
    assert!(lock.try_read_for(SOON).is_none());
    assert!(lock.try_read_until(Instant::now()).is_none());
    assert!(lock.try_read_recursive().is_none());
    assert!(lock.try_read_recursive_for(SOON).is_none());
    assert!(lock.try_upgradable_read().is_none());
    assert!(lock.try_upgradable_read_for(SOON).is_none());
    assert!(lock.try_upgradable_read_until(Instant::now()).is_none());
    drop(writer);
    let (first, second) = (lock.upgradable_read(), lock.read());
    assert!(lock.try_upgradable_read_for(SOON).is_none());
    let first = RwLockUpgradableReadGuard::try_upgrade(first).unwrap_err();
    let first = RwLockUpgradableReadGuard::try_upgrade_for(first, SOON).unwrap_err();
    assert!(lock.try_read().is_some(), "the door is open again");
    let first = RwLockUpgradableReadGuard::try_upgrade_until(first, Instant::now()).unwrap_err();
    drop(second);
    assert!(RwLockUpgradableReadGuard::try_upgrade_for(first, Duration::MAX).is_ok());
    assert!(lock.try_write_for(Duration::MAX).is_some());
}

/// If a writer gives up, readers that came after it go in beside those that read.
#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    for upgrading in [false, true] {
        let _watched = watched();
        let lock = RwLock::new(());
        let reader = lock.read();
        std::thread::scope(|s| {
            let writer = s.spawn(|| {
                if upgrading {
                    let guard = lock.upgradable_read();
                    RwLockUpgradableReadGuard::try_upgrade_for(guard, Duration::from_millis(50)).is_ok()
                } else {
                    lock.try_write_for(Duration::from_millis(50)).is_some()
                }
            });
            until(|| lock.try_read().is_none() || writer.is_finished());
            let others = [(); 3].map(|()| s.spawn(|| drop(lock.read())));
            assert!(!writer.join().unwrap());
            others.into_iter().for_each(|other| other.join().unwrap());
        });
        drop(reader);
        assert!(lock.try_write().is_some());
    }
}

#[test]
fn a_reader_may_read_again_while_a_writer_waits() {
    let _watched = watched();
    let lock = RwLock::new(0);
    std::thread::scope(|s| {
        let reader = lock.read();
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        assert!(lock.try_read().is_none(), "others do not come in");
        assert!(lock.try_upgradable_read().is_none());
        assert_eq!(*lock.read_recursive(), 0);
        assert!(lock.try_read_recursive_for(SOON).is_some());
        assert!(lock.read_recursive_with(Wait::forever().interruptible()).is_ok());
        drop(reader);
    });
    assert_eq!(lock.into_inner(), 1);
}

/// A downgrade lets all readers in at once: each waits in the lock for the others.
#[test]
fn a_batch_of_readers_is_in_together() {
    const READERS: usize = 8;
    for downgrade in [false, true] {
        let _watched = watched();
        let lock = RwLock::new(());
        let inside = AtomicUsize::new(0);
        std::thread::scope(|s| {
            let writer = lock.write();
            for _ in 0..READERS {
                s.spawn(|| {
                    let _guard = lock.read();
                    inside.fetch_add(1, Ordering::Relaxed);
                    until(|| inside.load(Ordering::Relaxed) >= READERS);
                });
            }
            // SAFETY: only a look.
            let raw = unsafe { lock.raw() };
            until(|| raw.waiters()[0] >= READERS);
            // A writer, which would close the door if they came in one by one.
            s.spawn(|| drop(lock.write()));
            until(|| raw.waiters()[2] >= 1);
            if downgrade {
                let _reader = RwLockWriteGuard::downgrade(writer);
                until(|| inside.load(Ordering::Relaxed) >= READERS);
            } else {
                RwLockWriteGuard::unlock_fair(writer);
            }
        });
    }
}

#[test]
fn fair_unlocks_hand_over() {
    let _watched = watched();
    let lock = RwLock::new(0);
    std::thread::scope(|s| {
        let reader = lock.read();
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        RwLockReadGuard::unlock_fair(reader);
        // Handed over: no other thread can have been faster.
        assert_eq!(*lock.read(), 1);
        let reader = lock.upgradable_read();
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        RwLockUpgradableReadGuard::unlock_fair(reader);
        assert_eq!(*lock.read(), 2);
        let mut writer = lock.write();
        let turn = s.spawn(|| *lock.read());
        until_waited_for(&lock);
        *writer += 1;
        RwLockWriteGuard::unlock_fair(writer);
        assert_eq!(turn.join().unwrap(), 3);
    });
}

#[test]
fn bumps_let_others_in() {
    let _watched = watched();
    let lock = RwLock::new(0);
    std::thread::scope(|s| {
        let mut writer = lock.write();
        RwLockWriteGuard::bump(&mut writer);
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        RwLockWriteGuard::bump(&mut writer);
        assert_eq!(*writer, 1);
        let mut reader = RwLockWriteGuard::downgrade(writer);
        RwLockReadGuard::bump(&mut reader);
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        RwLockReadGuard::bump(&mut reader);
        assert_eq!(*reader, 2);
        drop(reader);
        let mut upgradable = lock.upgradable_read();
        RwLockUpgradableReadGuard::bump(&mut upgradable);
        s.spawn(|| *lock.write() += 1);
        until_waited_for(&lock);
        RwLockUpgradableReadGuard::bump(&mut upgradable);
        assert_eq!(*upgradable, 3);
    });
}

#[test]
fn one_upgradable_at_a_time_and_the_next_when_it_leaves() {
    let _watched = watched();
    let lock = RwLock::new(0);
    let order = AtomicUsize::new(0);
    std::thread::scope(|s| {
        let first = lock.upgradable_read();
        // No thread ever leaves alone: a reader stays all the time.
        let reader = lock.read();
        for _ in 0..3 {
            s.spawn(|| {
                let next = lock.upgradable_read();
                order.fetch_add(1, Ordering::Relaxed);
                drop(RwLockUpgradableReadGuard::downgrade(next));
            });
        }
        until_waited_for(&lock);
        assert!(lock.try_read().is_some(), "they keep no reader out");
        drop(first);
        until(|| order.load(Ordering::Relaxed) >= 3);
        drop(reader);
    });
}

#[test]
fn an_upgrade_waits_for_readers_and_keeps_new_ones_out() {
    let _watched = watched();
    let lock = RwLock::new(0);
    std::thread::scope(|s| {
        let reader = lock.read();
        let upgrader = s.spawn(|| {
            let mut writer = RwLockUpgradableReadGuard::upgrade(lock.upgradable_read());
            *writer += 1;
        });
        until(|| lock.try_read().is_none());
        s.spawn(|| assert_eq!(*lock.read(), 1, "came after the thread that upgrades"));
        s.spawn(|| drop(lock.write()));
        until_waited_for(&lock);
        assert_eq!(*reader, 0);
        assert_eq!(lock.try_read_recursive().map(|again| *again), Some(0));
        drop(reader);
        upgrader.join().unwrap();
    });
}

/// Readers that overlap forever do not keep a writer out, and writers that follow each other do not keep
/// a reader out.
#[test]
fn no_thread_starves() {
    for few_write in [true, false] {
        let _watched = watched();
        let lock = RwLock::new(());
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let begin = Instant::now();
                        let hold = || while begin.elapsed() < Duration::from_micros(20) {};
                        if few_write {
                            let _guard = lock.read();
                            hold();
                        } else {
                            let _guard = lock.write();
                            hold();
                        }
                    }
                });
            }
            for _ in 0..50 {
                if few_write {
                    drop(lock.write());
                } else {
                    drop(lock.read());
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn interrupted_threads_do_not_wait() {
    let lock = RwLock::new(1);
    let me = crate::thread::current();
    me.interrupt();
    assert!(lock.read_with(Wait::forever().interruptible()).is_err());
    me.interrupt();
    assert!(lock.write_with(Wait::timeout(SOON).interruptible()).is_err());
    me.interrupt();
    assert!(lock.upgradable_read_with(Wait::until(Instant::now()).interruptible()).is_err());
    me.interrupt();
    assert!(lock.read_recursive_with(Wait::forever().interruptible()).is_err());
    me.interrupt();
    assert_eq!(*lock.read(), 1, "takes no notice");
    let reader = lock.upgradable_read();
    let (reader, error) = UpgradeWith::upgrade_with(reader, Wait::forever().interruptible()).unwrap_err();
    assert_eq!(error, WaitError::Interrupted);
    let writer = UpgradeWith::upgrade_with(reader, Wait::until(Instant::now()).interruptible()).unwrap();
    for wait in [Wait::timeout(SOON), Wait::until(Instant::now())].map(Wait::interruptible) {
        assert_eq!(lock.read_with(wait).err(), Some(WaitError::TimedOut));
        assert_eq!(lock.read_recursive_with(wait).err(), Some(WaitError::TimedOut));
        assert_eq!(lock.write_with(wait).err(), Some(WaitError::TimedOut));
        assert_eq!(lock.upgradable_read_with(wait).err(), Some(WaitError::TimedOut));
    }
    drop(writer);
    assert!(lock.write_with(Wait::forever().interruptible()).is_ok());
    assert!(lock.upgradable_read_with(Wait::forever().interruptible()).is_ok());
}

#[test]
fn may_be_unlocked_by_another_thread() {
    let _watched = watched();
    let raw = RawRwLock::new();
    raw.lock_exclusive();
    std::thread::scope(|s| {
        s.spawn(|| {
            // SAFETY: locked above, by a thread that will not unlock it.
            unsafe { raw.unlock_exclusive() };
        });
        raw.lock_shared();
    });
    assert!(raw.is_locked() && !raw.is_locked_exclusive());
}

#[test]
fn a_panic_unlocks() {
    let lock = RwLock::new(0);
    for write in [false, true] {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _reader = (!write).then(|| lock.read());
            let _writer = write.then(|| lock.write());
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        assert!(!lock.is_locked());
    }
}

#[test]
fn guards_can_be_mapped_and_everything_has_a_debug_form() {
    let lock = RwLock::new((1, "two"));
    let part = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
    assert_eq!(*part, "two");
    assert_eq!(format!("{lock:?}"), "RwLock { data: (1, \"two\") }");
    drop(part);
    let mut part = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
    *part += 1;
    assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
    drop(part);
    let reader = lock.upgradable_read();
    assert_eq!(
        // SAFETY: only a look.
        format!("{:?}", unsafe { lock.raw() }),
        "RawRwLock { written: false, readers: 1, upgradable: true, waiters: false }"
    );
    drop(reader);
    assert_eq!(lock.into_inner().0, 2);
}

/// The queues are found by address. If a lock is dropped and its address used again, it must leave
/// nothing behind.
#[test]
fn a_lock_may_die_as_soon_as_its_last_user_is_out() {
    let _watched = watched();
    for _ in 0..500 {
        let lock = std::sync::Arc::new(RwLock::new(0));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let lock = lock.clone();
                std::thread::spawn(move || {
                    if n % 2 == 0 {
                        *lock.write() += 1;
                    } else {
                        assert!(*lock.read() <= 2);
                    }
                })
            })
            .collect();
        drop(lock);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
