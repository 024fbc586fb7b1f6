//! Brief regions beside a thread that waits: the monitor does not doze.

use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::tests::Model;
use crate::park::tests::loom_model::model;

type Mark = fn(&'static Scheduler, &'static Green, &'static Lwp);
type Queue = fn(&'static Scheduler, &'static Green);
type MayDoze = fn(&'static Scheduler) -> bool;

/// Models three threads: the holder of the only slot marks it, an outside thread makes a thread runnable, and
/// the monitor is about to doze. No clock ends that doze.
fn a_waiter_beside_a_brief_region(mark: Mark, queue: Queue, may_doze: MayDoze) {
    model(move || {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let (inside, waiter) = (model.green(0), model.green(1));
        // All atomics come into being before the threads do.
        assert!(!scheduler.must_look_soon() && !scheduler.has_shared());
        let monitor = loom::thread::spawn(move || {
            let far = scheduler.clock.moment(1 << 40).expect("a time");
            assert!(scheduler.watch.doze(far, || may_doze(scheduler)));
        });
        let owner = loom::thread::spawn(move || mark(scheduler, inside, lwp));
        queue(scheduler, waiter);
        owner.join().unwrap();
        monitor.join().unwrap();
        assert!(scheduler.must_look_soon());
        assert!(scheduler.inject.pop(0, |_| ()).is_some());
    });
}

const MARK: Mark = |scheduler, inside, lwp| assert!(scheduler.announce_brief(inside, lwp));
const MAY_DOZE: MayDoze = |scheduler| !scheduler.must_look_soon();

#[test]
fn the_monitor_looks() {
    a_waiter_beside_a_brief_region(MARK, Scheduler::ready_elsewhere, MAY_DOZE);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_marking_without_a_fence() {
    let mark: Mark = |scheduler, _, lwp| {
        assert!(scheduler.slots.enter_brief(&lwp.slot));
        if scheduler.has_shared() {
            scheduler.watch.hurry();
        }
    };
    a_waiter_beside_a_brief_region(mark, Scheduler::ready_elsewhere, MAY_DOZE);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_queueing_in_silence() {
    let queue: Queue = |scheduler, waiter| scheduler.inject.push(waiter.ptr());
    a_waiter_beside_a_brief_region(MARK, queue, MAY_DOZE);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_dozing_without_a_last_look() {
    a_waiter_beside_a_brief_region(MARK, Scheduler::ready_elsewhere, |_| true);
}

/// Models a thread that needs a round in any case, while the monitor is about to doze.
fn a_call_beside_a_doze(call: fn(&'static Scheduler)) {
    model(move || {
        let model = Model::new(1, 0, 0);
        let scheduler = model.scheduler;
        // All atomics come into being before the threads do.
        assert!(!scheduler.must_look_soon());
        let monitor = loom::thread::spawn(move || {
            let far = scheduler.clock.moment(1 << 40).expect("a time");
            assert!(scheduler.watch.doze(far, || !scheduler.must_look_soon()));
        });
        call(scheduler);
        monitor.join().unwrap();
    });
}

#[test]
fn a_call_is_heard() {
    a_call_beside_a_doze(|scheduler| scheduler.watch.wake());
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_call_to_an_lwp_that_has_not_lain_down() {
    a_call_beside_a_doze(|scheduler| scheduler.watch.hurry());
}
