//! LWPs at rest, and a monitor that is about to sleep deeply: no thread is forgotten, and the monitor watches
//! the LWPs that run.

use super::Scheduler;
use crate::mxn::lwp::Lwp;
use crate::mxn::tests::{Model, Nap};
use crate::mxn::timer::{Entry, NEVER};
use crate::park::tests::loom_model::model;

/// Brings everything into being before the model's threads start.
fn touch(scheduler: &'static Scheduler) {
    assert!(!scheduler.has_shared() && !scheduler.must_look_soon() && !scheduler.all_asleep());
    assert!(!scheduler.may_sleep_deeply());
}

/// Models the thread of the only LWP, which comes back from the kernel. The LWP dispatches while the monitor
/// is about to sleep.
fn a_rest_ends(end: fn(&'static Scheduler, &'static Lwp)) {
    model(move || {
        let model = Model::new(1, 0, 0);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        touch(scheduler);
        scheduler.rest(lwp, false);
        assert!(scheduler.may_sleep_deeply());
        let monitor = loom::thread::spawn(move || {
            scheduler.watch.sleep_deeply(None, || scheduler.may_sleep_deeply());
        });
        end(scheduler, lwp);
        monitor.join().unwrap();
        assert!(lwp.slot.is_held() && !scheduler.slots.is_any_open());
    });
}

