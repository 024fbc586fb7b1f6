//! Deadlocks over read-write locks, which have many owners, and over initializations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::sync::{Barrier, Mutex, Once, RwLock, RwLockUpgradableReadGuard};
use selvedge::thread::{self, EndsBy, WaitReason};
use selvedge::{Runtime, sync::stats};

use super::real::{assert_cycle, names, spawn};
use super::{BOTH, RT, Scene, child, end, meet, on_named, report_when};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("write_read", || on_named(&WriteRead)),
    ("read_again_behind_a_writer", || on_named(&ReadAgain { timed: false })),
    ("read_again_behind_one_that_gives_up", || on_named(&ReadAgain { timed: true })),
    ("two_readers_write", || on_named(&TwoReadersWrite)),
    ("upgrade", || on_named(&Upgrade)),
    ("once", || on_named(&Initialization)),
    ("nothing_is_left", || on_named(&NothingIsLeft)),
];

/// One thread writes and wants the mutex. The mutex's owner wants to read.
struct WriteRead;

impl Scene for WriteRead {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let shared = Arc::new((RwLock::new(()), Mutex::new(()), Barrier::new(2)));
        stats::name(&shared.0, "the table");
        let theirs = Arc::clone(&shared);
        spawn(rt, "writer", move || {
            let _written = theirs.0.write();
            meet(&theirs.2);
            drop(theirs.1.lock());
        });
        spawn(rt, "reader", move || {
            let _locked = shared.1.lock();
            meet(&shared.2);
            drop(shared.0.read());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["reader", "writer"]);
        let reader =
            report.cycles()[0].threads().iter().find(|thread| thread.name() == Some("reader")).unwrap();
        assert_eq!((reader.reason(), reader.called()), (WaitReason::RwLock, Some("the table")));
        end(&report);
    }
}

/// A reader that reads again, while a writer waits for it to leave: forever, or as long as the writer does.
struct ReadAgain {
    timed: bool,
}

impl Scene for ReadAgain {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let timed = self.timed;
        let lock = Arc::new((RwLock::new(()), Barrier::new(2)));
        let theirs = Arc::clone(&lock);
        spawn(rt, "reader", move || {
            let _read = theirs.0.read();
            meet(&theirs.1);
            // SAFETY: nothing is unlocked.
            while !format!("{:?}", unsafe { theirs.0.raw() }).contains("waiters: true") {
                thread::yield_now();
            }
            drop(theirs.0.read());
        });
        spawn(rt, "writer", move || {
            meet(&lock.1);
            if timed {
                drop(lock.0.try_write_for(Duration::from_secs(1000)));
            } else {
                drop(lock.0.write());
            }
        });
        if timed {
            let report = report_when(rt, |report| report.waiting().len() == 2);
            assert!(!report.any(), "{report}");
            let reader = report.waiting().iter().find(|thread| thread.name() == Some("reader")).unwrap();
            assert_ne!(reader.ends_by(), EndsBy::Nothing);
            end(&report);
        }
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["reader"]);
        assert_eq!(names(report.stuck()), ["writer"]);
        end(&report);
    }
}

/// Each reads, and wants to write, and so waits for both.
struct TwoReadersWrite;

impl Scene for TwoReadersWrite {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let shared = Arc::new((RwLock::new(()), Barrier::new(2)));
        for name in ["one", "two"] {
            let shared = Arc::clone(&shared);
            spawn(rt, name, move || {
                let _read = shared.0.read();
                meet(&shared.1);
                drop(shared.0.write());
            });
        }
        let report = report_when(rt, |report| {
            report.cycles().iter().map(|cycle| cycle.threads().len()).sum::<usize>() + report.stuck().len()
                == 2
        });
        assert!(report.cycles()[0].threads()[0].owners().len() == 2, "{report}");
        end(&report);
    }
}

/// One upgrades and waits for a reader, that joins it.
struct Upgrade;

impl Scene for Upgrade {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let shared = Arc::new((RwLock::new(()), Barrier::new(2)));
        let theirs = Arc::clone(&shared);
        let upgrades = spawn(rt, "upgrades", move || {
            let read = theirs.0.upgradable_read();
            meet(&theirs.1);
            drop(RwLockUpgradableReadGuard::upgrade(read));
        });
        spawn(rt, "reader", move || {
            let _read = shared.0.read();
            meet(&shared.1);
            upgrades.join().unwrap();
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["reader", "upgrades"]);
        end(&report);
    }
}

/// The closure waits for a lock, and the lock's owner waits for the closure.
struct Initialization;

impl Scene for Initialization {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let shared = Arc::new((Once::new(), Mutex::new(()), Barrier::new(2)));
        let theirs = Arc::clone(&shared);
        spawn(rt, "initializer", move || {
            theirs.0.call_once(|| {
                meet(&theirs.2);
                drop(theirs.1.lock());
            });
        });
        spawn(rt, "user", move || {
            let _locked = shared.1.lock();
            meet(&shared.2);
            shared.0.call_once(|| ());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["initializer", "user"]);
        end(&report);
    }
}

/// A thread that has left a lock, in whatever way, is not its owner any more.
struct NothingIsLeft;

impl Scene for NothingIsLeft {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let lock = Arc::new(RwLock::new(0));
        let theirs = Arc::clone(&lock);
        let came_and_went = spawn(rt, "came and went", move || {
            for _ in 0..100 {
                assert!(theirs.try_read().is_some());
                // The others may be preempted with the lock in their hands; after the last turn of this
                // loop one of them keeps it.
                assert!(theirs.try_write_for(Duration::from_secs(50)).is_some());
                drop(theirs.read());
                *theirs.write() += 1;
                let upgradable = theirs.upgradable_read();
                let mut written = RwLockUpgradableReadGuard::upgrade(upgradable);
                *written += 1;
                drop(selvedge::sync::RwLockWriteGuard::downgrade(written));
                drop(RwLockUpgradableReadGuard::downgrade(theirs.upgradable_read()));
            }
            thread::park();
        });
        let (theirs, held) = (Arc::clone(&lock), Arc::new(AtomicBool::new(false)));
        let holds = Arc::clone(&held);
        // Another thread holds it.
        spawn(rt, "holder", move || {
            while *theirs.read() < 200 {
                thread::yield_now();
            }
            let _read = theirs.read();
            holds.store(true, Ordering::Release);
            thread::sleep(Duration::from_secs(1000));
        });
        let waits = Arc::clone(&lock);
        spawn(rt, "waits", move || {
            while !held.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(waits.write());
        });
        let report = report_when(rt, |report| {
            report.waiting().iter().any(|thread| thread.reason() == WaitReason::RwLock)
                && report.waiting().len() == 3
        });
        let waits = report.waiting().iter().find(|thread| thread.name() == Some("waits")).unwrap();
        let owners: Vec<_> = waits.owners().collect();
        assert_eq!(owners.len(), 1, "{report}");
        assert_eq!(owners[0].1, Some("holder"), "{report}");
        assert!(waits.ends_by() == EndsBy::Owner && !report.any(), "{report}");
        drop(came_and_went);
        end(&report);
    }
}

#[test]
fn of_many_owners_too() {
    for (role, _) in ROLES {
        for rt in BOTH {
            let ended = child::run(role, &[(RT, rt)]);
            ended.expect_success();
            assert!(ended.said.contains("played"), "{role} on {rt}: {ended:?}");
        }
    }
}
