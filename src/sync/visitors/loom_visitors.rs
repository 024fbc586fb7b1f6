//! Visitors that leave while a thread destroys the object. Negative twins leave unordered or do not look for
//! the destroyer, close without the bucket lock, or do not read the word after a grant.

use std::sync::Arc;

use super::{CLOSED, Visitors};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Letter, body, model, model_within, together};
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options};
use crate::shim::atomic::Ordering;

/// An object that visitors read until they leave.
#[repr(align(2048))]
struct Room {
    visitors: Visitors,
    object: Letter,
}

/// How visitors leave, and how the destroyer waits for that.
#[derive(Clone, Copy)]
struct Ways {
    leave: fn(&Visitors),
    until_none: fn(&Visitors),
}

const RIGHT: Ways =
    Ways { leave: Visitors::leave, until_none: |visitors| visitors.until_none(WaitReason::Barrier) };

impl Room {
    /// Makes a room that `visitors` threads have entered.
    fn with(visitors: u32) -> Arc<Self> {
        let room = Self { visitors: Visitors::none(), object: Letter::default() };
        (0..visitors).for_each(|_| room.visitors.enter());
        // Creates all of loom's objects before the threads start.
        assert_eq!(room.object.read(), 0);
        assert!(room.visitors.are_some());
        Arc::new(room)
    }
}

fn visit(leave: fn(&Visitors)) -> impl FnOnce(&Room) + Send {
    move |room| {
        room.object.read();
        leave(&room.visitors);
    }
}

fn destroy(until_none: fn(&Visitors)) -> impl FnOnce(&Room) + Send {
    move |room| {
        until_none(&room.visitors);
        room.object.write(1);
    }
}

fn two_leave(ways: Ways) {
    model_within(1, move || {
        let room = Room::with(2);
        together([
            body(&room, destroy(ways.until_none)),
            body(&room, visit(ways.leave)),
            body(&room, visit(ways.leave)),
        ]);
    });
}

#[test]
fn the_object_is_the_destroyers_when_all_have_left() {
    two_leave(RIGHT);
}

fn one_leaves(ways: Ways) {
    model(move || {
        let room = Room::with(1);
        together([body(&room, destroy(ways.until_none)), body(&room, visit(ways.leave))]);
    });
}

#[test]
fn a_destroyer_waits_for_one() {
    one_leaves(RIGHT);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_left_unordered() {
    one_leaves(Ways {
        leave: |visitors| {
            if visitors.0.fetch_sub(1, Ordering::Relaxed) == CLOSED | 1 {
                visitors.wake();
            }
        },
        ..RIGHT
    });
}

/// The grant orders the last visitor before the destroyer, and not the others.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_not_read_after_the_grant() {
    two_leave(Ways {
        until_none: |visitors| {
            let options = Options::new(WaitReason::Barrier, Wait::forever());
            let are_some = || visitors.0.fetch_or(CLOSED, Ordering::Relaxed) != 0;
            if wait_queue::wait(visitors.key(), &options, are_some, || ()).is_err() {
                visitors.0.load(Ordering::Acquire);
            }
        },
        ..RIGHT
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_destroyer_is_not_looked_for() {
    one_leaves(Ways { leave: |visitors| _ = visitors.0.fetch_sub(1, Ordering::Release), ..RIGHT });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_closed_without_the_lock() {
    one_leaves(Ways {
        until_none: |visitors| {
            if visitors.0.fetch_or(CLOSED, Ordering::Acquire) != 0 {
                let options = Options::new(WaitReason::Barrier, Wait::forever());
                let _ = wait_queue::wait(visitors.key(), &options, || true, || ());
            }
        },
        ..RIGHT
    });
}
