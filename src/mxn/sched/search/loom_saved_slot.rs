//! A slot is saved while its LWP has a thread queued, and given back while its LWP becomes a spare. In both
//! cases an LWP with a slot finds each thread.

use super::{Scheduler, deref};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::slots::reserve::loom_saved::{follows, held, keep_reserve};
use crate::mxn::slots::slot::InHand;
use crate::park::tests::loom_model::model_within;
use crate::shim::atomic::{Ordering, fence};

/// Makes an LWP without a slot wait for one.
type WaitForSlot = fn(&'static Scheduler, &'static Lwp) -> bool;

/// Plays an LWP, as `dispatch` does, until it has found a thread or the runtime stops.
fn find(
    scheduler: &'static Scheduler,
    lwp: &'static Lwp,
    wait_for_slot: WaitForSlot,
) -> Option<&'static Green> {
    loop {
        if !lwp.slot.is_held() && !wait_for_slot(scheduler, lwp) {
            return None;
        }
        let found = scheduler.pick(lwp).or_else(|| scheduler.search(lwp));
        if found.is_some() || scheduler.life.is_stopping() {
            return found;
        }
    }
}

/// Models two LWPs. One has no work, and the other has a thread in its ring. Meanwhile a slot is saved, of
/// one or the other. The thread is the last of the runtime.
fn a_slot_with_work_is_saved(wait_for_slot: WaitForSlot) {
    model_within(1, move || {
        let model = follows(2, 0, 1, false);
        let scheduler = model.scheduler;
        assert!(model.lwp(1).queue.ring.push(model.green(0).ptr()).is_ok());
        let play = move |lwp| {
            let found = find(scheduler, lwp, wait_for_slot).is_some();
            if found {
                scheduler.stop();
            }
            found
        };
        let lwps = [model.lwp(0), model.lwp(1)].map(|lwp| loom::thread::spawn(move || play(lwp)));
        scheduler.save_slots(1);
        assert!(scheduler.settle_concurrency());
        let found = lwps.map(|lwp| lwp.join().unwrap());
        assert!(found[0] != found[1], "the thread was found twice, or never");
        assert_eq!((held(scheduler), scheduler.pool.slots()), (1, 1));
    });
}

#[test]
fn a_thread_finds_an_lwp_when_its_slot_is_saved() {
    a_slot_with_work_is_saved(Scheduler::wait_for_slot);
}

/// Does what `wait_for_slot` does when the LWP has nothing any more.
fn be_spare(scheduler: &'static Scheduler, lwp: &'static Lwp) -> bool {
    lwp.sleep.prepare();
    scheduler.pool.enter_spares(lwp);
    // The end of the runtime is noticed: it is not what is missing.
    fence(Ordering::SeqCst);
    if scheduler.life.is_stopping() {
        return false;
    }
    lwp.wait(None);
    lwp.slot.is_held()
}

/// The thread stays in the ring of an LWP without a slot.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_spare_keeps_its_ring() {
    a_slot_with_work_is_saved(be_spare);
}

/// The thread is in a queue at which all LWPs look, but the one that sleeps is not woken.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_spare_gives_its_ring_away_in_silence() {
    a_slot_with_work_is_saved(|scheduler, lwp| {
        while let Some(green) = lwp.queue.ring.pop() {
            scheduler.inject.push(deref(green).ptr());
        }
        be_spare(scheduler, lwp)
    });
}

/// Models an LWP that becomes a spare because its slot was saved. Meanwhile the slot is given back. There is
/// a thread for it, because the other LWP computes forever. There can be no further LWP. The reserve's thread
/// makes the slot when it is asked, and not only when it tries again.
fn a_slot_comes_back(wait_for_slot: WaitForSlot, settle: fn(&'static Scheduler) -> bool) {
    model_within(1, move || {
        let model = follows(2, 0, 1, true);
        let (scheduler, lwp) = (model.scheduler, model.lwp(1));
        scheduler.inject.push(model.green(0).ptr());
        let spare = loom::thread::spawn(move || find(scheduler, lwp, wait_for_slot).is_some());
        let monitor = loom::thread::spawn(move || scheduler.save_slots(0));
        keep_reserve(scheduler, 2, settle);
        monitor.join().unwrap();
        assert!(spare.join().unwrap());
        assert_eq!((held(scheduler), scheduler.pool.slots()), (2, 2));
    });
}

/// Once it came up to a second late: the reserve's thread had found no spare, and the spare had found the slot
/// counted.
#[test]
fn a_slot_that_comes_back_runs_what_waits() {
    a_slot_comes_back(Scheduler::wait_for_slot, Scheduler::settle_concurrency);
}

/// The LWP has a slot, but is not woken.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_slot_comes_back_in_silence() {
    a_slot_comes_back(Scheduler::wait_for_slot, |scheduler| {
        if scheduler.pool.slots() == scheduler.pool.aim() {
            return true;
        }
        let spare = scheduler.pool.take_spare();
        if let Some(spare) = spare {
            scheduler.pool.count_slot();
            scheduler.pool.give(scheduler.pool.lwp(spare), InHand::first_of_its_life());
        }
        spare.is_some()
    });
}

/// The spare comes after the last look at the list, and finds the slot counted.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_look_for_a_spare_is_before_the_slot_is_counted_off() {
    a_slot_comes_back(Scheduler::wait_for_slot, |scheduler| {
        let pool = &scheduler.pool;
        while pool.slots() < pool.aim() {
            pool.count_slot();
            if pool.hand_off(|| Some(InHand::first_of_its_life())).is_none() {
                let came = pool.spares() > 0;
                pool.uncount_slot();
                if !came {
                    return false;
                }
            }
        }
        true
    });
}

/// The slot is wanted after the spare has looked, and before the spare is on the list.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_spare_looks_for_a_slot_before_it_is_on_the_list() {
    let look_first = |scheduler: &'static Scheduler, lwp| {
        scheduler.notice_spare(1);
        be_spare(scheduler, lwp)
    };
    a_slot_comes_back(look_first, Scheduler::settle_concurrency);
}
