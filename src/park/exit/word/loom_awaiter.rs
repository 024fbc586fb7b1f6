//! Models of a future that waits for the end of a thread. It is woken, sees what the thread did, and leaves
//! no reference behind. That holds too if it is polled with another waker, or dropped meanwhile. Negative
//! models put a new waker into the word without a look, or forget that the word has a reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

use super::Detached;
use crate::park::exit::Awaiter;
use crate::park::permit;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Core, Letter, Unparks, model, on, spawn_with};
use crate::park::wait::Wait;
use crate::shim::atomic::Ordering;

/// How a future puts another awaiter into the word.
type Change = fn(&Arc<Awaiter>, &Arc<Awaiter>) -> bool;

fn change(old: &Arc<Awaiter>, new: &Arc<Awaiter>) -> bool {
    old.leave();
    new.enter()
}

/// A future waits with `wakers` in turn, and then as a thread that is unparked.
fn awaited(wakers: usize, change: Change) {
    let (polls, ending, letter) = (Core::new(), Core::new(), Arc::new(Letter::default()));
    let (me, thread, alive) = (polls.thread(), ending.thread(), Arc::new(AtomicUsize::new(0)));
    // Creates all of loom's objects before the threads start.
    assert_eq!((letter.read(), thread.is_done()), (0, false));
    permit::unpark(me);
    on(me, || permit::park(Wait::forever, WaitReason::Park).unwrap());
    let other = spawn_with(Arc::clone(&letter), move |theirs| {
        theirs.write(7);
        // The model's ending thread calls the waker itself.
        assert!(!thread.finish(), "it is not detached");
    });
    on(me, || {
        let new = || Awaiter::new(thread, &Unparks::new(me, &alive));
        let mut awaiter = new();
        let mut waits = awaiter.enter();
        for _ in 1..wakers {
            if waits && !thread.is_done() {
                let other = new();
                waits = change(&awaiter, &other);
                awaiter = other;
            }
        }
        while waits && !thread.is_done() {
            permit::park(Wait::forever, WaitReason::Park).unwrap();
        }
        awaiter.leave();
        assert!(thread.is_done());
        assert_eq!(letter.read(), 7);
    });
    other.join().unwrap();
    assert_eq!(alive.load(Relaxed), 0, "wakers left behind");
}

#[test]
fn a_future_is_woken() {
    model(|| awaited(1, change));
}

#[test]
fn a_future_gets_another_waker() {
    model(|| awaited(2, change));
}

/// The end may have come since the last look. Then the word does not say so any more.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_waker_is_put_there_without_a_look() {
    let change: Change = |old, new| {
        old.leave();
        std::mem::forget(Arc::clone(new));
        let _ = new.thread().exit.0.swap(new.link(), Ordering::AcqRel);
        true
    };
    model(move || awaited(2, change));
}

#[test]
#[should_panic(expected = "wakers left behind")]
fn negative_the_reference_of_the_word_is_forgotten() {
    let change: Change = |old, new| {
        if old.thread().exit.take_out(old.link()) { new.enter() } else { false }
    };
    model(move || awaited(2, change));
}

/// The future is dropped, and with it the handle, while the thread ends.
#[test]
fn a_future_is_dropped() {
    model(|| {
        let ending = Core::new();
        let (thread, released) = (ending.thread(), Arc::new(AtomicUsize::new(0)));
        assert!(!thread.is_done());
        let other = spawn_with(Arc::clone(&released), move |theirs| {
            if thread.finish() {
                theirs.fetch_add(1, Relaxed);
            }
        });
        let awaiter = Awaiter::new(thread, Waker::noop());
        if awaiter.enter() {
            awaiter.leave();
        }
        drop(awaiter);
        if let Detached::HasEnded(()) = thread.detach(|| ()) {
            released.fetch_add(1, Relaxed);
        }
        other.join().unwrap();
        assert_eq!(released.load(Relaxed), 1, "shared references given up");
        assert!(thread.release_was_last(), "only the model's own reference is left");
    });
}
