//! Alarms, with a thread that plays its LWP as well: while it is asleep, it fires timers or grants its wait.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::super::{BATCH, Clock, NEVER, Timers};
use super::Alarm;
use crate::park::backend::{Backend, CorePool, Sleep};
use crate::park::current;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::{NO_ID, ThreadCore, ThreadRef};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::AtomicU32;
use crate::time::Moment;

/// What happens while the thread sleeps.
#[derive(Clone, Copy, Debug)]
enum Event {
    Grant,
    /// The timers of this number are fired at this tick. Says if that ends the sleep.
    Fire(usize, u64, bool),
}
use Event::{Fire, Grant};

/// A thread, two LWPs, and what is to happen.
struct World {
    timers: [Timers; 2],
    clock: Clock,
    /// The LWP that the thread is on.
    on: Cell<usize>,
    alarm: Cell<Option<NonNull<Alarm>>>,
    events: RefCell<Vec<Event>>,
}

// SAFETY: one thread uses it.
unsafe impl Sync for World {}

impl World {
    fn fire(&self, timers: usize, now: u64) -> usize {
        let mut ready = 0;
        self.timers[timers].fire(now, BATCH, BATCH, |_| ready += 1);
        ready
    }

    fn alarm(&self) -> &Alarm {
        // SAFETY: it stays for as long as `play` runs.
        unsafe { self.alarm.get().expect("the thread has one").as_ref() }
    }

    fn next(&self) -> [u64; 2] {
        [0, 1].map(|lwp| self.timers[lwp].next())
    }