#[test]
fn the_monitor_watches_an_lwp_that_is_back() {
    a_rest_ends(|scheduler, lwp| assert!(scheduler.end_rest(lwp)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_rest_ends_in_silence() {
    a_rest_ends(|scheduler, lwp| {
        assert!(scheduler.slots.end_rest(&lwp.slot));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_rest_is_counted_off_too_late() {
    a_rest_ends(|scheduler, lwp| {
        assert!(lwp.slot.end_rest());
        scheduler.watch.notice_activity();
        scheduler.slots.count_rest_off();
    });
}

/// Models the only LWP with a slot, which sleeps in the kernel forever. The monitor finds that, and sleeps,
/// while an outside thread makes another one runnable.
fn a_thread_beside_a_rest(may_sleep: fn(&Scheduler) -> bool) {
    model(move || {
        let model = Model::new(1, 1, 1);
        let (scheduler, lwp, spare, green) = (model.scheduler, model.lwp(0), model.lwp(1), model.green(0));
        touch(scheduler);
        spare.sleep.prepare();
        scheduler.pool.enter_spares(spare);
        let waits = loom::thread::spawn(move || spare.wait(None));
        let monitor = loom::thread::spawn(move || {
            scheduler.rest(lwp, false);
            scheduler.watch.sleep_deeply(None, || may_sleep(scheduler));
            // A round.
            if scheduler.has_shared() {
                scheduler.retake(lwp);
            }
        });
        scheduler.ready_elsewhere(green);
        monitor.join().unwrap();
        assert!(waits.join().unwrap() && spare.slot.is_held() && lwp.slot.is_none());
        assert!(scheduler.inject.pop(0, |_| ()).is_some() && !scheduler.slots.is_any_open());
    });
}

#[test]
fn a_thread_gets_the_slot_of_an_lwp_at_rest() {
    a_thread_beside_a_rest(Scheduler::may_sleep_deeply);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_look_is_not_at_the_queues() {
    a_thread_beside_a_rest(Scheduler::all_asleep);
}

/// Models the slot of an LWP at rest, which is taken for a thread while the monitor is about to sleep.
fn a_slot_is_taken(take: fn(&'static Scheduler, &'static Lwp)) {
    model(move || {
        let model = Model::new(1, 1, 0);
        let (scheduler, lwp, spare) = (model.scheduler, model.lwp(0), model.lwp(1));
        touch(scheduler);
        spare.sleep.prepare();
        scheduler.pool.enter_spares(spare);
        scheduler.rest(lwp, false);
        let monitor = loom::thread::spawn(move || {
            scheduler.watch.sleep_deeply(None, || scheduler.may_sleep_deeply());
        });
        take(scheduler, lwp);
        monitor.join().unwrap();
        assert!(spare.slot.is_held());
    });
}

#[test]
fn the_monitor_watches_an_lwp_that_was_given_the_slot() {
    a_slot_is_taken(|scheduler, lwp| assert!(scheduler.retake(lwp)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_slot_is_taken_in_silence() {
    a_slot_is_taken(|scheduler, lwp| {
        assert!(scheduler.pool.hand_off(|| scheduler.slots.take_open(&lwp.slot)).is_some())
    });
}

/// Models two idle LWPs, of which one sleeps in the set of descriptors. It loses its slot, and becomes a
/// spare, while the monitor is about to sleep. Then no LWP is in the set, and the monitor is to see to that.
fn the_set_is_left(may_sleep: fn(&Scheduler) -> bool) {
    model(move || {
        let model = Model::new(2, 0, 0);
        let (scheduler, lwp) = (model.scheduler, model.lwp(1));
        touch(scheduler);
        scheduler.poller.watch_anew(0, 0).unwrap();
        for idle in [model.lwp(0), lwp] {
            idle.sleep.prepare();
            scheduler.idle.enter(idle.index, false);
        }
        assert!(scheduler.poller.enter(1).is_some() && scheduler.may_sleep_deeply());
        let monitor = loom::thread::spawn(move || {
            if scheduler.sees_descriptors() {
                scheduler.watch.sleep_deeply(None, || may_sleep(scheduler));
            }
        });
        assert!(scheduler.shrink() && lwp.slot.is_none());
        scheduler.poller.leave();
        // As `wait_for_slot` does.
        scheduler.watch.notice_activity();
        monitor.join().unwrap();
    });
}

#[test]
fn the_monitor_sees_that_no_lwp_is_in_the_set() {
    the_set_is_left(Scheduler::may_sleep_deeply);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_look_is_not_at_the_set() {
    the_set_is_left(Scheduler::all_asleep);
}

/// Models a dropped runtime: its last thread has ended, and its LWP goes idle, while the monitor is about to
/// sleep.
fn the_last_thread_ends(go_idle: fn(&'static Scheduler, &'static Lwp)) {
    model(move || {
        let model = Model::new(1, 0, 0);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        touch(scheduler);
        lwp.counters.spawned.add_alone();
        scheduler.life.close();
        let monitor = loom::thread::spawn(move || {
            assert!(!scheduler.may_sleep_deeply(), "the end goes unnoticed");
        });
        go_idle(scheduler, lwp);
        monitor.join().unwrap();
    });
}

#[test]
fn the_monitor_that_finds_all_asleep_finds_the_end() {
    the_last_thread_ends(|scheduler, lwp| {
        lwp.counters.ended.add_alone();
        scheduler.idle.enter(lwp.index, false);
    });
}

#[test]
#[should_panic(expected = "the end goes unnoticed")]
fn negative_the_end_is_counted_late() {
    the_last_thread_ends(|scheduler, lwp| {
        scheduler.idle.enter(lwp.index, false);
        lwp.counters.ended.add_alone();
    });
}

/// Models the thread of the only LWP. It goes into the kernel forever, and leaves the deadline of another one
/// behind. Its slot goes to an LWP that goes idle, while the monitor is about to sleep. Without a deadline,
/// the monitor would sleep until it is woken.
fn a_deadline_is_left_behind(may_sleep: fn(&Scheduler, u64) -> bool) {
    model(move || {
        let model = Model::new(1, 1, 1);
        let (scheduler, lwp, spare) = (model.scheduler, model.lwp(0), model.lwp(1));
        touch(scheduler);
        spare.sleep.prepare();
        scheduler.pool.enter_spares(spare);
        let entry = Entry::new(1 << 40, model.green(0).thread(), &Nap);
        let monitor = loom::thread::spawn(move || {
            let next = scheduler.next_timer();
            if next == NEVER {
                scheduler.watch.sleep_deeply(None, || may_sleep(scheduler, next));
            }
        });
        // SAFETY: it stays here until it is disarmed.
        unsafe { lwp.timers.arm(&entry) };
        assert!(scheduler.slots.enter_blocking(&lwp.slot) && scheduler.retake(lwp));
        spare.sleep.prepare();
        scheduler.idle.enter(spare.index, false);
        monitor.join().unwrap();
        lwp.timers.disarm(&entry);
    });
}

#[test]
fn the_monitor_sees_a_deadline_that_was_left_behind() {
    a_deadline_is_left_behind(Scheduler::may_sleep_until);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_look_is_not_at_the_deadlines() {
    a_deadline_is_left_behind(|scheduler, _| scheduler.may_sleep_deeply());
}
