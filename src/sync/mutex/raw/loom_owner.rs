//! Models of recorded owners: the owner of a lock is in the record, and no other thread is. Negative
//! models leave out the byte that sends unlocks there, remove the owner too late, or take it for the
//! owner of another lock.
//!
//! Each model is a process of its own (`ci/loom.sh`), so the switch is on in these only.

use std::sync::Arc;

use super::{LOCKED, RawMutex};
use crate::observe::lock_owners;
use crate::park::current::current;
use crate::park::tests::loom_model::{Body, both_outcomes, deadline, model, together};
use crate::park::wait::Wait;
use crate::park::wait_queue;
use crate::shim::atomic::Ordering;
use crate::shim::strike;

#[derive(Default)]
#[repr(align(2048))]
struct Recorded(RawMutex);

impl Recorded {
    fn new() -> Arc<Self> {
        let recorded: Arc<Self> = Arc::default();
        // Creates all of loom's objects before the threads start.
        recorded.0.acquire();
        recorded.0.release();
        assert_eq!(lock_owners::holder(recorded.0.key()), None);
        recorded
    }

    fn body(self: &Arc<Self>, run: impl FnOnce(&RawMutex) + Send + 'static) -> Body {
        let this = Arc::clone(self);
        Box::new(move || {
            lock_owners::begin_here();
            run(&this.0);
        })
    }

    fn ends_free(&self) {
        assert_eq!(self.0.word.0.load(Ordering::Relaxed) & LOCKED, 0);
        assert_eq!(lock_owners::holder(self.0.key()), None, "left behind");
    }
}

/// Runs the critical section: the owner is the recorded one.
fn section(mutex: &RawMutex) {
    mutex.acquire();
    assert_eq!(lock_owners::holder(mutex.key()), Some(current()), "another owner");
    mutex.release();
}

#[test]
fn the_owner_is_recorded_and_no_other_thread() {
    model(|| {
        let recorded = Recorded::new();
        together([recorded.body(section), recorded.body(section)]);
        recorded.ends_free();
    });
}

/// A waiter that gives up clears the note of waiters. The unlock must still come by.
#[test]
fn one_that_gives_up_leaves_the_owner_in() {
    both_outcomes(model, |seen| {
        let recorded = Recorded::new();
        let clock = loom::thread::spawn(strike);
        let seen = seen.clone();
        let timed = recorded.body(move |mutex| {
            let locked = mutex.acquire_with(Wait::by(deadline())).is_ok();
            seen.saw(locked);
            if locked {
                mutex.release();
            }
        });
        together([recorded.body(section), timed]);
        clock.join().unwrap();
        recorded.ends_free();
    });
}

/// The owner has not been recorded, and a guard of a lock that lay there before has been forgotten.
#[test]
fn a_waiter_takes_out_what_was_left() {
    model(|| {
        let recorded = Arc::<Recorded>::default();
        assert!(recorded.0.word.try_take_idle());
        let clock = loom::thread::spawn(strike);
        let waits = recorded.body(|mutex| {
            lock_owners::waits_for(mutex.key(), current());
            assert!(mutex.acquire_with(Wait::by(deadline())).is_err());
            assert_eq!(lock_owners::holder(mutex.key()), None, "left behind");
        });
        together([waits]);
        clock.join().unwrap();
    });
}

/// A waiter looks for old entries after it has looked if an owner is known: by then there is the owner's
/// entry.
#[test]
#[should_panic(expected = "another owner")]
fn negative_the_owner_is_taken_for_one_that_left() {
    model(|| {
        let recorded = Recorded::new();
        let waits = |mutex: &RawMutex| {
            if mutex.no_owner_is_known() {
                lock_owners::clear(mutex.key());
            }
        };
        together([recorded.body(section), recorded.body(waits)]);
    });
}

/// A waiter gives up and stores zero, as if no owner had been recorded.
#[test]
#[should_panic(expected = "left behind")]
fn negative_unlocks_that_do_not_come_by() {
    model(|| {
        let recorded = Recorded::new();
        let clears = |mutex: &RawMutex| {
            wait_queue::if_empty(mutex.key(), || mutex.queued.0.store(0, Ordering::Relaxed));
        };
        together([recorded.body(section), recorded.body(clears)]);
        recorded.ends_free();
    });
}

/// An unlock removes the owner when the lock is free: by then it may be the next one.
#[test]
#[should_panic(expected = "another owner")]
fn negative_taken_out_after_the_unlock() {
    model(|| {
        let recorded = Recorded::new();
        let late = |mutex: &RawMutex| {
            mutex.acquire();
            let released = mutex.word.try_release_idle();
            mutex.forget_owner();
            if !released {
                mutex.release();
            }
        };
        together([recorded.body(late), recorded.body(section)]);
    });
}
