//! Models of the condition variable: notification against queueing, broadcasts that move waiters,
//! deadlines.

use std::ptr;
use std::sync::Arc;

use lock_api::RawMutex as _;

use crate::observe::lock_owners;
use crate::park::current::current;
use crate::park::interrupt;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Green, Outcomes, body, both_outcomes, deadline, large_model, model, model_within, on, spawn_with,
    together,
};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options};
use crate::shim::{MODEL_STRIDE, strike};
use crate::sync::mutex::RawMutex;
use crate::sync::{Condvar, Mutex};

/// The condition variable and its mutex in different buckets.
#[repr(C, align(2048))]
struct Room {
    state: Mutex<u32>,
    padding: [u64; MODEL_STRIDE / 8 - size_of::<Mutex<u32>>() / 8],
    changed: Condvar,
}

impl Room {
    fn new() -> Arc<Self> {
        let room = Arc::new(Self {
            state: Mutex::new(0),
            padding: [0; MODEL_STRIDE / 8 - size_of::<Mutex<u32>>() / 8],
            changed: Condvar::new(),
        });
        // Creates all of loom's objects before the threads start.
        room.is_left_alone();
        room
    }

    fn wait_until_open(&self) {
        let mut state = self.state.lock();
        while *state == 0 {
            self.changed.wait(&mut state);
        }
    }

    fn raw(&self) -> &RawMutex {
        // SAFETY: the models lock and unlock in turn.
        unsafe { self.state.raw() }
    }

    fn is_left_alone(&self) {
        assert_eq!(self.padding[0], 0);
        assert_eq!(self.changed.notify_all(), 0);
        assert!(!self.changed.notify_one());
        assert!(self.state.try_lock().is_some());
        assert!(wait_queue::grant_one(self.raw().key(), |_| super::NOTIFIED).is_none());
        assert!(wait_queue::grant_one(self.changed.protocol.key(), |_| super::NOTIFIED).is_none());
    }
}

#[test]
fn a_notification_is_not_lost() {
    model(|| {
        let room = Room::new();
        let open = |room: &Room| {
            *room.state.lock() = 1;
            room.changed.notify_one();
        };
        together([body(&room, open), body(&room, Room::wait_until_open)]);
        room.is_left_alone();
    });
}

#[test]
fn a_notification_of_a_green_thread_is_not_lost() {
    model(|| {
        let room = Room::new();
        let green = Green::new();
        let waiter = spawn_with((room.clone(), green.clone()), move |(room, green)| {
            on(green.thread(), || room.wait_until_open())
        });
        together([body(&room, |room| {
            let mut state = room.state.lock();
            *state = 1;
            room.changed.notify_one();
        })]);
        waiter.join().unwrap();
        room.is_left_alone();
    });
}

#[test]
fn a_broadcast_with_the_mutex_locked_reaches_all() {
    large_model(|| {
        let room = Room::new();
        let open = |room: &Room| {
            let mut state = room.state.lock();
            *state = 1;
            room.changed.notify_all();
        };
        together([body(&room, open), body(&room, Room::wait_until_open), body(&room, Room::wait_until_open)]);
        room.is_left_alone();
    });
}

#[test]
fn a_broadcast_with_the_mutex_free_reaches_all() {
    large_model(|| {
        let room = Room::new();
        let open = |room: &Room| {
            *room.state.lock() = 1;
            room.changed.notify_all();
        };
        together([body(&room, open), body(&room, Room::wait_until_open), body(&room, Room::wait_until_open)]);
        room.is_left_alone();
    });
}

#[test]
fn a_broadcast_reaches_kernel_and_green_threads() {
    large_model(|| {
        let room = Room::new();
        let green = Green::new();
        let waiter = spawn_with((room.clone(), green.clone()), move |(room, green)| {
            on(green.thread(), || room.wait_until_open())
        });
        let open = |room: &Room| {
            *room.state.lock() = 1;
            room.changed.notify_all();
        };
        together([body(&room, open), body(&room, Room::wait_until_open)]);
        waiter.join().unwrap();
        room.is_left_alone();
    });
}

#[test]
fn a_deadline_and_a_broadcast_agree() {
    both_outcomes(model, |seen| {
        let room = Room::new();
        let seen = seen.clone();
        let timed = move |room: &Room| {
            let mut state = room.state.lock();
            while *state == 0 {
                let timed_out = room.changed.wait_with(&mut state, Wait::by(deadline())).is_err();
                seen.saw(timed_out);
                if timed_out {
                    break;
                }
            }
            assert!(room.state.is_locked());
        };
        let open = |room: &Room| {
            let mut state = room.state.lock();
            *state = 1;
            room.changed.notify_all();
        };
        let clock = loom::thread::spawn(strike);
        together([body(&room, timed), body(&room, open)]);
        clock.join().unwrap();
        room.is_left_alone();
    });
}

