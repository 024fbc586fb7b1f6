//! Owners that are written down: whoever has the lock is in the ledger, and nobody else is; without the byte that sends unlocks there,
//! with the owner taken out too late, and taken for one of another lock.
//!
//! Each model is a process of its own (`ci/loom.sh`), so the switch is on in these only.

use std::sync::Arc;

use super::{LOCKED, RawMutex};
use crate::park::current::current;
use crate::park::ledger;
use crate::park::tests::loom_model::{Body, Outcomes, deadline, model, together};
use crate::park::wait_queue;
use crate::shim::atomic::Ordering;
use crate::shim::strike;

#[derive(Default)]
#[repr(align(2048))]
struct Recorded(RawMutex);

impl Recorded {
    fn new() -> Arc<Self> {
        let recorded: Arc<Self> = Arc::default();
        // All comes into being before the threads do.
        recorded.0.acquire();
        recorded.0.release();
        assert_eq!(ledger::holder(recorded.0.key()), None);
        recorded
    }

    fn body(self: &Arc<Self>, run: impl FnOnce(&RawMutex) + Send + 'static) -> Body {
        let this = Arc::clone(self);
        Box::new(move || {
            ledger::begin_here();
            run(&this.0);
        })
    }

    fn ends_free(&self) {
        assert_eq!(self.0.state.0.load(Ordering::Relaxed) & LOCKED, 0);
        assert_eq!(ledger::holder(self.0.key()), None, "left behind");
    }
}

/// The critical section: the owner is the one who is written down.
fn section(mutex: &RawMutex) {
    mutex.acquire();
    assert_eq!(ledger::holder(mutex.key()), Some(current()), "somebody else");
    mutex.release();
}

#[test]
fn the_owner_is_written_down_and_nobody_else() {
    model(|| {
        let recorded = Recorded::new();
        together([recorded.body(section), recorded.body(section)]);
        recorded.ends_free();
    });
}

/// A waiter that gives up says that nobody waits any more; the unlock must come by all the same.
#[test]
fn one_that_gives_up_leaves_the_owner_in() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let recorded = Recorded::new();
        let clock = loom::thread::spawn(strike);
        let seen = seen.clone();
        let timed = recorded.body(move |mutex| {
            let locked = mutex.acquire_until(deadline());
            seen.saw(locked);
            if locked {
                mutex.release();
            }
        });
        together([recorded.body(section), timed]);
        clock.join().unwrap();
        recorded.ends_free();
    });
    outcomes.are_both();
}

/// Who has locked it is not known, and somebody has forgotten a guard of a lock that lay there before.
#[test]
fn who_waits_takes_out_what_was_left() {
    model(|| {
        let recorded = Arc::<Recorded>::default();
        assert!(recorded.0.state.try_take_idle());
        let clock = loom::thread::spawn(strike);
        let waits = recorded.body(|mutex| {
            ledger::waits_for(mutex.key(), current());
            assert!(!mutex.acquire_until(deadline()));
            assert_eq!(ledger::holder(mutex.key()), None, "left behind");
        });
        together([waits]);
        clock.join().unwrap();
    });
}

/// A waiter that does not look for entries before it looks whether anybody is known: by then there is the owner's.
#[test]
#[should_panic(expected = "somebody else")]
fn negative_the_owner_is_taken_for_one_that_left() {
    model(|| {
        let recorded = Arc::<Recorded>::default();
        let waits = |mutex: &RawMutex| {
            if mutex.nobody_is_known() {
                ledger::clear(mutex.key());
            }
        };
        together([recorded.body(section), recorded.body(waits)]);
    });
}

/// A waiter that gives up and stores zero, as if nobody had been written down.
#[test]
#[should_panic(expected = "left behind")]
fn negative_unlocks_that_do_not_come_by() {
    model(|| {
        let recorded = Recorded::new();
        let clears = |mutex: &RawMutex| {
            wait_queue::if_empty(mutex.key(), || mutex.queued.store(0, Ordering::Relaxed));
        };
        together([recorded.body(section), recorded.body(clears)]);
        recorded.ends_free();
    });
}

/// An unlock that takes the owner out when the lock is free: by then it may be the next one.
#[test]
#[should_panic(expected = "somebody else")]
fn negative_taken_out_after_the_unlock() {
    model(|| {
        let recorded = Recorded::new();
        let late = |mutex: &RawMutex| {
            mutex.acquire();
            let released = mutex.state.try_release_idle();
            mutex.forget_owner();
            if !released {
                mutex.release();
            }
        };
        together([recorded.body(late), recorded.body(section)]);
    });
}
