//! Models: a reader beside the writer of a ring that wraps.

use loom::sync::Arc;

use super::super::event::Kind;
use super::*;

/// Returns an event with the same number in all its words.
fn event(number: u64) -> Event {
    Event::new(number, Kind::Yield, number).with(number, 0)
}

/// Reads once, and checks that no event is made of two.
fn check(ring: &Ring) {
    let mut last = 0;
    ring.read(0, |event| {
        assert!(event.count == event.thread && event.count == event.object, "two halves: {event:?}");
        assert!(event.count > last, "out of order");
        last = event.count;
    });
}

/// A ring of two events, into which three are written; `push` may be a mutation of the real one.
fn model(push: fn(&Ring, Event)) {
    loom::model(move || {
        let ring = Arc::new(Ring::new(1));
        assert_eq!(ring.events.len(), 2);
        push(&ring, event(1));
        let writer = loom::thread::spawn({
            let ring = Arc::clone(&ring);
            move || (2..=3).for_each(|number| push(&ring, event(number)))
        });
        check(&ring);
        writer.join().unwrap();
        check(&ring);
    });
}

#[test]
fn a_reader_finds_whole_events() {
    model(|ring, event| ring.push(event));
}

/// Appends like the real one, except where `fence` and `early` say.
fn push_badly(ring: &Ring, event: Event, with_fence: bool, early: bool) {
    let number = ring.written.load(Ordering::Relaxed);
    let end = (number + TRACE_PAGE as u64).saturating_sub(ring.events.len() as u64);
    let give_up = || {
        ring.kept.store(end, Ordering::Relaxed);
        if with_fence {
            fence(Ordering::Release);
        }
    };
    if early {
        give_up();
    }
    let at = number as usize & (ring.events.len() - 1);
    for (word, value) in ring.events[at].iter().zip(event.to_words()) {
        word.store(value, Ordering::Relaxed);
    }
    if !early {
        give_up();
    }
    ring.written.store(number + 1, Ordering::Release);
}

#[test]
#[should_panic(expected = "two halves")]
fn without_the_fence_a_reader_finds_two_halves() {
    model(|ring, event| push_badly(ring, event, false, true));
}

#[test]
#[should_panic(expected = "two halves")]
fn if_a_page_is_given_up_late_a_reader_finds_two_halves() {
    model(|ring, event| push_badly(ring, event, true, false));
}
