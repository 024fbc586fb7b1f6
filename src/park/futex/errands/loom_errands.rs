//! Errands that are left while the helper runs. Negative twins ring too early, look at the bell too late, or
//! say too late that an errand is not in the list. One does not ring for an errand that the helper has kept.
//! One loses a share, because it counts in two steps.

use std::ptr;
use std::sync::Arc;

use super::{Errand, Errands};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;

/// What threads ask for, one bit each, and what the helper has seen.
#[repr(align(2048))]
struct Shared {
    errands: Errands,
    errand: Errand,
    asked: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Self { errands: Errands::new(), errand: Errand::new(), asked: AtomicU32::new(0) };
        // Creates all of loom's objects before the threads start.
        assert_eq!(shared.asked.load(Ordering::Relaxed), 0);
        assert_eq!(shared.errand.times.load(Ordering::Relaxed), 0);
        assert!(shared.errand.next.load(Ordering::Relaxed).is_null());
        assert_eq!(shared.errands.serve(|_, _| unreachable!("nothing was left")), 0);
        Arc::new(shared)
    }
}

type Serve = fn(&Errands, &mut dyn FnMut()) -> u32;

fn serve(errands: &Errands, run: &mut dyn FnMut()) -> u32 {
    errands.serve(|_, _| run())
}

/// Models two threads that leave the same errand, and the helper.
fn two(leave: fn(&Errands, &Errand), serve: Serve) {
    model(move || {
        let shared = Shared::new();
        let senders = [1, 2].map(|bit| {
            spawn_with(shared.clone(), move |shared| {
                // Relaxed: what is left orders it.
                shared.asked.fetch_or(bit, Ordering::Relaxed);
                leave(&shared.errands, &shared.errand);
            })
        });
        let mut seen = 0;
        loop {
            let rung = serve(&shared.errands, &mut || seen = shared.asked.load(Ordering::Relaxed));
            if seen == 3 {
                break;
            }
            shared.errands.sleep(rung, None);
        }
        senders.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

fn leave(errands: &Errands, errand: &Errand) {
    errands.leave(errand, || ());
}

#[test]
fn what_is_left_is_seen_to() {
    two(leave, serve);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_rung_before_it_was_left() {
    let leave = |errands: &Errands, errand: &Errand| {
        if errand.times.fetch_add(1, Ordering::AcqRel) == 0 {
            errands.rung.fetch_add(1, Ordering::Release);
            futex::wake(&errands.rung, 1);
            errands.put(errand);
        }
    };
    two(leave, serve);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_left_unordered() {
    let leave = |errands: &Errands, errand: &Errand| {
        if errand.times.fetch_add(1, Ordering::Relaxed) == 0 {
            errands.put(errand);
            errands.rung.fetch_add(1, Ordering::Release);
            futex::wake(&errands.rung, 1);
        }
    };
    two(leave, serve);
}

/// The list is looked at before the bell.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_list_before_the_bell() {
    let bell_last = |errands: &Errands, run: &mut dyn FnMut()| {
        serve(errands, run);
        errands.rung.load(Ordering::Acquire)
    };
    two(leave, bell_last);
}

/// The helper says that the errand is not in the list after it has looked at what it is about.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_taken_back_too_late() {
    let late = |errands: &Errands, run: &mut dyn FnMut()| {
        let rung = errands.rung.load(Ordering::Acquire);
        let at = errands.first.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: null, or the model's only errand.
        if let Some(errand) = unsafe { at.as_ref() } {
            run();
            errand.times.swap(0, Ordering::AcqRel);
        }
        rung
    };
    two(leave, late);
}

/// Models a helper that leaves an errand to itself, and sleeps without a deadline. Another thread leaves the
/// same errand meanwhile.
fn one_for_later(leave: fn(&Errands, &Errand)) {
    model(move || {
        let shared = Shared::new();
        shared.errands.leave_for_later(&shared.errand, || ());
        let sender = spawn_with(shared.clone(), move |shared| {
            // Relaxed: what is left orders it.
            shared.asked.store(1, Ordering::Relaxed);
            leave(&shared.errands, &shared.errand);
        });
        loop {
            let mut seen = 0;
            let rung = shared.errands.serve(|_, _| seen = shared.asked.load(Ordering::Relaxed));
            if seen == 1 {
                break;
            }
            shared.errands.leave_for_later(&shared.errand, || ());
            shared.errands.sleep(rung, None);
        }
        sender.join().unwrap();
    });
}

#[test]
fn what_is_kept_for_later_is_seen_to_at_once() {
    one_for_later(leave);
}

/// A thread that finds the errand in the list does not ring.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_bell_for_what_is_kept() {
    one_for_later(|errands, errand| {
        if errand.times.fetch_add(1, Ordering::AcqRel) == 0 {
            errands.put(errand);
            errands.rung.fetch_add(1, Ordering::Release);
            futex::wake(&errands.rung, 1);
        }
    });
}

/// Models a helper that gives up shares of what an errand is about, while another thread takes them.
fn shares(take: fn(&Errands) -> usize) {
    model(move || {
        let shared = Shared::new();
        let taker = spawn_with(shared.clone(), move |shared| take(&shared.errands));
        for _ in 0..2 {
            shared.errands.give_up(&shared.errand);
        }
        let taken = taker.join().unwrap();
        assert_eq!(taken + take(&shared.errands), 2, "a share is lost");
    });
}

#[test]
fn what_is_given_up_is_taken() {
    shares(|errands| {
        let mut taken = 0;
        errands.serve(|_, times| taken += times);
        taken
    });
}

#[test]
#[should_panic(expected = "a share is lost")]
fn negative_counted_in_two_steps() {
    shares(|errands| {
        let at = errands.first.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: null, or the model's only errand.
        unsafe { at.as_ref() }.map_or(0, |errand| {
            let taken = errand.times.load(Ordering::Acquire);
            errand.times.store(0, Ordering::Release);
            taken
        })
    });
}
