//! An alarm that rings while its thread goes from one wait to the next. The last deadline is not missed. And
//! what rings is done with the alarm before the thread is gone.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use super::super::{BATCH, Clock, NEVER, Timers};
use super::Alarm;
use crate::park::backend::{Backend, CorePool, Sleep};
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Letter, model, on, spawn_with};
use crate::park::thread::{NO_ID, ThreadCore, ThreadRef};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicU32, Ordering, fence};
use crate::shim::{MODEL_STRIDE, UnsafeCell, futex};
use crate::time::Moment;

/// The deadlines of the two waits, in ticks.
const FIRST: u64 = 10;
const SECOND: u64 = 20;

type Rings = fn(&Alarm, u64) -> bool;
type Ring = fn(&Timers, u64, &mut dyn FnMut(ThreadRef));

/// A thread and its LWP's timers.
struct World {
    timers: Timers,
    clock: Clock,
    alarm: UnsafeCell<MaybeUninit<Alarm>>,
    /// 1 while the thread is runnable.
    runnable: AtomicU32,
    /// 1 once the thread is in its second wait.
    waits: AtomicU32,
    rings: Rings,
}

// SAFETY: the models are to show it.
unsafe impl Sync for World {}
// SAFETY: the models are to show it.
unsafe impl Send for World {}

impl World {
    fn alarm(&self) -> &Alarm {
        // SAFETY: it is made before the threads start.
        self.alarm.with(|alarm| unsafe { (*alarm).assume_init_ref() })
    }

    /// Sleeps until a word is 1.
    fn sleep_until(&self, word: &AtomicU32) {
        while word.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(word, 0, None);
        }
    }

    /// Sets a word to 1.
    fn set(&self, word: &AtomicU32) {
        assert_eq!(word.swap(1, Ordering::AcqRel), 0, "woken twice");
        futex::wake(std::ptr::from_ref(word), 1);
    }
}

impl Backend for World {
    fn block(&self, _: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, _: WaitReason) {
        assert!(sleep.has_far_deadline());
        let at = self.clock.at(deadline.expect("all have one"));
        if !(self.rings)(self.alarm(), at) {
            // SAFETY: the timers and the alarm stay until the model is over.
            unsafe { self.alarm().set(&self.timers, at) };
        }
        if at == SECOND {
            self.set(&self.waits);
        }
        self.sleep_until(&self.runnable);
        self.runnable.store(0, Ordering::Relaxed);
        assert!(!sleep.is_asleep(), "it runs before its sleep is over");
    }

    fn wake(&self, _: ThreadRef, _: *const AtomicU32) {
        self.set(&self.runnable);
    }

    fn yield_now(&self, _: &ThreadRef) {
        unreachable!("it does not yield")
    }
}

impl CorePool for World {
    fn recycle(&self, _: ThreadRef) {
        unreachable!("its core stays")
    }
}

/// Waits until a tick. Returns `true` if that was granted.
fn wait(world: &World, key: usize, at: u64) -> bool {
    let wait = Wait { is_far: true, may_be_over: false, ..Wait::by(world.clock.moment(at)) };
    match wait_queue::wait(key, &Options::new(WaitReason::Readable, wait), || true, || ()).unwrap() {
        Woken::Granted(_) => true,
        Woken::Ended { why, .. } => {
            assert_eq!(why, WaitError::TimedOut);
            false
        }
    }
}

