//! The two sides of a cell leave in every order: the result is dropped once, by a side that sees it, and the cell is
//! freed once, by the side that leaves second.

use std::sync::Arc;

use super::{BOTH, EMPTY, Left, ONE, Sides};
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, Ordering};

/// A cell as far as its sides show.
struct Model {
    sides: Sides,
    /// Written by the thread before it leaves, read by whoever drops it: loom reports an access that is not ordered.
    result: UnsafeCell<u32>,
    freed: AtomicU32,
}

// SAFETY: what the models are to show.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn side(&self, as_what: u32, leave: fn(&Sides, u32) -> Left) {
        match leave(&self.sides, as_what) {
            Left::First => return,
            Left::LastWithResult => {
                // SAFETY: checked by loom.
                assert_eq!(self.result.with(|result| unsafe { *result }), 7, "a result that is not there");
            }
            Left::LastWithout => {}
        }
        assert_eq!(self.freed.fetch_add(1, Ordering::Relaxed), 0, "freed twice");
    }
}

/// A thread that leaves as `thread`, and a claim that is dropped meanwhile.
fn both_leave(thread: u32, leave: fn(&Sides, u32) -> Left) {
    loom::model(move || {
        let model =
            Arc::new(Model { sides: Sides::new(), result: UnsafeCell::new(0), freed: AtomicU32::new(0) });
        // The model's atomics and cells come into being at their first use: before the other thread starts.
        // SAFETY: nobody else has it yet.
        assert_eq!(model.result.with(|result| unsafe { *result }), model.freed.load(Ordering::Relaxed));
        assert!(!model.sides.has_result());
        let theirs = Arc::clone(&model);
        let other = loom::thread::spawn(move || {
            if thread == ONE {
                // SAFETY: checked by loom.
                theirs.result.with_mut(|result| unsafe { *result = 7 });
            }
            theirs.side(thread, leave);
        });
        model.side(ONE, leave);
        other.join().unwrap();
        assert_eq!(model.freed.load(Ordering::Relaxed), 1, "leaked");
    });
}

#[test]
fn a_thread_that_ran_and_a_claim() {
    both_leave(ONE, Sides::leave);
}

#[test]
fn a_thread_that_was_not_started_and_a_claim() {
    both_leave(EMPTY, Sides::leave);
}

/// Each looks before it writes: both may find the other still there.
#[test]
#[should_panic(expected = "leaked")]
fn negative_look_then_write() {
    both_leave(ONE, |sides, as_what| {
        if sides.0.load(Ordering::Acquire) != BOTH {
            return Left::LastWithResult;
        }
        sides.0.store(as_what, Ordering::Release);
        Left::First
    });
}

/// The swap without its release: the second may not see the result.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_swap_without_release() {
    both_leave(ONE, |sides, as_what| match sides.0.swap(as_what, Ordering::Relaxed) {
        BOTH => Left::First,
        _ => Left::LastWithResult,
    });
}
