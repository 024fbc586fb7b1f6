//! Models of a set that the program has closed, while a thread is about to wait for one of its descriptors. A
//! negative model looks at the word when the descriptor is known to be watched.

use std::sync::Arc;

use super::Poller;
use crate::park::tests::loom_model::{body, model, together};
use crate::reactor::entries::{Entry, all_are_ready};
use crate::reactor::readiness::Seen;
use crate::shim::atomic::{AtomicU32, Ordering};

struct Model {
    poller: Poller,
    entry: &'static Entry,
    watched_by: AtomicU32,
}

impl Model {
    fn watch(&self) {
        self.poller.watch(0, self.entry.token(), &self.watched_by).unwrap();
    }

    /// Returns `true` if the set that there is, or will be, reports to the entry.
    fn is_watched(&self) -> bool {
        self.watched_by.load(Ordering::Relaxed) == self.poller.number.load(Ordering::Relaxed)
    }
}

/// One thread makes a call that would block, and another finds the set closed. `look` asks if the set has the
/// descriptor.
fn a_set_is_lost(look: fn(&Model) -> Seen) {
    model(move || {
        let this =
            Arc::new(Model { poller: Poller::new(), entry: Entry::take(), watched_by: AtomicU32::new(0) });
        this.watch();
        this.entry.read.would_block(this.entry.read.look());
        let waiter = body(&this, move |it: &Model| {
            let seen = look(it);
            it.entry.read.would_block(seen);
        });
        let loser = body(&this, |it: &Model| {
            assert!(it.poller.lose(it.poller.set().expect("it has been made")));
            all_are_ready(|_| panic!("no thread waits yet"));
        });
        together([waiter, loser]);
        assert!(this.entry.read.look().is_ready() || this.is_watched(), "it waits for a lost set");
    });
}

#[test]
fn no_thread_waits_for_a_set_that_is_lost() {
    a_set_is_lost(|it| {
        let seen = it.entry.read.look();
        it.watch();
        seen
    });
}

#[test]
#[should_panic(expected = "it waits for a lost set")]
fn negative_a_look_after_the_question() {
    a_set_is_lost(|it| {
        it.watch();
        it.entry.read.look()
    });
}
