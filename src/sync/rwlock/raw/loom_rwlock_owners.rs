//! Models of recorded owners of a read-write lock: each thread that is in is in the record. A negative model
//! removes what others recorded at the same moment.
//!
//! Each model is a process of its own (`ci/loom.sh`), so the switch is on in these only.

use std::sync::Arc;

use super::super::word::Wish;
use super::RawRwLock;
use crate::observe::lock_owners;
use crate::park::current::current;
use crate::park::tests::loom_model::{Body, model, together};

#[derive(Default)]
#[repr(align(2048))]
struct Recorded(RawRwLock);

impl Recorded {
    /// Returns how many entries the running thread has at this lock.
    fn entries(&self) -> usize {
        let key = self.0.word.address();
        let mine = |holder: &lock_owners::Holder| holder.thread == current();
        lock_owners::all().iter().filter(|(at, holder)| *at == key && mine(holder)).count()
    }

    fn read(&self) {
        self.0.acquire(Wish::Read);
        assert_eq!(self.entries(), 1, "not in the record");
        self.0.release(Wish::Read);
        assert_eq!(self.entries(), 0, "left behind");
    }
}

/// Runs two threads at a lock of which no owner has been recorded yet.
fn at_once(one: fn(&Recorded), two: fn(&Recorded)) {
    model(move || {
        let recorded = Arc::<Recorded>::default();
        // Creates all of loom's objects before the threads start.
        let _ = (recorded.0.owner(), recorded.0.bits());
        assert_eq!(recorded.entries(), 0);
        together([one, two].map(|run| {
            let recorded = Arc::clone(&recorded);
            Box::new(move || {
                lock_owners::begin_here();
                run(&recorded);
            }) as Body
        }));
        assert_eq!(recorded.0.bits().readers(), 0);
    });
}

#[test]
fn two_readers_are_recorded_first() {
    at_once(Recorded::read, Recorded::read);
}

/// The first one to be recorded removes all that lies at the lock, another reader's entry too.
#[test]
#[should_panic(expected = "not in the record")]
fn negative_the_first_removes_the_second() {
    let removes_all = |recorded: &Recorded| {
        if recorded.0.word.record() {
            lock_owners::clear(recorded.0.word.address());
        }
    };
    at_once(removes_all, Recorded::read);
}
