//! The gate: a notification while a thread begins to wait with a mutex of another kind. Negative twins lock
//! the gate too late, or do not pass it.

use std::sync::Arc;

use lock_api::RawMutex as _;
use loom::sync::Mutex;

use super::{Gate, Wait};
use crate::park::tests::loom_model::{body, deadline, model, model_within, together};
use crate::shim::MODEL_STRIDE;
use crate::sync::Condvar;

/// A condition, its mutex, and what threads wait by.
#[repr(C, align(2048))]
struct Room {
    condvar: Condvar,
    _between: [u8; MODEL_STRIDE - size_of::<Condvar>()],
    gate: Gate,
    /// How many waiters may go on.
    ready: Mutex<u32>,
}

/// How a thread waits, with the condition in its hands, and how it notifies another.
#[derive(Clone, Copy)]
struct Ways {
    wait: fn(&Room),
    notify: fn(&Room),
}

const RIGHT: Ways = Ways { wait, notify };

fn wait(room: &Room) {
    let mut ready = Some(room.ready.lock().unwrap());
    while **ready.as_ref().unwrap() == 0 {
        let unlock = || {
            drop(ready.take());
            Ok::<(), ()>(())
        };
        room.gate.wait(&room.condvar, Wait::forever(), unlock).unwrap().unwrap();
        ready = Some(room.ready.lock().unwrap());
    }
    *ready.unwrap() -= 1;
}

fn notify(room: &Room) {
    *room.ready.lock().unwrap() += 1;
    room.gate.pass();
    room.condvar.notify_one();
}

fn room() -> Arc<Room> {
    let room = Room {
        condvar: Condvar::new(),
        _between: [0; MODEL_STRIDE - size_of::<Condvar>()],
        gate: Gate::default(),
        ready: Mutex::new(0),
    };
    // Creates all of loom's objects before the threads start.
    room.condvar.notify_one();
    room.gate.visitors.enter();
    room.gate.pass();
    room.gate.visitors.leave();
    Arc::new(room)
}

/// Models a waiter and a notifier.
fn one(ways: Ways) {
    model(move || {
        let room = room();
        together([body(&room, ways.wait), body(&room, ways.notify)]);
        assert_eq!(*room.ready.lock().unwrap(), 0);
    });
}

#[test]
fn no_notification_is_lost() {
    one(RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_unlocked_before_the_gate() {
    let unlocked_early = |room: &Room| {
        let mut ready = room.ready.lock().unwrap();
        while *ready == 0 {
            drop(ready);
            room.gate.wait(&room.condvar, Wait::forever(), || Ok::<(), ()>(())).unwrap().unwrap();
            ready = room.ready.lock().unwrap();
        }
        *ready -= 1;
    };
    one(Ways { wait: unlocked_early, ..RIGHT });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_gate_is_not_passed() {
    let past_the_gate = |room: &Room| {
        *room.ready.lock().unwrap() += 1;
        room.condvar.notify_one();
    };
    one(Ways { notify: past_the_gate, ..RIGHT });
}

/// The notifier looks if there are such waiters before it has the mutex.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_looked_before_the_mutex() {
    let looked_early = |room: &Room| {
        let used = room.gate.visitors.are_some();
        *room.ready.lock().unwrap() += 1;
        if used {
            room.gate.pass();
        }
        room.condvar.notify_one();
    };
    one(Ways { notify: looked_early, ..RIGHT });
}

#[test]
fn two_notifications_are_for_two() {
    model_within(1, || {
        let room = room();
        let twice = |room: &Room| (0..2).for_each(|_| notify(room));
        together([body(&room, wait), body(&room, wait), body(&room, twice)]);
        assert_eq!(*room.ready.lock().unwrap(), 0);
    });
}

/// A wait that fails to unlock its mutex leaves the gate open; so does one that times out.
#[test]
fn the_gate_stays_open() {
    model_within(1, || {
        let room = room();
        let fails = |room: &Room| {
            let unlock = || Err("not the owner");
            assert_eq!(room.gate.wait(&room.condvar, Wait::forever(), unlock), Err("not the owner"));
        };
        let late = |room: &Room| {
            let waited = room.gate.wait(&room.condvar, Wait::by(deadline()), || Ok::<(), ()>(()));
            assert!(waited.unwrap().is_err());
        };
        let strikes = |room: &Room| {
            crate::shim::strike();
            room.gate.pass();
        };
        together([body(&room, fails), body(&room, late), body(&room, strikes)]);
        assert!(!room.gate.lock.is_locked());
    });
}
