//! Models of an LWP that sleeps in the set of descriptors: a waker takes it off its list, while events come.
//! A negative model wakes it as if it waited on its word.

use std::sync::Arc;

use super::{ASLEEP, AWAKE, IdleSleep};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::shim::poll_set::{Event, Events, PollSet, Report, happen};
use crate::shim::{self, UnsafeCell};

struct Model {
    sleep: IdleSleep,
    set: PollSet,
    /// The LWP is on the list of sleepers.
    listed: AtomicBool,
    events: AtomicU32,
    /// What the waker has for the sleeper, and the sleeper for a waker that has seen it in the set.
    queued: UnsafeCell<u32>,
    sleeper: UnsafeCell<u32>,
}

// SAFETY: the words order the accesses to the cells, which loom checks.
unsafe impl Sync for Model {}

impl Model {
    fn new() -> Arc<Self> {
        let this = Self {
            sleep: IdleSleep(AtomicU32::from(AWAKE)),
            set: PollSet::new().unwrap(),
            listed: AtomicBool::from(true),
            events: AtomicU32::from(0),
            queued: UnsafeCell::new(0),
            sleeper: UnsafeCell::new(0),
        };
        let _ = this.set.look(&mut Events::new());
        this.sleep.prepare();
        Arc::new(this)
    }

    /// Sleeps until another thread has taken the LWP off the list.
    fn sleep(&self) {
        // SAFETY: a waker reads it once it has seen that this thread is in the set.
        self.sleeper.with_mut(|sleeper| unsafe { *sleeper = 7 });
        loop {
            let mut events = Events::new();
            let (woken, there) = self.sleep.wait_in(&self.set, None, &mut events, || ());
            assert!(there);
            self.events.fetch_add(events.iter().count() as u32, Ordering::Relaxed);
            if woken {
                break;
            }
            // It was an event.
            if !self.listed.load(Ordering::Relaxed) {
                assert!(self.sleep.wait(None, || ()));
                break;
            }
        }
        assert_eq!(self.sleep.0.load(Ordering::Relaxed), AWAKE);
        self.take();
    }

    /// Sleeps for a while, or until another thread has taken the LWP off the list.
    fn sleep_for_a_while(&self) {
        if !self.sleep.wait(Some(shim::now()), || ()) {
            if self.listed.swap(false, Ordering::Relaxed) {
                return self.sleep.cancel();
            }
            assert!(self.sleep.wait(None, || ()));
        }
        self.take();
    }

    fn take(&self) {
        // SAFETY: the waker wrote it before.
        assert_eq!(self.queued.with(|queued| unsafe { *queued }), 1);
    }

    /// Relaxed: no more than the sleep's own word may be needed to order the cells.
    fn wake(&self, wake: fn(&Self)) {
        if self.listed.swap(false, Ordering::Relaxed) {
            // SAFETY: the sleeper reads it when it is awake.
            self.queued.with_mut(|queued| unsafe { *queued = 1 });
            wake(self);
        }
    }
}

fn right(model: &Model) {
    if model.sleep.wake() {
        // As `Scheduler::signal_sleeper` looks which LWP is in the set.
        fence(Ordering::Acquire);
        // SAFETY: the sleeper wrote it before it went into the set.
        assert_eq!(model.sleeper.with(|sleeper| unsafe { *sleeper }), 7);
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
fn a_waker_ends_a_sleep_in_time() {
    model(|| {
        let model = Model::new();
        let lwp = spawn_with(Arc::clone(&model), |model| model.sleep_for_a_while());
        let clock = loom::thread::spawn(shim::strike);
        model.wake(right);
        lwp.join().unwrap();
        clock.join().unwrap();
    });
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
