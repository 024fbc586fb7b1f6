//! Robust locks in a forked child. If a thread of the parent was acquiring or releasing a lock at the fork,
//! the child inherits that lock.
//!
//! The threads of the parent only acquire and release the locks, so most forks happen in the middle of that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use selvedge::sync::{Condition, RawRobust, RawRobustMutex};
use selvedge::thread::{self, Builder, JoinHandle};
use selvedge::{Mxn, Runtime};

use super::forked::{in_child, panics_end_the_process};
use super::watchdog::Watchdog;
use super::{child, onetoone};

/// So many that nearly every run fails if the lock has no pending entries.
const FORKS: usize = 300;

/// Locks that a green, a bound and a foreign thread acquire all the time: one for each thread, and one that
/// all of them share.
struct Locks {
    own: [RawRobustMutex; 3],
    common: RawRobustMutex,
    over: AtomicBool,
}

impl Locks {
    fn hammer(&self, own: usize) {
        while !self.over.load(SeqCst) {
            for _ in 0..100 {
                for lock in [&self.own[own], &self.common] {
                    assert_eq!(lock.lock(), Ok(Condition::Consistent));
                    assert_eq!(lock.unlock(), Ok(()));
                }
            }
            thread::yield_now();
        }
    }

    /// Called in a child; its only thread owns none of the locks.
    fn are_all_to_be_had(&self) {
        for lock in self.own.iter().chain([&self.common]) {
            let found = lock.try_lock();
            assert!(matches!(found, Ok(Some(Condition::Consistent | Condition::OwnerDied))), "{found:?}");
            lock.mark_consistent();
            assert_eq!(lock.unlock(), Ok(()));
            assert_eq!(lock.lock(), Ok(Condition::Consistent));
            assert_eq!(lock.unlock(), Ok(()));
        }
    }
}

fn forks_among_owners<R: Runtime>(rt: &R) {
    panics_end_the_process();
    let locks = Arc::new(Locks {
        own: [const { RawRobustMutex::new() }; 3],
        common: RawRobustMutex::new(),
        over: AtomicBool::new(false),
    });
    let spawn = |own: usize| -> JoinHandle<()> {
        let locks = Arc::clone(&locks);
        rt.spawn_with(Builder::new().bound(own == 1), move || locks.hammer(own)).expect("a thread")
    };
    let ours = [spawn(0), spawn(1)];
    let theirs = Arc::clone(&locks);
    let foreign = std::thread::spawn(move || theirs.hammer(2));
    // A foreign thread and a thread of the runtime fork in turn.
    for round in 0..FORKS {
        if round % 2 == 0 {
            in_child(|| locks.are_all_to_be_had());
        } else {
            rt.run(|| in_child(|| locks.are_all_to_be_had()));
        }
    }
    locks.over.store(true, SeqCst);
    ours.into_iter().for_each(|thread| thread.join().expect("it only locks"));
    foreign.join().expect("it only locks");
}

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("green_owners", || {
        forks_among_owners(&Mxn::builder().concurrency(2).build().expect("the runtime starts"));
    }),
    ("kernel_owners", || forks_among_owners(&onetoone())),
];

#[test]
fn robust_locks_are_inherited_in_a_child_whenever_it_was_forked() {
    let _watchdog = Watchdog::start("robust_locks_are_inherited_in_a_child_whenever_it_was_forked");
    for role in ["green_owners", "kernel_owners"] {
        child::run(role, &[]).expect_success();
    }
}
