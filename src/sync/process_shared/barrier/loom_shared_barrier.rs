//! The barrier between processes: arrivals that race, and one that is taken back. Negative twins wait for the
//! wrong round, or take back what has counted.

use std::sync::Arc;
use std::time::Duration;

use super::{Barrier, EndOf, How, Wait, process, shared_futex};
use crate::park::tests::loom_model::{Core, body, both_outcomes, model, on, together};
use crate::shim;
use crate::shim::atomic::Ordering;

/// The state after one round of two.
const ROUND: u32 = 2;

#[repr(align(2048))]
struct Room(Barrier);

impl Room {
    fn new() -> Arc<Self> {
        let room = Arc::new(Self(Barrier::new(2)));
        // Loom's objects are created at their first use, so use them all before the threads start.
        process::this();
        let first = Core::new();
        on(first.thread(), || {
            // Relaxed: no thread has started.
            room.0.threads.load(Ordering::Relaxed);
            room.0.last.load(Ordering::Relaxed);
            room.0.state.fetch_add(1, Ordering::Relaxed);
            assert!(room.0.take_back(0));
        });
        room
    }

    fn ends(&self) {
        assert_eq!(self.0.state.load(Ordering::Relaxed), ROUND);
    }
}

/// Arrives, and sleeps without waiting awake. Returns `true` if the round is over.
fn pass_with(room: &Room, wait: Wait) -> bool {
    let round = room.0.arrive(2, process::this().id);
    // Without naps, which would end at once when the clock has struck.
    let how = How { wait, nap: None, near: false };
    round.is_none_or(|round| room.0.sleep_until_end(round, how).is_ok())
}

fn pass(room: &Room) {
    assert!(pass_with(room, Wait::forever()));
}

#[test]
fn all_pass() {
    model(|| {
        let room = Room::new();
        together([body(&room, pass), body(&room, pass)]);
        room.ends();
    });
}

#[test]
fn an_arrival_counts_or_is_taken_back() {
    both_outcomes(model, |seen| {
        let room = Room::new();
        let seen = seen.clone();
        let late = move |room: &Room| {
            // Its time has passed once the clock has struck and is read again.
            let soon = shim::now().checked_add(Duration::from_millis(1));
            let passed = pass_with(room, Wait::by(soon));
            seen.saw(!passed);
            if !passed {
                pass(room);
            }
        };
        let comes = |room: &Room| {
            shim::strike();
            pass(room);
        };
        together([body(&room, comes), body(&room, late)]);
        room.ends();
    });
}

/// A thread reads the round after it has arrived, so it may wait for the next one.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_round_read_too_late() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            let state = &room.0.state;
            if state.fetch_add(1, Ordering::AcqRel) == 1 {
                state.store(ROUND, Ordering::Release);
                return shared_futex::wake(state, u32::MAX);
            }
            let round = room.0.round_of(state.load(Ordering::Acquire));
            let how = How { wait: Wait::forever(), nap: None, near: false };
            let _ = shared_futex::wait(&mut EndOf(&room.0, round), how);
        };
        together([body(&room, pass), body(&room, wrong)]);
    });
}
