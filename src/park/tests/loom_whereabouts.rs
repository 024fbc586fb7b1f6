//! A look at a thread's waits from outside: the number, the reason and the place are of one wait.

use std::sync::Arc;

use super::{TIMED, Whereabouts};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Outcomes, model};
use crate::shim::atomic::Ordering;

/// Where the wait of this number is.
fn place(turn: u32) -> usize {
    100 + turn as usize
}

/// A thread waits twice, by `waits`, while another looks.
fn two_waits(waits: fn(&Whereabouts, WaitReason), outcomes: &Outcomes) {
    let whereabouts = Arc::new(Whereabouts::new());
    // All comes into being before the threads do.
    assert_eq!((whereabouts.home.load(Ordering::Relaxed), whereabouts.wait()), (0, None));
    let thread = {
        let whereabouts = Arc::clone(&whereabouts);
        loom::thread::spawn(move || {
            for (turn, reason) in [(1, WaitReason::Mutex), (2, WaitReason::Mutex)] {
                whereabouts.at(place(turn));
                waits(&whereabouts, reason);
                whereabouts.goes_on();
            }
        })
    };
    let seen = whereabouts.wait();
    outcomes.saw(seen.is_some());
    if let Some((turn, reason, at, timed)) = seen {
        assert_eq!((reason, timed), (WaitReason::Mutex, false));
        assert_eq!(at, place(turn), "the place of another wait");
    }
    thread.join().unwrap();
}

#[test]
fn a_look_finds_the_place_of_the_wait_that_it_numbers() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || two_waits(|whereabouts, reason| whereabouts.waits(reason, false), &seen));
    outcomes.are_both();
}

/// The number is not ordered after the place: it is seen before that, and before the end of the wait before.
#[test]
#[should_panic(expected = "the place of another wait")]
fn negative_numbered_without_release() {
    model(|| {
        let waits = |whereabouts: &Whereabouts, reason: WaitReason| {
            let turn = whereabouts.turn.load(Ordering::Relaxed);
            whereabouts.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
            whereabouts.reason.store(reason as u8 & !TIMED, Ordering::Release);
        };
        two_waits(waits, &Outcomes::default());
    });
}

/// The reason is not ordered after the number: a look at the next wait takes it for the one before.
#[test]
#[should_panic(expected = "the place of another wait")]
fn negative_reason_without_release() {
    model(|| {
        let waits = |whereabouts: &Whereabouts, reason: WaitReason| {
            let turn = whereabouts.turn.load(Ordering::Relaxed);
            whereabouts.turn.store(turn.wrapping_add(1), Ordering::Release);
            whereabouts.reason.store(reason as u8 & !TIMED, Ordering::Relaxed);
        };
        two_waits(waits, &Outcomes::default());
    });
}