    /// Waits until a tick, or without a deadline, while these events happen. Returns `true` if the wait was
    /// granted.
    fn wait(&self, far: bool, until: Option<u64>, events: &[Event]) -> bool {
        self.events.borrow_mut().extend(events);
        let deadline = until.map(|at| self.clock.moment(at).unwrap());
        let wait = Wait { is_far: far, may_be_over: false, ..Wait::by(deadline) };
        let woken = wait_queue::wait(self.key(), &Options::new(WaitReason::Readable, wait), || true, || ());
        assert!(self.events.borrow().is_empty(), "it slept until the last");
        match woken.unwrap() {
            Woken::Granted(_) => true,
            Woken::Ended { why, .. } => {
                assert_eq!(why, WaitError::TimedOut);
                false
            }
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Backend for World {
    fn block(&self, _: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, _: WaitReason) {
        if let Some(deadline) = deadline.filter(|_| sleep.has_far_deadline()) {
            let at = self.clock.at(deadline);
            if !self.alarm().rings_by(at) {
                // SAFETY: the timers stay, and so does the alarm. There is no preemption.
                unsafe { self.alarm().set(&self.timers[self.on.get()], at) };
            }
        }
        for event in self.events.take() {
            assert!(sleep.is_asleep(), "it was to sleep until {event:?}");
            match event {
                Grant => _ = wait_queue::grant_all(self.key(), Token(0), || true).map(|all| all.wake_all()),
                Fire(timers, now, ends) => assert_eq!(self.fire(timers, now), usize::from(ends), "{event:?}"),
            }
        }
        assert!(!sleep.is_asleep());
    }

    fn wake(&self, _: ThreadRef, _: *const AtomicU32) {}

    fn yield_now(&self, _: &ThreadRef) {
        unreachable!("it does not yield")
    }
}

impl CorePool for World {
    fn recycle(&self, _: ThreadRef) {
        unreachable!("its core stays")
    }
}

/// Runs `f` as a green thread of a new world. Checks at the end that its alarm is in no wheel.
fn play(f: impl FnOnce(&World)) {
    let timers = [Timers::new(), Timers::new()];
    let (on, alarm, events) = (Cell::new(0), Cell::new(None), RefCell::default());
    let world: &'static World = Box::leak(Box::new(World { timers, clock: Clock::new(), on, alarm, events }));
    let core: &'static ThreadCore = Box::leak(Box::new(ThreadCore::new(world, world)));
    // SAFETY: it is new.
    unsafe { core.begin(1, NO_ID, world, None, None, Priority::Normal) };
    let mut place = MaybeUninit::<Alarm>::uninit();
    let at = NonNull::from(&mut place).cast();
    // SAFETY: the place is free, and made for it.
    unsafe { Alarm::put(at, ThreadRef::new(core), world.clock) };
    world.alarm.set(Some(at));
    let before = current::try_current();
    current::set_current(Some(ThreadRef::new(core)));
    f(world);
    world.alarm().end();
    current::set_current(before);
    assert_eq!(world.next(), [NEVER; 2]);
    assert_eq!(world.fire(0, NEVER - 1) + world.fire(1, NEVER - 1), 0);
}

#[test]
fn a_wait_ends_at_its_deadline_and_not_before() {
    play(|world| {
        assert!(!world.wait(true, Some(1000), &[Fire(0, 999, false), Fire(0, 1000, true)]));
        assert_eq!(world.next(), [NEVER; 2], "it is silent");
    });
}

#[test]
fn a_million_waits_leave_one_entry_which_rings_once() {
    play(|world| {
        (0..1_000_000).for_each(|n| assert!(world.wait(true, Some(1000 + n), &[Grant])));
        assert_eq!(world.next(), [1000, NEVER], "as the first has left it");
        assert_eq!((world.fire(0, 1000), world.next()), (0, [NEVER; 2]), "no wait is there");
        assert!(world.wait(true, Some(5000), &[Grant]));
        assert_eq!(world.next(), [5000, NEVER]);
    });
}

#[test]
fn an_alarm_that_rings_in_a_later_wait_is_set_for_that() {
    play(|world| {
        assert!(world.wait(true, Some(1000), &[Grant]));
        assert!(!world.wait(
            true,
            Some(1500),
            &[Fire(0, 1000, false), Fire(0, 1499, false), Fire(0, 1500, true)]
        ));
        assert!(world.wait(true, Some(2000), &[Grant]));
        assert!(world.wait(true, Some(2500), &[Fire(0, 2000, false), Grant]));
        assert_eq!(world.next(), [2500, NEVER]);
    });
}

#[test]
fn a_shorter_limit_sets_the_alarm_anew() {
    play(|world| {
        assert!(world.wait(true, Some(1000), &[Grant]));
        assert!(!world.wait(true, Some(500), &[Fire(0, 499, false), Fire(0, 500, true)]));
        assert_eq!(world.next(), [NEVER; 2]);
    });
}

#[test]
fn a_wait_without_a_limit_or_with_a_near_one_is_not_the_alarms() {
    play(|world| {
        assert!(world.wait(true, Some(1000), &[Grant]));
        assert!(world.wait(false, None, &[Fire(0, 1000, false), Grant]));
        assert_eq!(world.next(), [NEVER; 2], "it is silent");
        assert!(world.wait(true, Some(2000), &[Grant]));
        assert!(world.wait(false, Some(1500), &[Fire(0, 2000, false), Grant]));
    });
}

/// The entry stays with the LWP where it was set, until it rings later than a deadline.
#[test]
fn an_alarm_is_in_one_wheel() {
    play(|world| {
        assert!(world.wait(true, Some(1000), &[Grant]));
        world.on.set(1);
        assert!(world.wait(true, Some(1100), &[Grant]));
        assert_eq!(world.next(), [1000, NEVER]);
        assert!(world.wait(true, Some(900), &[Grant]));
        assert_eq!(world.next(), [NEVER, 900]);
        assert_eq!(world.fire(1, 900), 0);
        world.on.set(0);
        assert!(!world.wait(true, Some(1200), &[Fire(1, 1200, false), Fire(0, 1200, true)]));
        assert!(world.wait(true, Some(1300), &[Grant]));
        // It ends with its alarm set.
    });
}
