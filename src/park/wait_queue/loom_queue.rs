//! The wait queue: the last look against the grant, grants against deadlines, and a move against both.

use std::sync::Arc;

use super::{Options, Order, Token, Woken, grant_all, grant_one, requeue, wait};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Core, Green, Letter, both_outcomes, deadline, model, model_within, on, spawn_with, together,
};
use crate::park::wait::Wait;
use crate::park::wait::WaitError;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::shim::{MODEL_STRIDE, strike};

const TOKEN: Token = Token(1);

/// Two keys in different buckets, a condition, and what it guards.
#[derive(Default)]
#[repr(C, align(2048))]
struct WaitPoint {
    ready: AtomicBool,
    letter: Letter,
    woken: AtomicU32,
}

impl WaitPoint {
    fn new() -> Arc<Self> {
        let point = Arc::new(Self::default());
        // It must exist before the threads do.
        point.letter.read();
        point
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn other_key(&self) -> usize {
        self.key() + MODEL_STRIDE
    }

    fn write(&self) {
        self.letter.write(1);
    }

    fn read(&self) {
        assert_eq!(self.letter.read(), 1);
    }
}

fn options(timed: bool) -> Options {
    Options {
        order: Order::Fifo,
        ..Options::new(WaitReason::Mutex, Wait::by(if timed { deadline() } else { None }))
    }
}

/// Waits until the point is ready, and reads.
fn reader(point: &WaitPoint, last_look: impl Fn() -> bool) {
    if !point.ready.load(Ordering::Acquire) {
        let _ = wait(point.key(), &options(false), last_look, || ());
    }
    // Relaxed would be enough: the grant, or the bucket lock of the last look, has ordered it.
    assert!(point.ready.load(Ordering::Relaxed));
    point.read();
}

fn writer(point: &WaitPoint) {
    point.write();
    let grant = grant_one(point.key(), |_| {
        point.ready.store(true, Ordering::Release);
        TOKEN
    });
    if let Some(grant) = grant {
        grant.wake();
    }
}

#[test]
fn no_wakeup_is_lost() {
    model(|| {
        let point = WaitPoint::new();
        let other = point.clone();
        together([
            Box::new(move || reader(&point, || !point.ready.load(Ordering::Relaxed))),
            Box::new(move || writer(&other)),
        ]);
    });
}

#[test]
fn no_wakeup_of_a_green_thread_is_lost() {
    model(|| {
        let point = WaitPoint::new();
        let green = Green::new();
        let other = spawn_with(point.clone(), move |point| writer(&point));
        on(green.thread(), || reader(&point, || !point.ready.load(Ordering::Relaxed)));
        other.join().unwrap();
    });
}

/// Without the last look under the lock. The grant may come between the first look and the queueing.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    model(|| {
        let point = WaitPoint::new();
        let other = point.clone();
        together([Box::new(move || reader(&point, || true)), Box::new(move || writer(&other))]);
    });
}

/// Waits, and returns how its wait ended.
fn timed(point: &WaitPoint) {
    match wait(point.key(), &options(true), || true, || ()).unwrap() {
        Woken::Granted(token) => {
            assert_eq!(token, TOKEN);
            point.woken.fetch_add(1, Ordering::Relaxed);
            point.read();
        }
        Woken::Ended { why: WaitError::TimedOut, moved } => assert!(!moved),
        Woken::Ended { why: WaitError::Interrupted, .. } => unreachable!("no thread interrupts it"),
    }
}

/// Grants one waiter, if there is one. Returns how many.
fn granter(point: &WaitPoint) -> u32 {
    point.write();
    grant_one(point.key(), |_| TOKEN).map_or(0, |grant| {
        grant.wake();
        1
    })
}

#[test]
fn a_grant_and_a_deadline_have_one_winner() {
    both_outcomes(model, |seen| {
        let point = WaitPoint::new();
        let core = Core::new();
        let thread = core.thread();
        let sleeper = spawn_with(point.clone(), move |point| on(thread, || timed(&point)));
        let clock = loom::thread::spawn(strike);
        let granted = granter(&point);
        sleeper.join().unwrap();
        clock.join().unwrap();
        assert_eq!(point.woken.load(Ordering::Relaxed), granted);
        seen.saw(granted == 0);
        assert!(grant_one(point.key(), |_| TOKEN).is_none(), "left in the queue");
    });
}

