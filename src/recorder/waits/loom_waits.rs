//! Models: a look beside the writer that begins another session.

use loom::sync::Arc;

use super::*;
use crate::shim;

const FIRST: Session = Session { number: 1, began: 0 };
const SECOND: Session = Session { number: 2, began: 100 };

/// The writer begins the second session while there are looks for either.
fn model(begin: fn(&Waits<2>), look: fn(&Waits<2>, Session) -> Option<([u64; 2], u64)>) {
    // One thread stores, and the other loads: two loads need no order.
    shim::let_loads_conflict(false);
    loom::model(move || {
        let waits = Arc::new(Waits::<2>::new());
        waits.add(FIRST, 1);
        let looker = loom::thread::spawn({
            let waits = Arc::clone(&waits);
            move || {
                if let Some(seen) = look(&waits, FIRST) {
                    assert_eq!(seen, ([1, 0], 1), "of two sessions");
                }
                if let Some(([first, _], sum)) = look(&waits, SECOND) {
                    assert!(first == 0 && [0, 8].contains(&sum), "of two sessions");
                }
            }
        });
        begin(&waits);
        waits.add(SECOND, 8);
        looker.join().unwrap();
        assert_eq!(waits.look(SECOND), Some(([0, 1], 8)));
    });
}

fn begin(waits: &Waits<2>) {
    waits.begin(SECOND);
}

#[test]
fn a_look_finds_one_session() {
    model(begin, Waits::look);
}

#[test]
#[should_panic(expected = "of two sessions")]
fn without_a_second_check_a_look_finds_two_sessions() {
    model(begin, |waits, session| {
        (waits.session.load(Ordering::Acquire) == session.number).then(|| waits.read())
    });
}

#[test]
#[should_panic(expected = "of two sessions")]
fn without_the_fence_a_look_finds_two_sessions() {
    model(
        |waits| {
            waits.session.store(0, Ordering::Relaxed);
            waits.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            waits.sum.store(0, Ordering::Relaxed);
            waits.session.store(SECOND.number, Ordering::Release);
        },
        Waits::look,
    );
}

#[test]
#[should_panic(expected = "of two sessions")]
fn a_session_that_begins_before_the_zeros_has_counts_of_the_last() {
    model(
        |waits| {
            waits.session.store(SECOND.number, Ordering::Release);
            waits.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            waits.sum.store(0, Ordering::Relaxed);
        },
        Waits::look,
    );
}
