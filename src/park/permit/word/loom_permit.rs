//! The permit: park against one unpark, against several, and against the deadline. With kernel and green
//! threads.

use std::sync::Arc;

use super::{EMPTY, NOTIFIED, PARKED};
use crate::park::permit::{park, unpark};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Core, Green, Letter, deadline, model, on, spawn_with};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::strike;

fn park_until_deadline() -> Result<(), WaitError> {
    park(|| Wait::by(deadline()), WaitReason::Park)
}

/// One thread parks. The other writes and unparks.
fn a_letter_arrives(thread: ThreadRef, deliver: impl FnOnce(ThreadRef) + Send + 'static) {
    let letter: Arc<Letter> = Arc::default();
    assert_eq!(letter.read(), 0);
    let postman = spawn_with(letter.clone(), move |letter| {
        letter.add_one();
        deliver(thread);
    });
    on(thread, || {
        park(Wait::forever, WaitReason::Park).unwrap();
        assert_eq!(letter.read(), 1);
    });
    postman.join().unwrap();
}

#[test]
fn unpark_wakes_a_kernel_thread() {
    model(|| {
        let core = Core::new();
        a_letter_arrives(core.thread(), unpark);
    });
}

#[test]
fn unpark_wakes_a_green_thread() {
    model(|| {
        let green = Green::new();
        a_letter_arrives(green.thread(), unpark);
    });
}

/// The token without the release: the parked thread may not see the letter.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_unpark_without_release() {
    model(|| {
        let core = Core::new();
        a_letter_arrives(core.thread(), |thread| {
            if thread.permit.0.swap(NOTIFIED, Ordering::Relaxed) == PARKED {
                thread.backend().wake(thread, &raw const thread.core().permit.0);
            }
        });
    });
}

/// Two threads count themselves and unpark. One waits until both are counted.
fn both_are_seen(unpark: impl Fn(ThreadRef) + Copy + Send + 'static) {
    let core = Core::new();
    let thread = core.thread();
    let seen = Arc::new(AtomicU32::from(0));
    let others: Vec<_> = (0..2)
        .map(|_| {
            spawn_with(seen.clone(), move |seen| {
                seen.fetch_add(1, Ordering::Relaxed);
                unpark(thread);
            })
        })
        .collect();
    on(thread, || {
        while seen.load(Ordering::Relaxed) != 2 {
            let _ = park(Wait::forever, WaitReason::Park);
        }
    });
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn every_unpark_counts() {
    model(|| both_are_seen(unpark));
}

/// An unpark leaves a token alone that is already there. Its own writes may then never be seen.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_unpark_that_only_looks() {
    model(|| {
        both_are_seen(|thread| {
            if thread.permit.0.load(Ordering::Relaxed) != NOTIFIED {
                unpark(thread);
            }
        });
    });
}

#[test]
fn a_deadline_and_an_unpark_have_one_winner_on_a_kernel_thread() {
    model(|| {
        let core = Core::new();
        let thread = core.thread();
        let clock = loom::thread::spawn(strike);
        let postman = loom::thread::spawn(move || unpark(thread));
        on(thread, || {
            // Either it is told now, or the token is still there.
            if park_until_deadline().is_err() {
                park(Wait::forever, WaitReason::Park).unwrap();
            }
        });
        clock.join().unwrap();
        postman.join().unwrap();
        assert_eq!(thread.permit.0.load(Ordering::Relaxed), EMPTY);
    });
}

#[test]
fn a_deadline_and_an_unpark_have_one_winner_on_a_green_thread() {
    model(|| {
        let green = Green::new();
        let thread = green.thread();
        let timer = spawn_with(green.clone(), move |green| green.fire());
        let postman = loom::thread::spawn(move || unpark(thread));
        on(thread, || {
            if park_until_deadline().is_err() {
                park(Wait::forever, WaitReason::Park).unwrap();
            }
        });
        timer.join().unwrap();
        postman.join().unwrap();
        assert_eq!(thread.permit.0.load(Ordering::Relaxed), EMPTY);
    });
}

/// A deadline does not ask if the thread is still parked. Both win, and the thread is made runnable twice.
#[test]
#[should_panic(expected = "woken twice")]
fn negative_expiry_without_comparing() {
    model(|| {
        let green = Green::new();
        let thread = green.thread();
        let timer = {
            loom::thread::spawn(move || {
                if thread.permit.0.load(Ordering::Relaxed) == PARKED {
                    thread.permit.0.store(EMPTY, Ordering::Relaxed);
                    thread.backend().wake(thread, std::ptr::null());
                }
            })
        };
        let postman = loom::thread::spawn(move || unpark(thread));
        let _ = on(thread, park_until_deadline);
        timer.join().unwrap();
        postman.join().unwrap();
    });
}
