//! Models of a source that threads use for the first time: the set reports to its entry as soon as any of
//! them has found that. A negative model notes only after that point that a call would have blocked.

use std::ptr;
use std::sync::Arc;

use super::{Direction, Source};
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
fn a_first_wait(enter: fn(&Source) -> &'static Entry) {
    model(move || {
        // The table is made before the threads start.
        Entry::take().give_back();
        let socket = Arc::new(Socket { source: Source::new(), watched: AtomicBool::new(false) });
        assert!(socket.source.entry().is_none() && !socket.watched.load(Ordering::Relaxed));
        let writer = body(&socket, move |it: &Socket| it.watch(enter(&it.source)));
        let reader = body(&socket, |it: &Socket| {
            if let Some(entry) = it.source.entry() {
                it.watch(entry);
            }
        });
        together([writer, reader]);
        let entry = socket.source.entry().expect("the writer has made it");
        assert!(entry.write.look().is_ready(), "the event is lost");
    });
}

#[test]
fn what_is_reported_before_a_first_wait_is_kept() {
    a_first_wait(|source| source.enter(Direction::Write));
}

#[test]
#[should_panic(expected = "the event is lost")]
fn negative_a_first_wait_is_noted_late() {
    a_first_wait(|source| {
        let entry = Entry::take();
        let new = ptr::from_ref(entry).cast_mut();
        source.0.store(new, Ordering::Release);
        entry.write.would_block(entry.write.look());
        entry
    });
}
