//! The owners of a read-write lock hold different shares of it, and keep out different threads.

use std::sync::Arc;
use std::time::Duration;

use selvedge::Runtime;
use selvedge::sync::{Mutex, RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use selvedge::thread::{self, EndsBy, WaitReason};

use super::real::{assert_cycle, names, spawn};
use super::{BOTH, RT, Scene, Step, child, end, on_named, report_when};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("wants_the_upgradable_share", || on_named(&WantsUpgradable)),
    ("behind_two_writers", || on_named(&BehindTwoWriters)),
    ("upgrades_while_it_reads", || on_named(&UpgradesAndReads)),
    ("reads_what_was_upgraded", || on_named(&ReadsWhatWasUpgraded { others: 0 })),
    ("reads_what_was_handed_over", || on_named(&ReadsWhatWasUpgraded { others: 1 })),
    ("beside_an_unknown_upgradable_reader", || on_named(&BesideUnknown { writes_first: false })),
    ("one_that_wrote_beside_an_unknown_upgradable_reader", || {
        on_named(&BesideUnknown { writes_first: true })
    }),
];

/// Two hold the lock, and only one of them has the share that a third one waits for; that one holds what
/// the second wants.
struct WantsUpgradable;

impl Scene for WantsUpgradable {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let (shared, step) = (Arc::new((RwLock::new(()), Mutex::new(()))), Step::default());
        let (theirs, steps) = (Arc::clone(&shared), step.clone());
        spawn(rt, "reader", move || {
            let _read = theirs.0.read();
            steps.is(1);
            thread::sleep(Duration::from_secs(1000));
        });
        let (theirs, steps) = (Arc::clone(&shared), step.clone());
        spawn(rt, "has it", move || {
            steps.yields_until(1);
            let _read = theirs.0.upgradable_read();
            steps.is(2);
            steps.yields_until(3);
            drop(theirs.1.lock());
        });
        spawn(rt, "wants it", move || {
            step.yields_until(2);
            let _locked = shared.1.lock();
            step.is(3);
            drop(shared.0.upgradable_read());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["has it", "wants it"]);
        end(&report);
    }
}

/// A reader that reads again while two wait for it to leave; only one of them gives up some time.
struct BehindTwoWriters;

impl Scene for BehindTwoWriters {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let (lock, step) = (Arc::new(RwLock::new(())), Step::default());
        let (theirs, steps) = (Arc::clone(&lock), step.clone());
        spawn(rt, "reader", move || {
            let _read = theirs.read();
            steps.is(1);
            steps.yields_until(2);
            drop(theirs.read());
        });
        let (theirs, steps) = (Arc::clone(&lock), step.clone());
        spawn(rt, "patient", move || {
            steps.yields_until(1);
            drop(theirs.write());
        });
        let steps = step.clone();
        spawn(rt, "hurried", move || {
            steps.yields_until(1);
            drop(lock.try_write_for(Duration::from_secs(1000)));
        });
        report_when(rt, |report| report.waiting().len() == 2);
        step.is(2);
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["reader"]);
        assert_eq!(names(report.stuck()), ["patient"], "{report}");
        assert_eq!(names(report.waiting()), ["hurried"], "{report}");
        end(&report);
    }
}

/// One waits for the other readers to leave, and is one of them by another guard.
struct UpgradesAndReads;

impl Scene for UpgradesAndReads {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let lock = Arc::new(RwLock::new(()));
        spawn(rt, "upgrades", move || {
            let _read = lock.read();
            drop(RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()));
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["upgrades"]);
        end(&report);
    }
}

/// A thread that has upgraded writes, and wants what a reader that it keeps out holds.
struct ReadsWhatWasUpgraded {
    /// So many read beside it first.
    others: u64,
}

impl Scene for ReadsWhatWasUpgraded {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let others = self.others;
        let (shared, step) = (Arc::new((RwLock::new(()), Mutex::new(()))), Step::default());
        for _ in 0..others {
            let (theirs, steps) = (Arc::clone(&shared), step.clone());
            spawn(rt, "other", move || {
                let _read = theirs.0.read();
                steps.is(1);
                steps.yields_until(2);
            });
        }
        let (theirs, steps) = (Arc::clone(&shared), step.clone());
        spawn(rt, "upgrades", move || {
            steps.yields_until(others);
            let _written = RwLockUpgradableReadGuard::upgrade(theirs.0.upgradable_read());
            steps.is(3);
            steps.yields_until(4);
            drop(theirs.1.lock());
        });
        if others > 0 {
            report_when(rt, |report| {
                report.waiting().iter().any(|thread| thread.reason() == WaitReason::RwLock)
            });
            step.is(2);
        }
        spawn(rt, "reads", move || {
            step.yields_until(3);
            let _locked = shared.1.lock();
            step.is(4);
            drop(shared.0.read());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["reads", "upgrades"]);
        end(&report);
    }
}

/// The owner of the upgradable share is not known. A waiter for it does not wait for the reader that is
/// known.
struct BesideUnknown {
    /// The reader has written before.
    writes_first: bool,
}

impl Scene for BesideUnknown {
    fn play<R: Runtime>(&self, rt: &R) {
        let (lock, step, writes_first) = (Arc::new(RwLock::new(())), Step::default(), self.writes_first);
        let (theirs, steps) = (Arc::clone(&lock), step.clone());
        // Locks before owners are recorded, and does not wait after.
        let unknown = std::thread::spawn(move || {
            drop(Mutex::new(()).lock());
            steps.is(1);
            steps.awaits(3);
            let _read = theirs.upgradable_read();
            steps.is(4);
            steps.awaits(6);
        });
        step.awaits(1);
        thread::record_owners();
        let (theirs, steps) = (Arc::clone(&lock), step.clone());
        let wants = spawn(rt, "wants it", move || {
            steps.yields_until(5);
            drop(theirs.upgradable_read());
        });
        let steps = step.clone();
        let reader = spawn(rt, "reader", move || {
            let _read = if writes_first { RwLockWriteGuard::downgrade(lock.write()) } else { lock.read() };
            steps.is(3);
            steps.yields_until(4);
            steps.is(5);
            wants.join().unwrap();
        });
        let report = report_when(rt, |report| {
            let waits_for = |reason| report.waiting().iter().any(|thread| thread.reason() == reason);
            report.any() || waits_for(WaitReason::RwLock) && waits_for(WaitReason::Join)
        });
        let wants = report.waiting().iter().find(|thread| thread.reason() == WaitReason::RwLock);
        let Some(wants) = wants.filter(|_| !report.any()) else {
            println!("{report}");
            std::process::exit(1);
        };
        assert_eq!(wants.ends_by(), EndsBy::UnknownOwner, "{report}");
        assert_eq!(wants.owners().len(), 1, "{report}");
        step.is(6);
        unknown.join().unwrap();
        reader.join().unwrap();
        println!("played");
    }
}

#[test]
fn shares_are_of_kinds() {
    for (role, _) in ROLES {
        for rt in BOTH {
            let ended = child::run(role, &[(RT, rt)]);
            ended.expect_success();
            assert!(ended.said.contains("played"), "{role} on {rt}: {ended:?}");
        }
    }
}
