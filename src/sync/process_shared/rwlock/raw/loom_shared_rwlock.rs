//! The read-write lock between processes: a writer beside readers, and the sleeps of both. Negative twins
//! forget to wake, or read the turn too late.

use std::sync::Arc;

use super::{Condition, How, RawRwLock, Steps, Turn, Wait, shared_futex};
use crate::park::process;
use crate::park::tests::loom_model::{Core, Letter, body, model, model_within, on, together};
use crate::shim::atomic::Ordering;

#[repr(align(4096))]
struct Room {
    lock: RawRwLock,
    letter: Letter,
}

impl Room {
    fn new() -> Arc<Self> {
        let room = Arc::new(Self { lock: RawRwLock::new(), letter: Letter::default() });
        // Loom's objects are created at their first use, so use them all before the threads start.
        process::this();
        let first = Core::new();
        on(first.thread(), || {
            room.write();
            room.read();
            assert_eq!(room.lock.condition(), Condition::Consistent);
        });
        room
    }

    /// Writes, and does not wait awake for readers.
    fn write(&self) {
        assert_eq!(self.lock.gate.acquire(Wait::forever()), Ok(Condition::Consistent));
        if !self.lock.readers.close() {
            self.lock.sleep_until_drained(Wait::forever(), false).unwrap();
        }
        self.letter.add_one();
        self.lock.end_write(false);
    }

    /// Reads, and does not wait awake for a writer.
    fn read(&self) {
        while !self.lock.readers.try_enter() {
            let turn = self.lock.turn.load(Ordering::Acquire);
            if self.lock.readers.is_closed() {
                self.lock.sleep_until_turn(turn, Wait::forever()).unwrap();
            }
        }
        self.letter.read();
        self.lock.end_read();
    }

    fn ends(&self) {
        assert!(!self.lock.is_locked());
    }
}

#[test]
fn a_writer_is_alone() {
    model(|| {
        let room = Room::new();
        together([body(&room, Room::write), body(&room, Room::read)]);
        room.ends();
    });
}

#[test]
fn readers_and_a_writer_take_turns() {
    model_within(1, || {
        let room = Room::new();
        together([body(&room, Room::write), body(&room, Room::read), body(&room, Room::read)]);
        room.ends();
    });
}

/// The last reader does not wake the writer.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_writer_not_woken() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            room.lock.read(Wait::forever()).unwrap();
            let _ = room.lock.readers.leave();
        };
        together([body(&room, wrong), body(&room, Room::write)]);
    });
}

/// A reader reads the turn after it has seen the writer.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_turn_read_too_late() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            while !room.lock.readers.try_enter() {
                let turn = room.lock.turn.load(Ordering::Acquire);
                let how = How { wait: Wait::forever(), nap: None, near: false };
                let _ = shared_futex::wait(&mut Turn(&room.lock.turn, turn), how);
            }
            room.lock.end_read();
        };
        together([body(&room, Room::write), body(&room, wrong)]);
    });
}

/// A reader comes in beside the writer.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_reader_beside_the_writer() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            room.lock.readers.0.fetch_add(1, Ordering::Acquire);
            room.letter.read();
            room.lock.end_read();
        };
        together([body(&room, Room::write), body(&room, wrong)]);
    });
}