/// Runs a model of a green thread with an alarm, which is not set.
fn play(rings: Rings, body: impl Fn(&'static World, ThreadRef) + Send + Sync + 'static) {
    model(move || {
        let (alarm, runnable, waits) = (UnsafeCell::new(MaybeUninit::uninit()), 0.into(), 0.into());
        let world = World { timers: Timers::new(), clock: Clock::new(), alarm, runnable, waits, rings };
        let world = Box::into_raw(Box::new(world));
        // SAFETY: it stays until the body has returned, and the model's threads are gone by then.
        let all: &'static World = unsafe { &*world };
        let core = Box::into_raw(Box::new(ThreadCore::new(all, all)));
        // SAFETY: it stays as long.
        let thread = ThreadRef::new(unsafe { &*core });
        // SAFETY: it is new.
        unsafe { thread.core().begin(1, NO_ID, all, None, None, Priority::Normal) };
        all.alarm.with_mut(|alarm| {
            let at = NonNull::new(alarm).expect("it is there").cast();
            // SAFETY: the place is free, and made for it.
            unsafe { Alarm::put(at, thread, all.clock) };
        });
        // They must exist before the threads do.
        all.timers.touch();
        assert_eq!(all.alarm().rings.load(Ordering::Relaxed), NEVER);
        assert!(all.runnable.load(Ordering::Relaxed) + all.waits.load(Ordering::Relaxed) == 0);
        thread.core().wait_state.at(MODEL_STRIDE);
        body(all, thread);
        // SAFETY: made by `into_raw`, and not used any more.
        drop(unsafe { Box::from_raw(core) });
        // SAFETY: made by `into_raw`, and not used any more.
        drop(unsafe { Box::from_raw(world) });
    });
}

/// Sets the alarm for the first wait, which is over.
fn set_for_first(world: &World) {
    // SAFETY: the timers stay until the model is over, and the model shows if the alarm does.
    unsafe { world.alarm().set(&world.timers, FIRST) };
}

/// Models a thread whose alarm is set for `FIRST`, and that waits until `SECOND`. It has waited with
/// `MODEL_STRIDE` as its key, and now waits with `key`. Meanwhile the alarm rings. At last, it is `SECOND`.
fn second_wait(key: usize, rings: Rings, ring: Ring) {
    play(rings, move |world, thread| {
        set_for_first(world);
        let firer = loom::thread::spawn(move || {
            ring(&world.timers, FIRST, &mut |_| unreachable!("no deadline has passed"));
        });
        let sleeper = loom::thread::spawn(move || on(thread, || wait(world, key, SECOND)));
        firer.join().unwrap();
        world.sleep_until(&world.waits);
        assert!(world.timers.next() <= SECOND, "the deadline is missed");
        world.timers.fire(SECOND, BATCH, BATCH, |thread| world.wake(thread, std::ptr::null()));
        assert!(!sleeper.join().unwrap());
        world.alarm().end();
        assert_eq!(world.timers.next(), NEVER);
    });
}

fn rings(alarm: &Alarm, at: u64) -> bool {
    alarm.rings_by(at)
}

fn ring(timers: &Timers, now: u64, ready: &mut dyn FnMut(ThreadRef)) {
    timers.fire(now, BATCH, BATCH, ready);
}

#[test]
fn a_wait_that_begins_while_the_alarm_rings_is_not_missed() {
    second_wait(0, rings, ring);
}

#[test]
fn nor_is_one_for_the_same_as_before() {
    second_wait(MODEL_STRIDE, rings, ring);
}

/// The thread reads when its alarm rings, without a fence.
#[test]
#[should_panic(expected = "the deadline is missed")]
fn negative_no_fence_of_the_thread() {
    second_wait(0, |alarm, at| alarm.rings.load(Ordering::Relaxed) <= at, ring);
}

/// What rings looks for the thread's wait first, and then says that the alarm is silent.
#[test]
#[should_panic(expected = "the deadline is missed")]
fn negative_silent_after_the_look() {
    let ring: Ring = |timers, now, _| {
        timers.wheel.with(|wheel| {
            wheel.expire(now, BATCH, BATCH, |sleeper| {
                let super::Sleeper::Any(alarm) = sleeper else { unreachable!("there is one alarm") };
                // SAFETY: it stays until the model is over.
                let alarm = unsafe { alarm.as_ref() };
                let mut later = None;
                wait_queue::expire_if(alarm.thread, |deadline| {
                    later = Some(alarm.clock.at(deadline));
                    false
                });
                fence(Ordering::SeqCst);
                alarm.rings.store(later.unwrap_or(NEVER), Ordering::Relaxed);
                later
            });
            timers.publish(wheel);
        });
    };
    second_wait(0, rings, ring);
}

/// Models a thread that ends while its alarm rings.
fn the_thread_goes(end: fn(&Alarm)) {
    play(rings, move |world, _| {
        let place = Arc::new(Letter::default());
        place.read();
        set_for_first(world);
        let firer = spawn_with(place.clone(), move |place| {
            world.timers.wheel.with(|wheel| {
                wheel.expire(FIRST, BATCH, BATCH, |_| {
                    let later = world.alarm().ring(FIRST, &mut |_| unreachable!("it does not wait"));
                    place.read();
                    later
                });
                world.timers.publish(wheel);
            });
        });
        end(world.alarm());
        place.write(1);
        firer.join().unwrap();
    });
}

#[test]
fn a_thread_is_gone_after_its_alarm_has_rung() {
    the_thread_goes(Alarm::end);
}

/// The thread finds its alarm silent, and takes no lock.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_gone_because_it_is_silent() {
    the_thread_goes(|alarm| {
        if alarm.rings.load(Ordering::Acquire) != NEVER {
            alarm.end();
        }
    });
}

#[test]
fn a_grant_and_an_alarm_have_one_winner() {
    play(rings, |world, thread| {
        let sleeper = loom::thread::spawn(move || on(thread, || wait(world, 0, SECOND)));
        world.sleep_until(&world.waits);
        let firer = loom::thread::spawn(move || {
            world.timers.fire(SECOND, BATCH, BATCH, |thread| world.wake(thread, std::ptr::null()))
        });
        let granted = wait_queue::grant_all(0, Token(1), || true).map_or(0, |grants| grants.wake_all());
        firer.join().unwrap();
        assert_eq!(sleeper.join().unwrap(), granted == 1);
        world.alarm().end();
    });
}