/// A waiter with a deadline, and a broadcast by a thread that has unlocked the mutex before. The broadcast
/// acquires the free mutex on behalf of the waiter. If the waiter has gone, the broadcast must release the
/// mutex again.
fn a_deadline_and_a_broadcast_with_the_mutex_free(notify_all: fn(&Room) -> usize, seen: &Outcomes) {
    let room = Room::new();
    let seen = seen.clone();
    let timed = move |room: &Room| {
        room.lock();
        while !room.is_open() {
            let ended = room.changed.protocol.wait(room.raw(), Wait::by(deadline()));
            seen.saw(ended == Err(WaitError::TimedOut));
            if ended == Err(WaitError::TimedOut) {
                break;
            }
        }
        room.unlock();
    };
    let open = move |room: &Room| {
        room.open();
        notify_all(room);
    };
    let clock = loom::thread::spawn(strike);
    together([body(&room, timed), body(&room, open)]);
    clock.join().unwrap();
    room.is_left_alone();
}

#[test]
fn a_deadline_and_a_broadcast_with_the_mutex_free_agree() {
    both_outcomes(model, |seen| {
        a_deadline_and_a_broadcast_with_the_mutex_free(|room| room.changed.notify_all(), seen)
    });
}

/// A broadcast releases the mutex only if it has moved a waiter.
#[test]
#[should_panic(expected = "self.state.try_lock().is_some()")]
fn negative_the_mutex_is_kept_for_no_thread() {
    let wrong = |room: &Room| {
        let waiters = room.changed.protocol.waits_with.look();
        if waiters.is_empty() {
            return 0;
        }
        let mut taken = false;
        let begin = |_| {
            let same = room.changed.protocol.waits_with.look() == waiters;
            if same {
                room.changed.protocol.waits_with.clear();
                taken = room.raw().announce_or_take();
            }
            same
        };
        let moved = wait_queue::requeue(room.changed.protocol.key(), room.raw().key(), begin);
        if taken && moved > 0 {
            room.unlock();
        }
        moved
    };
    model(move || a_deadline_and_a_broadcast_with_the_mutex_free(wrong, &Outcomes::default()));
}

/// A waiter with a deadline, and a thread that ends all waits. That thread then destroys the condition
/// variable, and another one begins where it was. `wait` returns `true` if the time was over.
fn the_last_to_notify_destroys_it(wait: fn(&Room) -> bool, seen: &Outcomes) {
    let room = Room::new();
    let seen = seen.clone();
    let timed = move |room: &Room| {
        room.lock();
        let timed_out = !room.is_open() && wait(room);
        seen.saw(timed_out);
        room.unlock();
    };
    let next = Arc::new(RawMutex::new());
    let mutex = Arc::clone(&next);
    let destroys = move |room: &Room| {
        room.lock();
        // SAFETY: this thread has just locked it.
        unsafe { *room.state.data_ptr() = 1 };
        room.changed.notify_all();
        room.changed.protocol.waits_with.clear();
        assert!(room.changed.protocol.waits_with.join(&mutex, false));
        room.unlock();
    };
    let clock = loom::thread::spawn(strike);
    together([body(&room, timed), body(&room, destroys)]);
    clock.join().unwrap();
    assert!(ptr::eq(room.changed.protocol.waits_with.look().mutex(), &*next));
}

fn waits_for_long(room: &Room) -> bool {
    room.changed.protocol.wait(room.raw(), Wait::by(deadline())) == Err(WaitError::TimedOut)
}

#[test]
fn the_last_to_notify_may_destroy_it() {
    both_outcomes(model, |seen| the_last_to_notify_destroys_it(waits_for_long, seen));
}

/// A waiter whose time is over tells the condition variable so.
#[test]
#[should_panic(expected = "ptr::eq")]
fn negative_one_that_gives_up_touches_it() {
    model(|| {
        let wait = |room: &Room| {
            let timed_out = waits_for_long(room);
            if timed_out {
                let protocol = &room.changed.protocol;
                wait_queue::if_empty(protocol.key(), || protocol.waits_with.clear());
            }
            timed_out
        };
        the_last_to_notify_destroys_it(wait, &Outcomes::default());
    });
}

/// Two threads wait until the room is open, and one of them is interrupted. `wait` returns `true` for an
/// interrupt. Otherwise that thread passes the single notification on.
fn an_interrupt_and_a_notification_for_two(wait: fn(&Room) -> bool) {
    let room = Room::new();
    let interrupted = move |room: &Room| {
        let me = current();
        let interrupter = loom::thread::spawn(move || me.interrupt());
        room.lock();
        let mut interrupted = false;
        while !room.is_open() && !interrupted {
            interrupted = wait(room);
        }
        room.unlock();
        if !interrupted {
            // The room is still open, or the other thread has been in and has closed it.
            room.changed.notify_one();
        }
        interrupter.join().unwrap();
    };
    let gives = |room: &Room| {
        room.open();
        room.changed.notify_one();
    };
    // The last thread to wait is the first to be notified.
    together([body(&room, Room::wait_unguarded), body(&room, interrupted), body(&room, gives)]);
    room.is_left_alone();
}

