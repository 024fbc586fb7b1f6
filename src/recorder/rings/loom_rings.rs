//! Models: kernel threads that make rings, and take those of others, beside a reader. Negative models take a
//! ring without order, or name its next owner before the mark.

use super::super::event::Kind;
use super::*;

fn event(number: u64) -> Event {
    Event::new(number, Kind::Yield, number)
}

#[test]
fn two_rings_have_two_numbers() {
    loom::model(|| {
        let other = loom::thread::spawn(|| take(1, 0, 1).number());
        let mine = take(1, 1, 1).number();
        let numbers: Vec<u32> = all().map(Listed::number).collect();
        assert!(numbers.is_sorted_by(|newer, older| *newer == older + 1), "{numbers:?}");
        assert!(numbers.contains(&mine));
        assert_eq!(other.join().unwrap() + mine, 3);
    });
}

/// A kernel thread gives its ring up, another one takes it by `again`, and the calling one reads.
fn is_taken_again(again: fn(&'static Listed)) {
    loom::model(move || {
        let listed = take(1, 0, 1);
        let first = loom::thread::spawn(move || {
            listed.ring.push(event(1));
            listed.give_back();
        });
        let next = loom::thread::spawn(move || again(listed));
        let (owner, mut marks) = (listed.owner(), 0);
        let _ = listed.ring.read(0, |event| marks += u32::from(event.owners().is_some()));
        assert!(owner.lwp == 0 || marks == 1, "events of the next owner look like those of the last");
        first.join().unwrap();
        next.join().unwrap();
        // Whether the next kernel thread has found it, or made one for itself.
        let written = if listed.owner().lwp == 0 { 1 } else { 2 };
        assert_eq!(listed.ring.written(), written, "an event is lost");
    });
}

#[test]
fn a_ring_goes_on_where_its_last_thread_has_stopped() {
    is_taken_again(|_| _ = take(1, 1, 1));
}

/// Takes the ring as [`take`] does, with these orderings.
fn take_by(listed: &Listed, taken: Ordering, owner: Ordering) {
    if !listed.taken.swap(true, taken) {
        let next = Owner { runtime: 1, lwp: 1 };
        listed.ring.push(Event::taken(listed.owner(), next));
        listed.owner.store(next.to_word(), owner);
    }
}

#[test]
fn the_twins_are_wrong_for_their_own_reasons() {
    is_taken_again(|listed| take_by(listed, Ordering::AcqRel, Ordering::Release));
}

#[test]
#[should_panic(expected = "an event is lost")]
fn negative_taken_without_order() {
    is_taken_again(|listed| take_by(listed, Ordering::Relaxed, Ordering::Release));
}

#[test]
#[should_panic(expected = "events of the next owner look like those of the last")]
fn negative_an_owner_without_order() {
    is_taken_again(|listed| take_by(listed, Ordering::AcqRel, Ordering::Relaxed));
}
