//! A look at a thread's waits from outside: the number, the reason and the address are of one wait.

use std::sync::Arc;

use super::{TIMED, WaitState};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Outcomes, both_outcomes, model, spawn_with};
use crate::shim::atomic::Ordering;

/// Returns the address of the wait of this number.
fn address(serial: u32) -> usize {
    100 + serial as usize
}

/// Lets a thread wait twice, by `waits`, while another thread looks.
fn two_waits(waits: fn(&WaitState, WaitReason), outcomes: &Outcomes) {
    let wait_state = Arc::new(WaitState::new());
    // Everything must exist before the threads do.
    assert_eq!((wait_state.home.load(Ordering::Relaxed), wait_state.wait()), (0, None));
    let thread = spawn_with(Arc::clone(&wait_state), move |wait_state| {
        for (serial, reason) in [(1, WaitReason::Mutex), (2, WaitReason::Mutex)] {
            wait_state.at(address(serial));
            waits(&wait_state, reason);
            wait_state.goes_on();
        }
    });
    let seen = wait_state.wait();
    outcomes.saw(seen.is_some());
    if let Some((serial, reason, at, timed)) = seen {
        assert_eq!((reason, timed), (WaitReason::Mutex, false));
        assert_eq!(at, address(serial), "the address of another wait");
    }
    thread.join().unwrap();
}

#[test]
fn a_look_finds_the_place_of_the_wait_that_it_numbers() {
    both_outcomes(model, |seen| two_waits(|wait_state, reason| wait_state.waits(reason, false), seen));
}

/// The number is not ordered after the address. A look sees it before the address, and before the end of the
/// wait before.
#[test]
#[should_panic(expected = "the address of another wait")]
fn negative_numbered_without_release() {
    model(|| {
        let waits = |wait_state: &WaitState, reason: WaitReason| {
            let serial = wait_state.serial.load(Ordering::Relaxed);
            wait_state.serial.store(serial.wrapping_add(1), Ordering::Relaxed);
            wait_state.reason.store(reason as u8 & !TIMED, Ordering::Release);
        };
        two_waits(waits, &Outcomes::default());
    });
}

/// The reason is not ordered after the number. A look takes the next wait for the one before.
#[test]
#[should_panic(expected = "the address of another wait")]
fn negative_reason_without_release() {
    model(|| {
        let waits = |wait_state: &WaitState, reason: WaitReason| {
            let serial = wait_state.serial.load(Ordering::Relaxed);
            wait_state.serial.store(serial.wrapping_add(1), Ordering::Release);
            wait_state.reason.store(reason as u8 & !TIMED, Ordering::Relaxed);
        };
        two_waits(waits, &Outcomes::default());
    });
}
