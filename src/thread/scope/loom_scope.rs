//! The count of a scope: what its threads did is seen when the wait is over, and no wake-up is lost.

use std::sync::Arc;

use super::{Options, Shared, WaitReason};
use crate::park::tests::loom_model::{Body, Green, Letter, model, model_within, on, spawn_with, together};
use crate::park::wait::Wait;
use crate::park::wait_queue;
use crate::shim::MODEL_STRIDE;
use crate::shim::atomic::Ordering;

/// A scope, and what its threads have borrowed. Its alignment is the one that the models ask for, so that
/// its bucket is the same each time.
#[repr(align(2048))]
struct Borrowed {
    shared: Shared,
    letters: [Letter; 2],
}

const _: () = assert!(MODEL_STRIDE <= 2048);

impl Borrowed {
    /// Creates a scope with this many threads.
    fn by(threads: usize) -> Arc<Self> {
        let borrowed = Arc::new(Self { shared: Shared::default(), letters: Default::default() });
        (0..threads).for_each(|_| borrowed.shared.count());
        // Everything must exist before the threads do.
        assert!(!borrowed.shared.unread_panic.load(Ordering::Relaxed));
        assert_eq!(borrowed.letters.iter().map(Letter::read).sum::<u32>(), 0);
        borrowed
    }

    /// Does what a thread of the scope does.
    fn run(&self, me: usize, uncount: fn(&Shared)) {
        self.letters[me].write(1);
        uncount(&self.shared);
    }
}

fn thread_of(borrowed: &Arc<Borrowed>, me: usize, uncount: fn(&Shared)) -> Body {
    let borrowed = Arc::clone(borrowed);
    Box::new(move || borrowed.run(me, uncount))
}

/// Lets the scope's own thread wait by `wait` for two others. Then it has what they borrowed to itself.
fn two_threads(wait: fn(&Shared), uncount: fn(&Shared)) {
    let borrowed = Borrowed::by(2);
    let others = [0, 1].map(|me| thread_of(&borrowed, me, uncount));
    let own: Body = Box::new(move || {
        wait(&borrowed.shared);
        borrowed.letters.iter().for_each(|letter| {
            assert_eq!(letter.read(), 1, "the scope is left too early");
            letter.write(2);
        });
    });
    let [one, other] = others;
    together([own, one, other]);
}

/// Does the same with one other thread.
fn one_thread(wait: fn(&Shared), uncount: fn(&Shared)) {
    let borrowed = Borrowed::by(1);
    let other = thread_of(&borrowed, 0, uncount);
    let own: Body = Box::new(move || {
        wait(&borrowed.shared);
        assert_eq!(borrowed.letters[0].read(), 1, "the scope is left too early");
        borrowed.letters[0].write(2);
    });
    together([own, other]);
}

#[test]
fn a_scope_waits_for_two_threads() {
    // Three threads at one bucket lock. With two preemptions there are too many orders to try.
    model_within(1, || two_threads(Shared::wait, Shared::uncount));
}

#[test]
fn a_scope_waits_for_one_thread() {
    model(|| one_thread(Shared::wait, Shared::uncount));
}

#[test]
fn a_scope_of_a_green_thread_waits() {
    model(|| {
        let borrowed = Borrowed::by(1);
        let green = Green::new();
        let own = spawn_with((Arc::clone(&borrowed), Arc::clone(&green)), move |(borrowed, green)| {
            on(green.thread(), || {
                borrowed.shared.wait();
                assert_eq!(borrowed.letters[0].read(), 1, "the scope is left too early");
            });
        });
        together([thread_of(&borrowed, 0, Shared::uncount)]);
        own.join().unwrap();
    });
}

/// Without the last look before the sleep. The last thread may have found no waiter to wake.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_sleeping_without_a_last_look() {
    let wait = |shared: &Shared| {
        while shared.running.load(Ordering::Acquire) != 0 {
            let _ = wait_queue::wait(
                shared.key(),
                &Options::new(WaitReason::Scope, Wait::forever()),
                || true,
                || (),
            );
        }
    };
    model(move || one_thread(wait, Shared::uncount));
}

/// A waiter that does not acquire. It uses what a thread may still be writing.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_leaving_without_acquire() {
    let wait = |shared: &Shared| {
        while shared.running.load(Ordering::Relaxed) != 0 {
            crate::shim::spin_hint();
        }
    };
    model(move || one_thread(wait, Shared::uncount));
}

/// A thread checks if it is the last before it is uncounted. Of two threads, neither wakes the waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_uncounting_in_two_steps() {
    let uncount = |shared: &Shared| {
        let last = shared.running.load(Ordering::Acquire) == 1;
        shared.running.fetch_sub(1, Ordering::Release);
        if last && let Some(waiters) = wait_queue::grant_all(shared.key(), super::Token(0), || true) {
            waiters.wake_all();
        }
    };
    model_within(1, move || two_threads(Shared::wait, uncount));
}
