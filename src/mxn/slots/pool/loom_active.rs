//! An LWP is given a slot while the monitor lets others pass over it: in the end it is found.

use crate::mxn::lwp::Lwp;
use crate::mxn::slots::slot::InHand;
use crate::mxn::tests::Model;
use crate::park::tests::loom_model::model;
use crate::shim::atomic::Ordering;

use super::LwpPool;

/// Models an LWP that was last active without a slot. It is given one by `give`, and `leave` is the monitor's
/// part.
fn a_slot_is_given_meanwhile(give: fn(&LwpPool, &Lwp, InHand), leave: fn(&LwpPool, &Lwp)) {
    model(move || {
        let model = Model::new(1, 0, 0);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let slot = lwp.slot.retake_unannounced().unwrap();
        let monitor = loom::thread::spawn(move || leave(&scheduler.pool, lwp));
        give(&scheduler.pool, lwp, slot);
        monitor.join().unwrap();
        assert!(lwp.slot.is_held());
        assert!(scheduler.pool.active.contains(0), "no thief will come here");
    });
}

#[test]
fn an_lwp_with_a_slot_is_active() {
    a_slot_is_given_meanwhile(LwpPool::give, LwpPool::leave_active);
}

#[test]
#[should_panic(expected = "no thief will come here")]
fn negative_passed_over_without_a_second_look() {
    a_slot_is_given_meanwhile(LwpPool::give, |pool, lwp| {
        if lwp.slot.is_none() {
            let _ = pool.active.remove(lwp.index);
        }
    });
}

#[test]
#[should_panic(expected = "no thief will come here")]
fn negative_active_before_it_has_the_slot() {
    a_slot_is_given_meanwhile(
        |pool, lwp, slot| {
            pool.active.insert(lwp.index);
            lwp.slot.give(slot);
        },
        LwpPool::leave_active,
    );
}

/// The look at the slot must not be older than the LWP's removal.
#[test]
#[should_panic(expected = "no thief will come here")]
fn negative_the_set_orders_nothing() {
    a_slot_is_given_meanwhile(
        |pool, lwp, slot| {
            lwp.slot.give(slot);
            pool.active.words_for_models()[0].fetch_or(1, Ordering::Relaxed);
        },
        |pool, lwp| {
            pool.active.words_for_models()[0].fetch_and(!1, Ordering::Relaxed);
            if !lwp.slot.is_none() {
                pool.active.words_for_models()[0].fetch_or(1, Ordering::Relaxed);
            }
        },
    );
}
