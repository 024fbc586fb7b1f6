//! Counted references to a core. One of the threads that give theirs back is the last, and comes after all
//! that the others did.

use std::sync::Arc;

use super::ThreadRef;
use crate::park::tests::loom_model::{Core, Letter, model};
use crate::shim::atomic::{AtomicU32, Ordering};

type Release = fn(ThreadRef) -> bool;

/// Lets two threads hold a reference each, use what the core leads to, and give the reference back by
/// `release`.
fn two_references(release: Release) {
    model(move || {
        let core = Core::new();
        let thread = core.thread().retain();
        let letters = Arc::new([Letter::default(), Letter::default()]);
        let lasts = Arc::new(AtomicU32::from(0));
        // Everything must exist before the threads do.
        assert_eq!(letters.iter().map(Letter::read).sum::<u32>() + lasts.load(Ordering::Relaxed), 0);
        let user = |me: usize| {
            let (letters, lasts) = (Arc::clone(&letters), Arc::clone(&lasts));
            move || {
                letters[me].write(1);
                if release(thread) {
                    // Relaxed: read after the threads have been joined.
                    lasts.fetch_add(1, Ordering::Relaxed);
                    // The core's next life may write anywhere.
                    letters.iter().for_each(|letter| letter.write(2));
                }
            }
        };
        let other = loom::thread::spawn(user(1));
        user(0)();
        other.join().unwrap();
        assert_eq!(lasts.load(Ordering::Relaxed), 1, "the core is used again once");
    });
}

#[test]
fn one_of_two_references_is_the_last() {
    two_references(ThreadRef::release_was_last);
}

/// The last thread does not see what the other did.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_given_back_without_acquire() {
    two_references(|thread| {
        thread.0.refs.load(Ordering::Relaxed) == 1 || thread.0.refs.fetch_sub(1, Ordering::Release) == 1
    });
}

/// Both threads look before they give theirs back.
#[test]
#[should_panic(expected = "the core is used again once")]
fn negative_given_back_in_two_steps() {
    two_references(|thread| {
        let last = thread.0.refs.load(Ordering::Acquire) == 1;
        thread.0.refs.fetch_sub(1, Ordering::AcqRel);
        last
    });
}
