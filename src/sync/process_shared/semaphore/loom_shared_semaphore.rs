//! The semaphore between processes: permits that come while threads begin to wait. Negative twins wait
//! uncounted, or look before they are counted.

use std::sync::Arc;

use super::{How, Permits, Semaphore, Wait, process, shared_futex};
use crate::park::tests::loom_model::{Core, body, model, model_within, on, together};
use crate::shim::atomic::Ordering;

#[repr(align(2048))]
struct Room(Semaphore);

impl Room {
    fn new() -> Arc<Self> {
        let room = Arc::new(Self(Semaphore::new(0)));
        // Loom's objects are created at their first use, so use them all before the threads start.
        process::this();
        let first = Core::new();
        on(first.thread(), || {
            room.0.add_permits(2);
            room.take(2);
        });
        room
    }

    /// Takes `n` permits, and does not wait awake for them.
    fn take(&self, n: u32) {
        self.0.take_asleep(n, Wait::forever()).unwrap();
    }

    fn ends(&self) {
        assert_eq!(self.0.available_permits(), 0);
        assert_eq!(self.0.waiting.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_permit_is_not_lost() {
    model(|| {
        let room = Room::new();
        together([body(&room, |room| room.take(1)), body(&room, |room| room.0.add_permits(1))]);
        room.ends();
    });
}

#[test]
fn two_permits_are_for_two() {
    model_within(1, || {
        let room = Room::new();
        let take = |room: &Room| room.take(1);
        together([body(&room, take), body(&room, take), body(&room, |room| room.0.add_permits(2))]);
        room.ends();
    });
}

#[test]
fn requests_for_one_and_for_several_are_met() {
    model_within(1, || {
        let room = Room::new();
        let adds = |room: &Room| {
            room.0.add_permits(1);
            room.0.add_permits(2);
        };
        together([body(&room, |room| room.take(2)), body(&room, |room| room.take(1)), body(&room, adds)]);
        room.ends();
    });
}

fn sleep_once(semaphore: &Semaphore) {
    let how = How { wait: Wait::forever(), nap: None, near: false };
    let _ = shared_futex::wait(&mut Permits(semaphore, 1), how);
}

/// A waiter does not say that it waits.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_not_counted() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            while !room.0.try_take(1) {
                sleep_once(&room.0);
            }
        };
        together([body(&room, |room| room.0.add_permits(1)), body(&room, wrong)]);
    });
}

/// A permit for one wakes one waiter, though that wants two.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_one_woken_where_one_wants_several() {
    model_within(1, || {
        let room = Room::new();
        let adds = |room: &Room| {
            for n in [1, 2] {
                room.0.permits.fetch_add(n, Ordering::Release);
                shared_futex::wake(&room.0.permits, 1);
            }
        };
        let wants_two = |room: &Room| room.0.take_counted(2, Wait::forever()).unwrap();
        let wants_one = |room: &Room| room.0.take_counted(1, Wait::forever()).unwrap();
        together([body(&room, wants_two), body(&room, wants_one), body(&room, adds)]);
    });
}
