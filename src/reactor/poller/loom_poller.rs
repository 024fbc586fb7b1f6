//! Models of a set that the program has closed, while a thread is about to wait for one of its descriptors. A
//! negative model looks at the word when the descriptor is known to be watched. Models of two threads that
//! need a set at once, and of a request, whose negative model does not change the word.

use std::sync::Arc;

use super::{LOOK, Poller, RING};
use crate::park::tests::loom_model::{body, model, spawn_with, together};
use crate::reactor::entries::{Entry, all_are_ready};
use crate::reactor::readiness::Seen;
use crate::shim::UnsafeCell;
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

/// Returns a poller without a set. All threads of the model find its words there.
fn poller() -> Poller {
    let poller = Poller::new();
    assert!(poller.set().is_none() && poller.take_asked() == 0);
    assert_ne!(poller.number.load(Ordering::Relaxed), 0);
    poller
}

/// Each uses the set that one of them makes, and the third only looks.
#[test]
fn a_set_is_made_before_it_is_used() {
    model(|| {
        let poller = Arc::new(poller());
        let watch = |it: Arc<Poller>| it.watch(0, 7, &AtomicU32::from(0)).unwrap();
        let threads = [spawn_with(poller.clone(), watch), spawn_with(poller.clone(), watch)];
        if let Some(set) = poller.set() {
            set.ring().unwrap();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

struct Asked {
    poller: Poller,
    /// Written before the request.
    why: UnsafeCell<u32>,
}

// SAFETY: the request orders the accesses, which loom checks.
unsafe impl Sync for Asked {}

/// The thread that takes a request sees what came before it.
fn is_told(ask: fn(&Poller)) {
    model(move || {
        let asked = Arc::new(Asked { poller: poller(), why: UnsafeCell::new(0) });
        let asker = spawn_with(asked.clone(), move |asked| {
            // SAFETY: read by the thread that has taken the request.
            asked.why.with_mut(|why| unsafe { *why = 7 });
            ask(&asked.poller);
        });
        let mut taken = 0;
        while taken != RING | LOOK {
            taken |= asked.poller.take_asked();
            loom::thread::yield_now();
        }
        // SAFETY: written before the request.
        assert_eq!(asked.why.with(|why| unsafe { *why }), 7);
        assert_eq!(asked.poller.take_asked(), 0, "a request is taken twice");
        asker.join().unwrap();
    });
}

#[test]
fn a_request_comes_after_what_it_is_for() {
    is_told(|poller| {
        poller.ask(RING);
        poller.ask(LOOK);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_request_that_publishes_nothing() {
    is_told(|poller| _ = poller.asked.fetch_or(RING | LOOK, Ordering::Relaxed));
}
