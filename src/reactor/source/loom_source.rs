//! Models of a source that threads use for the first time: the set reports to its entry as soon as any of
//! them has found that. A negative model notes only after that point that a call would have blocked. Others
//! are of a source that leaves, and of calls by number beside a source (`by_number.rs`).

use std::ptr;
use std::sync::Arc;

use super::{Direction, Seen, Source};
use crate::park::tests::loom_model::{body, model, together};
use crate::reactor::entries::Entry;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::poll_set::{Event, Report};

/// A socket that was full, and has room by now. No thread has waited for it.
struct Socket {
    source: Source,
    watched: AtomicBool,
}

impl Socket {
    /// Adds the socket to the set, unless another thread has. What it is at that moment is reported.
    fn watch(&self, entry: &Entry) {
        if !self.watched.swap(true, Ordering::AcqRel) {
            // loom does not try an event before a look of the other thread, unless looks meet.
            let _ = entry.write.look();
            let event = Event { token: entry.token(), read: None, write: Some(Report::Ready) };
            Entry::event(event, |_| panic!("no thread waits yet"));
        }
    }
}

/// One thread has found the socket full, and is about to wait. Another wants to read from it.
fn a_first_wait(enter: fn(&Source, &'static Entry)) {
    model(move || {
        // That of the descriptor's number.
        let entry = Entry::take();
        let socket = Arc::new(Socket { source: Source::new(), watched: AtomicBool::new(false) });
        assert!(socket.source.entry().is_none() && !socket.watched.load(Ordering::Relaxed));
        let writer = body(&socket, move |it: &Socket| {
            enter(&it.source, entry);
            it.watch(entry);
        });
        let reader = body(&socket, |it: &Socket| {
            if let Some(entry) = it.source.entry() {
                it.watch(entry);
            }
        });
        together([writer, reader]);
        assert!(socket.source.entry().is_some(), "the writer has joined it");
        assert!(entry.write.look().is_ready(), "the event is lost");
    });
}

#[test]
fn what_is_reported_before_a_first_wait_is_kept() {
    a_first_wait(|source, entry| source.join(entry, Direction::Write));
}

#[test]
#[should_panic(expected = "the event is lost")]
fn negative_a_first_wait_is_noted_late() {
    a_first_wait(|source, entry| {
        entry.join(|| ());
        source.entry.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
        entry.write.would_block(entry.write.look());
    });
}

/// One of two sources of a descriptor is dropped, while a set begins to report to the other.
fn one_of_two_is_dropped(leave: fn(&Entry)) {
    model(move || {
        let entry = Entry::take();
        entry.join(|| ());
        let other = Arc::new(Source::new());
        let first = body(&other, move |_: &Source| leave(entry));
        let second = body(&other, move |it: &Source| {
            it.join(entry, Direction::Write);
            let token = entry.token();
            let seen = entry.write.look();
            Entry::event(Event { token, read: None, write: Some(Report::Ready) }, |_| panic!("none waits"));
            assert_ne!(entry.write.look(), seen, "the event is for another life");
        });
        together([first, second]);
    });
}

#[test]
fn a_source_that_is_left_keeps_its_life() {
    one_of_two_is_dropped(Entry::leave);
}

#[test]
#[should_panic(expected = "the event is for another life")]
fn negative_any_source_ends_the_life() {
    one_of_two_is_dropped(Entry::end_at_once);
}

/// A call by number takes the first of two messages, while a source joins, and a set begins to report to it.
fn a_source_comes_beside_a_call(note: fn(&Entry, Seen)) {
    model(move || {
        let entry = Entry::take();
        entry.keep();
        let source = Arc::new(Source::new());
        let call = body(&source, move |_: &Source| note(entry, entry.read.look()));
        let comes = body(&source, move |it: &Source| {
            it.join(entry, Direction::Read);
            let event = Event { token: entry.token(), read: Some(Report::Ready), write: None };
            Entry::event(event, |_| panic!("no thread waits"));
        });
        together([call, comes]);
        assert!(entry.read.look().is_ready(), "the second message is not received");
    });
}

#[test]
fn a_call_notes_nothing_beside_a_source() {
    a_source_comes_beside_a_call(|entry, seen| {
        if !entry.has_sources() {
            entry.read.is_used_up(seen);
        }
    });
}

#[test]
#[should_panic(expected = "the second message is not received")]
fn negative_a_call_notes_that_all_is_used_up() {
    a_source_comes_beside_a_call(|entry, seen| entry.read.is_used_up(seen));
}
