//! Models of an LWP that sleeps in the set of descriptors: a waker takes it off its list, while events come.
//! A negative model wakes it as if it waited on its word.

use std::sync::Arc;

use super::{ASLEEP, AWAKE, IdleSleep};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::shim::poll_set::{Event, Events, PollSet, Report, happen};

struct Model {
    sleep: IdleSleep,
    set: PollSet,
    /// The LWP is on the list of sleepers.
    listed: AtomicBool,
    events: AtomicU32,
}

impl Model {
    fn new() -> Arc<Self> {
        let this = Self {
            sleep: IdleSleep(AtomicU32::from(AWAKE)),
            set: PollSet::new().unwrap(),
            listed: AtomicBool::from(true),
            events: AtomicU32::from(0),
        };
        let _ = this.set.look(&mut Events::new());
        this.sleep.prepare();
        Arc::new(this)
    }

    /// Sleeps until another thread has taken the LWP off the list.
    fn sleep(&self) {
        loop {
            let mut events = Events::new();
            let (woken, there) = self.sleep.wait_in(&self.set, None, &mut events, || ());
            assert!(there);
            self.events.fetch_add(events.iter().count() as u32, Ordering::Relaxed);
            if woken {
                break;
            }
            // It was an event.
            if !self.listed.load(Ordering::Acquire) {
                assert!(self.sleep.wait(None, || ()));
                break;
            }
        }
        assert_eq!(self.sleep.0.load(Ordering::Relaxed), AWAKE);
    }

    fn wake(&self, wake: fn(&Self)) {
        assert!(self.listed.swap(false, Ordering::AcqRel));
        wake(self);
    }
}

fn right(model: &Model) {
    if model.sleep.wake() {
        model.set.ring().unwrap();
    }
}

const EVENT: Event = Event { token: 0, read: Some(Report::Ready), write: None };

fn sleeps_among_events(wake: fn(&Model)) {
    model(move || {
        let model = Model::new();
        let lwp = spawn_with(Arc::clone(&model), move |model| model.sleep());
        let kernel = loom::thread::spawn(|| happen(EVENT));
        model.wake(wake);
        lwp.join().unwrap();
        kernel.join().unwrap();
        let mut events = Events::new();
        let _ = model.set.look(&mut events);
        let left = events.iter().count() as u32;
        assert_eq!(model.events.load(Ordering::Relaxed) + left, 1, "an event is lost");
    });
}

#[test]
fn a_waker_ends_a_sleep_in_the_set() {
    sleeps_among_events(right);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_bell() {
    sleeps_among_events(|model| _ = model.sleep.wake());
}

/// The waker does not see that the sleeper is in the set, because it looks before it changes the word.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_look_before_the_change() {
    sleeps_among_events(|model| {
        let waits = model.sleep.0.load(Ordering::Acquire) == ASLEEP;
        let in_set = model.sleep.wake();
        if !waits && in_set {
            model.set.ring().unwrap();
        }
    });
}