#[test]
fn a_grant_and_a_timer_have_one_winner() {
    both_outcomes(model, |seen| {
        let point = WaitPoint::new();
        let green = Green::new();
        let sleeper = spawn_with((point.clone(), green.clone()), move |(point, green)| {
            on(green.thread(), || timed(&point))
        });
        let timer = spawn_with(green.clone(), move |green| green.fire());
        let granted = granter(&point);
        sleeper.join().unwrap();
        timer.join().unwrap();
        assert_eq!(point.woken.load(Ordering::Relaxed), granted);
        seen.saw(granted == 0);
        assert!(grant_one(point.key(), |_| TOKEN).is_none(), "left in the queue");
    });
}

/// A timer makes the thread runnable even if it has not won. The thread runs before its sleep is over, or is
/// woken twice.
#[test]
#[should_panic(expected = "woken twice")]
fn negative_timer_that_does_not_ask_for_the_winner() {
    model(|| {
        let point = WaitPoint::new();
        let green = Green::new();
        let sleeper = spawn_with((point.clone(), green.clone()), move |(point, green)| {
            on(green.thread(), || timed(&point))
        });
        let timer = spawn_with(green.clone(), move |green| green.fire_blindly());
        granter(&point);
        sleeper.join().unwrap();
        timer.join().unwrap();
    });
}

#[test]
fn all_are_granted_or_expire() {
    // Two preemptions make some hundred thousand orders here.
    model_within(1, || {
        let point = WaitPoint::new();
        let (core, green) = (Core::new(), Green::new());
        let thread = core.thread();
        let kernel = spawn_with(point.clone(), move |point| on(thread, || timed(&point)));
        let sleeper = spawn_with((point.clone(), green.clone()), move |(point, green)| {
            on(green.thread(), || timed(&point))
        });
        let clock = spawn_with(green.clone(), move |green| {
            strike();
            green.fire();
        });
        point.write();
        let granted = grant_all(point.key(), TOKEN, || true).unwrap().wake_all();
        kernel.join().unwrap();
        sleeper.join().unwrap();
        clock.join().unwrap();
        assert_eq!(point.woken.load(Ordering::Relaxed), granted as u32);
    });
}

#[test]
fn grant_all_and_a_deadline_have_one_winner() {
    both_outcomes(model, |seen| {
        let point = WaitPoint::new();
        let core = Core::new();
        let thread = core.thread();
        let sleeper = spawn_with(point.clone(), move |point| on(thread, || timed(&point)));
        let clock = loom::thread::spawn(strike);
        point.write();
        let granted = grant_all(point.key(), TOKEN, || true).unwrap().wake_all();
        sleeper.join().unwrap();
        clock.join().unwrap();
        assert_eq!(point.woken.load(Ordering::Relaxed), granted as u32);
        seen.saw(granted == 0);
    });
}

/// A waiter is moved to the other queue while its deadline passes. It is found in one of them, or has left.
#[test]
fn a_move_and_a_deadline_have_one_winner() {
    model(|| {
        let point = WaitPoint::new();
        let core = Core::new();
        let thread = core.thread();
        let sleeper = spawn_with(point.clone(), move |point| {
            on(thread, || match wait(point.key(), &options(true), || true, || ()).unwrap() {
                Woken::Granted(_) => 1,
                Woken::Ended { why: WaitError::TimedOut, moved } => 2 + u32::from(moved),
                Woken::Ended { why: WaitError::Interrupted, .. } => {
                    unreachable!("no thread interrupts it")
                }
            })
        });
        let clock = loom::thread::spawn(strike);
        let moved = requeue(point.key(), point.other_key(), |_| true);
        let granted = grant_one(point.other_key(), |_| TOKEN).map(super::Grant::wake).is_some();
        assert!(moved == 1 || !granted);
        let outcome = sleeper.join().unwrap();
        clock.join().unwrap();
        match outcome {
            1 => assert!(granted),
            2 => assert!(moved == 0 && !granted),
            _ => assert!(moved == 1 && !granted),
        }
    });
}