/// Waits. Returns `true` if the wait was interrupted.
fn wait_interruptible(room: &Room) -> bool {
    let wait = Wait::by(None).interruptible();
    room.changed.protocol.wait(room.raw(), wait) == Err(WaitError::Interrupted)
}

#[test]
fn an_interrupt_does_not_swallow_a_notification() {
    model_within(1, || an_interrupt_and_a_notification_for_two(wait_interruptible));
}

/// A waiter reports every interrupt, even if it has also been notified.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_an_interrupt_swallows_a_notification() {
    model_within(1, || {
        an_interrupt_and_a_notification_for_two(|room| {
            let ended = wait_interruptible(room);
            interrupt::take() || ended
        });
    });
}

/// A broadcast must tell kernel threads from green ones even while owners are recorded.
fn waiters_are_known_while_owners_are_recorded(green_waits: bool) {
    // Before the first execution, so that all executions are alike.
    lock_owners::turn_on();
    both_outcomes(model, move |seen| {
        let room = Room::new();
        let green = green_waits.then(Green::new);
        let waiter = {
            let room = room.clone();
            move || room.wait_until_open()
        };
        let seen = seen.clone();
        let open = move |room: &Room| {
            let mut state = room.state.lock();
            *state = 1;
            let waiters = room.changed.protocol.waits_with.look();
            seen.saw(!waiters.is_empty());
            assert!(waiters.is_empty() || waiters.has_kernel_threads() != green_waits);
            room.changed.notify_all();
        };
        match green {
            None => together([body(&room, open), Box::new(waiter)]),
            Some(green) => {
                let thread = green.thread();
                let waiter = loom::thread::spawn(move || on(thread, waiter));
                together([body(&room, open)]);
                waiter.join().unwrap();
            }
        }
        room.is_left_alone();
    });
}

#[test]
fn a_broadcast_knows_kernel_threads_while_owners_are_recorded() {
    waiters_are_known_while_owners_are_recorded(false);
}

#[test]
fn a_broadcast_knows_green_threads_while_owners_are_recorded() {
    waiters_are_known_while_owners_are_recorded(true);
}

/// The negative models use no guards. A guard that is dropped while the model reports the deadlock would
/// unlock, which is a step of a model that has ended.
impl Room {
    fn lock(&self) {
        self.raw().lock();
    }

    fn unlock(&self) {
        // SAFETY: locked by the caller.
        unsafe { self.raw().unlock() };
    }

    fn is_open(&self) -> bool {
        // SAFETY: locked by the caller.
        unsafe { *self.state.data_ptr() == 1 }
    }

    fn open(&self) {
        self.lock();
        // SAFETY: this thread has just locked it.
        unsafe { *self.state.data_ptr() = 1 };
        self.unlock();
    }

    /// [`wait_until_open`](Self::wait_until_open).
    fn wait_unguarded(&self) {
        self.lock();
        while !self.is_open() {
            let woken = self.changed.protocol.wait(self.raw(), Wait::forever());
            assert_eq!(woken, Ok(()));
        }
        self.unlock();
    }
}

/// A wait unlocks the mutex before it queues: the notification in between finds no waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_unlocked_before_queued() {
    model(|| {
        let room = Room::new();
        let open = |room: &Room| {
            room.open();
            room.changed.notify_one();
        };
        let wrong = |room: &Room| {
            room.lock();
            while !room.is_open() {
                room.unlock();
                let options = Options::new(WaitReason::Condvar, Wait::forever());
                let last_look = || room.changed.protocol.waits_with.join(room.raw(), true);
                assert!(wait_queue::wait(room.changed.protocol.key(), &options, last_look, || ()).is_ok());
                room.lock();
            }
            room.unlock();
        };
        together([body(&room, open), body(&room, wrong)]);
    });
}

/// A broadcast moves a waiter to a mutex that is free, and does not take it: there is no unlock to come.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_moved_to_a_free_mutex() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            room.open();
            let plan = |_| {
                room.changed.protocol.waits_with.clear();
                true
            };
            wait_queue::requeue(room.changed.protocol.key(), room.raw().key(), plan);
        };
        together([body(&room, Room::wait_unguarded), body(&room, wrong)]);
    });
}

/// A broadcast moves a waiter to a mutex and does not announce it there: the unlock finds no waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_moved_without_announcement() {
    model(|| {
        let room = Room::new();
        let wrong = |room: &Room| {
            room.lock();
            // SAFETY: this thread has just locked it.
            unsafe { *room.state.data_ptr() = 1 };
            let plan = |_| {
                room.changed.protocol.waits_with.clear();
                true
            };
            wait_queue::requeue(room.changed.protocol.key(), room.raw().key(), plan);
            room.unlock();
        };
        together([body(&room, Room::wait_unguarded), body(&room, wrong)]);
    });
}
