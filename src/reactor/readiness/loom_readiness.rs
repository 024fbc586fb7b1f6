//! Models of a descriptor's word: events come while threads find that their calls would block. Negative
//! models have events without a count, clear READY whatever has happened since, or wait without a last look.

use std::sync::Arc;

use super::{READY, Readiness, Report, Seen, WAITED};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Outcomes, body, deadline, model, model_within, together};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::strike;

/// A descriptor with some bytes, which come one by one, each with an event.
#[repr(align(2048))]
struct Descriptor {
    word: Readiness,
    bytes: AtomicU32,
}

/// What a negative model does in another way.
#[derive(Clone, Copy)]
struct Wrong {
    event: fn(&Readiness),
    used_up: fn(&Readiness, Seen),
    wait: fn(&Readiness),
}

const RIGHT: Wrong = Wrong {
    event: |word| _ = word.notify(1, Report::Ready).map(wait_queue::Grants::wake_all),
    used_up: Readiness::would_block,
    wait: |word| word.wait(WaitReason::Readable, Wait::forever()).expect("it has no deadline"),
};

impl Descriptor {
    fn new() -> Arc<Self> {
        let this = Arc::new(Self { word: Readiness::new(), bytes: AtomicU32::new(0) });
        // Creates all of loom's objects before the threads start.
        this.word.begin(1);
        this.word.is_used_up(this.word.look());
        assert_eq!(this.bytes.load(Ordering::Relaxed), 0);
        this
    }

    fn write(&self, wrong: Wrong) {
        self.bytes.fetch_add(1, Ordering::Relaxed);
        (wrong.event)(&self.word);
    }

    /// Takes a byte, if there is one.
    fn take(&self) -> bool {
        let take = |bytes: u32| bytes.checked_sub(1);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn read(&self, wrong: Wrong) {
        loop {
            let seen = self.word.look();
            if seen.is_ready() {
                if self.take() {
                    return;
                }
                (wrong.used_up)(&self.word, seen);
            }
            (wrong.wait)(&self.word);
        }
    }
}

/// One thread writes two bytes, and another reads them.
fn two_bytes(wrong: Wrong) {
    let descriptor = Descriptor::new();
    let reader = body(&descriptor, move |it| {
        it.read(wrong);
        it.read(wrong);
    });
    let writer = body(&descriptor, move |it| {
        it.write(wrong);
        it.write(wrong);
    });
    together([reader, writer]);
}

#[test]
fn no_event_is_lost() {
    model(|| two_bytes(RIGHT));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_an_event_is_not_counted() {
    let event = |word: &Readiness| {
        if word.0.fetch_or(READY, Ordering::Release) & WAITED != 0 {
            (RIGHT.event)(word);
        }
    };
    model(move || two_bytes(Wrong { event, ..RIGHT }));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_ready_is_cleared_after_another_event() {
    let used_up = |word: &Readiness, _| _ = word.0.fetch_and(!READY, Ordering::Relaxed);
    model(move || two_bytes(Wrong { used_up, ..RIGHT }));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    let wait = |word: &Readiness| {
        word.0.fetch_or(WAITED, Ordering::Relaxed);
        let options = Options::new(WaitReason::Readable, Wait::forever());
        let _ = wait_queue::wait(word.key(), &options, || true, || ());
    };
    model(move || two_bytes(Wrong { wait, ..RIGHT }));
}

/// Two threads wait for one byte each. The first event wakes both, and one of them waits again.
#[test]
fn two_readers_of_one_descriptor() {
    model_within(1, || {
        let descriptor = Descriptor::new();
        let reader = || body(&descriptor, |it: &Descriptor| it.read(RIGHT));
        let writer = body(&descriptor, |it: &Descriptor| {
            it.write(RIGHT);
            it.write(RIGHT);
        });
        together([writer, reader(), reader()]);
        assert_eq!(descriptor.bytes.load(Ordering::Relaxed), 0);
    });
}

/// A reader gives up at the moment of the event. The next reader finds the byte.
#[test]
fn a_reader_gives_up() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let descriptor = Descriptor::new();
        let outcomes = outcomes.clone();
        let reader = body(&descriptor, move |it: &Descriptor| {
            let expired =
                it.word.wait(WaitReason::Readable, Wait::by(deadline())) == Err(WaitError::TimedOut);
            outcomes.saw(expired);
            it.read(RIGHT);
        });
        let writer = body(&descriptor, |it: &Descriptor| it.write(RIGHT));
        let clock = body(&descriptor, |_: &Descriptor| strike());
        together([reader, writer, clock]);
    });
    seen.are_both();
}

/// An event of an earlier life comes while the entry is used again.
#[test]
fn an_event_comes_late() {
    model(|| {
        let descriptor = Descriptor::new();
        let next = body(&descriptor, |it: &Descriptor| {
            it.word.begin(2);
            it.word.is_used_up(it.word.look());
            assert!(!it.word.look().is_ready(), "an event of another life");
        });
        let late = body(&descriptor, |it: &Descriptor| {
            let grants = it.word.notify(1, Report::Closed);
            assert_eq!(grants.map_or(0, wait_queue::Grants::wake_all), 0);
        });
        together([next, late]);
    });
}

impl Descriptor {
    /// Takes a byte as a thread does that asks the set anew before each wait (`by_number.rs`): what is there
    /// by then is reported.
    fn read_anew(&self, wait: fn(&Readiness, Seen)) {
        while !self.take() {
            let seen = self.word.forget();
            // The kernel looks at what there is now, not at what a thread has seen of it.
            if self.bytes.fetch_add(0, Ordering::AcqRel) > 0 {
                (RIGHT.event)(&self.word);
            }
            wait(&self.word, seen);
        }
    }
}

/// Two bytes, one for each of two readers. One takes its byte at once, and finds that it has taken all that
/// its call asked for. The other waits meanwhile, and is not to lose the event of the second byte.
fn asked_anew(wait: fn(&Readiness, Seen)) {
    model(move || {
        let descriptor = Descriptor::new();
        let writer = body(&descriptor, |it: &Descriptor| {
            it.bytes.fetch_add(2, Ordering::Relaxed);
            (RIGHT.event)(&it.word);
        });
        let reader = body(&descriptor, move |it: &Descriptor| it.read_anew(wait));
        let other = body(&descriptor, move |it: &Descriptor| {
            let seen = it.word.look();
            if seen.is_ready() && it.take() {
                it.word.is_used_up(seen);
            }
        });
        together([reader, writer, other]);
    });
}

#[test]
fn no_event_is_lost_that_is_asked_for_anew() {
    asked_anew(|word, seen| {
        let forever = Wait::forever();
        word.wait_since(seen, WaitReason::Readable, forever).expect("it has no deadline");
    });
}

/// The waiter looks at READY, which the other reader has cleared, instead of the count.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_ready_is_looked_at_instead_of_the_count() {
    asked_anew(|word, _| (RIGHT.wait)(word));
}
