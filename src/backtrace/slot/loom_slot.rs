//! The place by which threads are asked for their stacks. In the models, a looker that has no patience asks
//! two threads in turn, and either may answer late.

use std::sync::Arc;

use super::{Answer, DONE, FREE, Slot};
use crate::park::tests::loom_model::model;
use crate::shim::atomic::Ordering;

const THREADS: [usize; 2] = [256, 512];

/// Asks both threads, the first of which may still be writing. `give_up` leaves a question, which has not
/// been answered in time.
fn two_threads(give_up: fn(&Slot<usize>, usize)) {
    model(move || {
        let slot = Arc::new(Slot::new(0));
        // Atomics come into being at their first use, so this is before the model's threads.
        assert_eq!(slot.word.load(Ordering::Relaxed), FREE);
        let handlers = THREADS.map(|thread| {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || slot.answer(thread, |content| *content = thread))
        });
        for thread in THREADS {
            let wait = || {
                give_up(&slot, thread);
                false
            };
            match slot.ask(thread, wait, |content| *content) {
                Answer::Got(found) => assert_eq!(found, thread),
                Answer::Silent => {}
                Answer::Busy => assert_ne!(thread, THREADS[0]),
            }
        }
        handlers.into_iter().for_each(|handler| _ = handler.join().unwrap());
    });
}

#[test]
fn a_late_answer_goes_nowhere() {
    two_threads(|_, _| ());
}

/// Without the compare-and-swap, a looker takes the place from a handler that writes.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_taking_the_place_back_blindly() {
    two_threads(|slot, thread| {
        if slot.word.load(Ordering::Relaxed) != thread | DONE {
            slot.word.store(FREE, Ordering::Relaxed);
        }
    });
}
