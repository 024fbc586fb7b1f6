//! The monitor saves a slot, or gives it back, and asks the reserve's thread to act on it. In the end, there
//! are as many slots as there are to be, and never more.

use crate::mxn::sched::Scheduler;
use crate::mxn::slots::pool::LwpPool;
use crate::mxn::slots::slot::InHand;
use crate::mxn::tests::Model;
use crate::park::tests::loom_model::model;

/// Makes `wanted` LWPs with a slot, as many as there are CPUs, and then `spares` without. One of the slots
/// may be `saved`.
pub(in crate::mxn) fn follows(wanted: usize, spares: usize, greens: usize, saved: bool) -> Model {
    let model = Model::with(wanted, spares, greens, |scheduler| {
        scheduler.pool = LwpPool::new(wanted + spares, wanted, true);
    });
    let scheduler = model.scheduler;
    if saved {
        scheduler.save_slots(1);
        assert!(scheduler.reserve_state.take_asked() && scheduler.settle_concurrency());
        assert_eq!(held(scheduler), wanted - 1);
    }
    model
}

/// Returns how many LWPs have a slot.
pub(in crate::mxn) fn held(scheduler: &Scheduler) -> usize {
    scheduler.pool.lwps().filter(|lwp| lwp.slot.is_held()).count()
}

/// Plays the reserve's thread, as `Reserve::run` does, until there are so many slots. It settles their number
/// by `settle`. It only does so when it is asked: a slot that another attempt would make, a moment later, is
/// late.
pub(in crate::mxn) fn keep_reserve(
    scheduler: &'static Scheduler,
    slots: u32,
    settle: impl Fn(&'static Scheduler) -> bool,
) {
    while scheduler.pool.slots() != slots {
        if scheduler.reserve_state.take_asked() {
            settle(scheduler);
        } else {
            scheduler.reserve_state.wait(None);
        }
    }
}

/// Models the reserve's thread while the monitor saves one of two slots by `save`.
fn a_slot_is_saved(save: fn(&'static Scheduler)) {
    model(move || {
        let model = follows(2, 0, 0, false);
        let scheduler = model.scheduler;
        let monitor = loom::thread::spawn(move || save(scheduler));
        keep_reserve(scheduler, 1, Scheduler::settle_concurrency);
        monitor.join().unwrap();
        assert_eq!(held(scheduler), 1);
    });
}

#[test]
fn a_saved_slot_is_retired() {
    a_slot_is_saved(|scheduler| scheduler.save_slots(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_reserve_is_asked_first() {
    a_slot_is_saved(|scheduler| {
        scheduler.reserve_state.ask();
        assert!(scheduler.pool.save(1));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_reserve_is_not_asked() {
    a_slot_is_saved(|scheduler| assert!(scheduler.pool.save(1)));
}

/// Models the reserve's thread while the monitor gives back a slot by `give_back`. There are two spares, and
/// one slot is to be made.
fn a_slot_is_given_back(give_back: fn(&'static Scheduler)) {
    model(move || {
        let model = follows(2, 1, 0, true);
        let scheduler = model.scheduler;
        for spare in [model.lwp(1), model.lwp(2)] {
            spare.sleep.prepare();
            scheduler.pool.enter_spares(spare);
        }
        let monitor = loom::thread::spawn(move || give_back(scheduler));
        keep_reserve(scheduler, 2, |scheduler| {
            let settled = scheduler.settle_concurrency();
            assert!(held(scheduler) <= 2, "more slots than are allowed");
            settled
        });
        monitor.join().unwrap();
        assert!(held(scheduler) <= 2, "more slots than are allowed");
        assert_eq!((held(scheduler), scheduler.pool.slots()), (2, 2));
    });
}

#[test]
fn a_slot_that_was_saved_is_made_once() {
    a_slot_is_given_back(|scheduler| scheduler.save_slots(0));
}

/// Not only the reserve's thread makes slots. The monitor, too, finds that there is one too few.
#[test]
#[should_panic(expected = "more slots than are allowed")]
fn negative_the_monitor_makes_a_slot() {
    a_slot_is_given_back(|scheduler| {
        scheduler.save_slots(0);
        if scheduler.pool.slots() < scheduler.pool.aim() {
            scheduler.pool.count_slot();
            assert!(scheduler.pool.hand_off(|| Some(InHand::first_of_its_life())).is_some());
        }
    });
}
