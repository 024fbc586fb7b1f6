//! The condition variable between processes: a notification races with the beginning of a wait. The negative
//! twin looks at the count of notifications only after it has unlocked the mutex. (There is no model of a
//! deadline, because in models no deadline passes before a sleep.)

use std::sync::Arc;

use super::{Condvar, How, Notification, Wait};
use crate::park::tests::loom_model::{Core, body, model, on, together};
use crate::park::{process, shared_futex};
use crate::shim::atomic::Ordering;
use crate::sync::process_shared::{Mutex, MutexGuard};

#[repr(align(2048))]
struct Room {
    state: Mutex<u32>,
    changed: Condvar,
}

impl Room {
    fn new() -> Arc<Self> {
        let room = Arc::new(Self { state: Mutex::new(0), changed: Condvar::new() });
        // Loom's objects are created at their first use, so use them all before the threads start.
        process::this();
        let Condvar { notified, waiting, notifier } = &room.changed;
        for word in [notified, waiting, notifier] {
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
        let first = Core::new();
        on(first.thread(), || drop(room.lock()));
        room
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.state.lock().unwrap().unwrap()
    }

    fn open(&self) {
        *self.lock() = 1;
        self.changed.notify_one();
    }

    fn wait_until_open(&self) {
        let mut state = self.lock();
        while *state == 0 {
            state = self.changed.wait(state).unwrap().unwrap();
        }
    }

    fn ends(&self) {
        assert!(!self.state.is_locked());
        assert_eq!(self.changed.waiting.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_notification_is_not_lost() {
    model(|| {
        let room = Room::new();
        together([body(&room, Room::open), body(&room, Room::wait_until_open)]);
        room.ends();
    });
}

/// A waiter unlocks before it counts itself and the notifications. A notification in between finds no
/// waiter, or the waiter counts it as an old one.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_unlocked_before_counted() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            while *room.lock() == 0 {
                // Relaxed: the bug is not in the ordering.
                room.changed.waiting.fetch_add(1, Ordering::Relaxed);
                let seen = room.changed.notified.load(Ordering::Relaxed);
                let mut news = Notification { notified: &room.changed.notified, seen, found: seen };
                let how = How { wait: Wait::forever(), nap: None, near: false };
                let _ = shared_futex::wait(&mut news, how);
                room.changed.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        };
        together([body(&room, Room::open), body(&room, wrong)]);
    });
}
