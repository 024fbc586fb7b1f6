//! The read-write lock in states that threads would not bring about.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use lock_api::{RawRwLock as _, RawRwLockFair as _};

use super::super::word::{Mine, Queue, Wish};
use super::{Entry, IfFull, RawRwLock};
use crate::park::current::{current, owner_hint};
use crate::park::priority::Priority;
use crate::park::tests::{until, watched};
use crate::park::wait::Wait;
use crate::park::word_queues;
use crate::shim::MAX_SKIPPED_WAKES;
use crate::sys::child_tests::isolated;

impl RawRwLock {
    /// Returns how many wait in each queue.
    pub(in crate::sync) fn waiters(&self) -> [usize; word_queues::QUEUES] {
        word_queues::with(self.word.address(), |queues| std::array::from_fn(|queue| queues.count(queue)))
    }
}

/// A waiter was woken and does not come: the others do not sleep on.
#[test]
fn a_waiter_that_never_comes_keeps_no_other_asleep() {
    let _watched = watched();
    let lock = RawRwLock::new();
    lock.acquire(Wish::Write);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            lock.acquire(Wish::Write);
            lock.release(Wish::Write);
        });
        until(|| lock.waiters()[Queue::Writers as usize] != 0);
        // The owner of this bit will never come in.
        assert!(lock.word.try_claim_way(lock.bits()));
        for unlocks in 0..MAX_SKIPPED_WAKES {
            lock.release(Wish::Write);
            assert_eq!(lock.waiters()[Queue::Writers as usize], 1, "after {unlocks} unlocks");
            lock.acquire(Wish::Write);
        }
        lock.release(Wish::Write);
        waiter.join().unwrap();
    });
}

/// There are as many readers as there can be; all but one are made up.
#[test]
fn one_reader_too_many_panics_and_changes_nothing() {
    const MOST: usize = 16_777_215;
    let lock = RawRwLock::new();
    let free = lock.bits();
    assert!(lock.word.try_take(free, free.plus_readers(MOST - 1).unwrap()));
    assert_eq!(free.plus_readers(MOST + 1), None);
    lock.acquire(Wish::Read);
    let full = lock.bits();
    assert_eq!(full.readers() as usize, MOST);
    let attempts: [fn(&RawRwLock); 5] = [
        |lock| lock.acquire(Wish::Read),
        |lock| lock.acquire(Wish::ReadAgain),
        |lock| lock.acquire(Wish::Upgradable),
        |lock| assert!(!lock.try_acquire(Wish::Read)),
        |lock| assert!(lock.acquire_with(Wish::Read, Wait::forever()).is_err()),
    ];
    for attempt in attempts {
        let panic = catch_unwind(AssertUnwindSafe(|| attempt(&lock))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"too many readers of a read-write lock"));
        assert_eq!(lock.bits(), full);
    }
    assert!(!lock.try_acquire(Wish::Write));
    lock.release(Wish::Read);
    assert_eq!(lock.bits().readers() as usize, MOST - 1);
}

/// A reader has let others go first, and meanwhile all shares have been taken, its own too. Its guard
/// exists, so it waits for a share instead of panicking.
#[test]
fn a_reader_that_lets_others_go_first_comes_back_however_many_read() {
    const MOST: usize = 16_777_215;
    let _watched = watched();
    for come_back in [Wish::Read, Wish::Upgradable] {
        let lock = RawRwLock::new();
        let free = lock.bits();
        assert!(lock.word.try_take(free, free.plus_readers(MOST).unwrap()));
        let tried = AtomicBool::new(false);
        std::thread::scope(|s| {
            let comes = s.spawn(|| {
                let mut mine = Mine::NOTHING;
                assert_eq!(lock.enter_or_spin(come_back, owner_hint(), &mut mine), Entry::Full);
                tried.store(true, Ordering::Relaxed);
                assert_eq!(lock.acquire_slow(come_back, Wait::forever(), IfFull::Retries), Ok(()));
            });
            until(|| tried.load(Ordering::Relaxed));
            (0..100).for_each(|_| std::thread::yield_now());
            assert!(!comes.is_finished());
            lock.release(Wish::Read);
            comes.join().unwrap();
        });
        assert_eq!(lock.bits().readers() as usize, MOST);
        assert_eq!(lock.bits().has_upgradable(), come_back == Wish::Upgradable);
    }
}

/// Writers of high priority pass a reader by, but not forever.
#[test]
fn a_reader_is_passed_by_so_often_and_no_more() {
    const WRITERS: usize = 24;
    isolated(concat!(module_path!(), "::a_reader_is_passed_by_so_often_and_no_more"), || {
        let lock = &RawRwLock::new();
        let served = &std::sync::Mutex::new(Vec::new());
        let waiters = || lock.waiters().iter().sum::<usize>();
        lock.lock_exclusive();
        std::thread::scope(|s| {
            s.spawn(|| {
                lock.lock_shared();
                served.lock().unwrap().push("reader");
                // SAFETY: acquired above.
                unsafe { lock.unlock_shared_fair() };
            });
            until(|| waiters() != 0);
            for before in 1..=WRITERS {
                s.spawn(|| {
                    current().priority.set(Priority::High);
                    lock.lock_exclusive();
                    served.lock().unwrap().push("writer");
                    // SAFETY: acquired above.
                    unsafe { lock.unlock_exclusive_fair() };
                });
                until(|| waiters() != before);
            }
            // SAFETY: acquired above.
            unsafe { lock.unlock_exclusive_fair() };
        });
        let served = served.lock().unwrap();
        let passed_by = served.iter().position(|&one| one == "reader");
        assert_eq!(passed_by, Some(16), "{served:?}");
    });
}
