//! How LWPs sleep, idle or without a slot, and what ends that. LWPs that really sleep have kernel threads.

use std::cell::Cell;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use super::policy::{MAX_NAP, MIN_NAP};
use super::{Scheduler, Slept};
use crate::mxn::lwp::First;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::placement::Placement;
use crate::mxn::slots::slot::InHand;
use crate::mxn::tests::{Model, Nap, wait_until};
use crate::mxn::timer::Entry;
use crate::park::priority::Priority::{Low, Normal};

const MS: u64 = 1_000_000;
/// A deadline that a sleep lasts until, in ms. It is not so near that it passes before the sleep begins,
/// even if the machine is busy.
const SOON: u64 = 20;

/// Returns how many LWPs sleep, and how many search.
fn counts(scheduler: &Scheduler) -> (u32, u32) {
    let look = scheduler.idle.look();
    (look.sleeping, look.searching)
}

/// Lets an LWP sleep until a deadline of its own in so many ms. Returns what its next nap would be.
fn nap(model: &Model, nap: u64, deadline: u64) -> u64 {
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let at = scheduler.clock.now() + deadline * MS;
    let entry = Entry::new(at, model.green(0).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&entry) };
    let begin = scheduler.clock.now();
    let mut next = nap;
    assert!(matches!(scheduler.sleep(lwp, false, &mut next), Slept::Napped));
    let end = scheduler.clock.now();
    assert!(end >= at.min(begin + nap), "it sleeps for so long");
    assert_eq!(
        end >= at,
        deadline <= SOON,
        "it does not miss its deadline, nor sleep until then for nothing"
    );
    assert_eq!(counts(scheduler), (0, 1), "it is off the list, and searches");
    assert!(!lwp.sleep.is_asleep());
    lwp.timers.disarm(&entry);
    next
}

#[test]
fn one_lwp_naps_while_others_run() {
    let model = Model::new(2, 0, 1);
    assert_eq!(nap(&model, MIN_NAP, 10_000), 2 * MIN_NAP, "the next nap is longer");
    assert!(!model.scheduler.idle.is_watched());
    let model = Model::new(2, 0, 1);
    assert_eq!(nap(&model, MAX_NAP, 10_000), MAX_NAP, "but not forever");
}

#[test]
fn an_lwp_sleeps_deeply_if_another_naps_or_none_runs() {
    let model = Model::new(2, 0, 1);
    assert!(model.scheduler.idle.watch());
    assert_eq!(nap(&model, MIN_NAP, SOON), MIN_NAP);
    assert!(model.scheduler.idle.is_watched(), "the other one still naps");
    let model = Model::new(1, 0, 1);
    assert_eq!(nap(&model, MIN_NAP, SOON), MIN_NAP);
}

#[test]
fn an_lwp_that_finds_something_at_its_last_look_does_not_sleep() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    model.green(1).core.priority.set(Low);
    for green in [model.green(0), model.green(1)] {
        scheduler.queue_shared(green);
        let slept = scheduler.sleep(lwp, false, &mut MIN_NAP.clone());
        assert!(matches!(slept, Slept::Found(found) if found == green.ptr()));
        assert_eq!((counts(scheduler), lwp.sleep.is_asleep()), ((0, 1), false));
        scheduler.end_search();
    }
}

#[test]
fn an_lwp_without_a_slot_or_a_runtime_looks_for_nothing() {
    let slept = |change: fn(&'static Scheduler, &'static Lwp)| {
        let model = Model::new(1, 0, 1);
        model.scheduler.inject.push(model.green(0).ptr());
        change(model.scheduler, model.lwp(0));
        match model.scheduler.sleep(model.lwp(0), false, &mut MIN_NAP.clone()) {
            Slept::Found(_) => true,
            Slept::Over => false,
            Slept::Woken | Slept::Napped => unreachable!("it need not sleep"),
        }
    };
    assert!(slept(|_, _| ()));
    assert!(!slept(|_, lwp| lwp.slot.retake_unannounced().unwrap().retire()));
    assert!(!slept(|scheduler, _| scheduler.life.stop()));
}

/// Ends an LWP's sleep by `wake`. Returns `true` if it searches then.
fn is_woken_to_search(wake: fn(&'static Scheduler)) -> bool {
    let model = Model::new(1, 0, 0);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let sleeper = spawn(move || match scheduler.sleep(lwp, false, &mut MIN_NAP.clone()) {
        Slept::Woken => true,
        Slept::Over => false,
        Slept::Found(_) | Slept::Napped => unreachable!("there is nothing, and it does not nap"),
    });
    wait_until(|| scheduler.idle.sleepers().contains(lwp.index));
    wake(scheduler);
    let woken = end(sleeper);
    assert_eq!(counts(scheduler), (0, 1));
    woken
}

fn end<R>(thread: JoinHandle<R>) -> R {
    wait_until(|| thread.is_finished());
    thread.join().unwrap()
}

#[test]
fn an_lwp_that_is_woken_searches_if_it_still_has_its_slot() {
    assert!(is_woken_to_search(Scheduler::wake_searcher));
    assert!(!is_woken_to_search(|scheduler| assert!(scheduler.shrink())));
    let stop = |scheduler: &'static Scheduler| {
        scheduler.life.stop();
        scheduler.wake_searcher();
    };
    assert!(!is_woken_to_search(stop));
}

/// Plays a thief that has taken a sleeper off its list, and is held up before it wakes it.
fn hold_up<R>(sleeper: &JoinHandle<R>) {
    sleep(Duration::from_millis(5));
    assert!(!sleeper.is_finished(), "a wake-up is on its way");
}

/// Returns a deadline that is soon over, and the time of it.
fn soon(model: &Model) -> (u64, Entry<'static>) {
    let at = model.scheduler.clock.now() + 20 * MS;
    (at, Entry::new(at, model.green(0).thread(), &Nap))
}

#[test]
fn an_lwp_that_is_being_woken_at_its_deadline_waits_for_that() {
    // The deadline may come before anything else.
    while !is_held_up() {}
}

fn is_held_up() -> bool {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let (at, entry) = soon(&model);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&entry) };
    let sleeper = spawn(move || matches!(scheduler.sleep(lwp, false, &mut MIN_NAP.clone()), Slept::Woken));
    let is_taken = Cell::new(false);
    wait_until(|| {
        is_taken.set(scheduler.idle.take_sleeper(None).is_some());
        is_taken.get() || sleeper.is_finished()
    });
    if is_taken.get() {
        wait_until(|| scheduler.clock.now() >= at);
        hold_up(&sleeper);
        assert!(!lwp.sleep.wake(), "no set");
    }
    assert_eq!(end(sleeper), is_taken.get());
    assert_eq!(counts(scheduler), (0, 1));
    lwp.timers.disarm(&entry);
    is_taken.get()
}

#[test]
fn an_lwp_that_has_lost_its_slot_gives_its_threads_away() {
    let model = Model::new(1, 1, 2);
    let (scheduler, lwp, other) = (model.scheduler, model.lwp(1), model.lwp(0));
    lwp.queue.next.fill(model.green(0).ptr());
    lwp.queue.ring.push(model.green(1).ptr()).unwrap();
    other.sleep.prepare();
    scheduler.idle.enter(other.index, false);
    // This makes it return at once.
    scheduler.life.stop();
    assert!(!scheduler.wait_for_slot(lwp));
    let mut shared = [model.green(0).ptr(), model.green(1).ptr()].map(Some);
    shared.reverse();
    assert_eq!([(); 2].map(|()| scheduler.inject.pop(0, |_| ())), shared);
    assert_eq!(counts(scheduler), (0, 1), "an LWP is woken for them");
    assert_eq!(lwp.look_first.get(), First::Preempted, "one of those may hold up what it gets a slot for");
}

/// Lets an LWP wait for a slot.
fn wait_for_slot(model: &Model) -> JoinHandle<bool> {
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    spawn(move || scheduler.wait_for_slot(lwp))
}

#[test]
fn a_spare_waits_until_it_is_given_a_slot_or_told_to_end() {
    let is_given = |wake: fn(&'static Scheduler, &'static Lwp) -> bool| {
        let model = Model::new(0, 1, 0);
        let spare = wait_for_slot(&model);
        wait_until(|| model.scheduler.pool.spares() == 1);
        assert!(wake(model.scheduler, model.lwp(0)));
        let given = end(spare);
        assert_eq!(given, model.lwp(0).slot.is_held());
        assert_eq!(model.scheduler.slots.lent(), 0, "its slot is no loan");
        given
    };
    assert!(is_given(|scheduler, _| {
        scheduler.pool.hand_off(|| Some(InHand::first_of_its_life())).is_some()
    }));
    assert!(!is_given(|scheduler, lwp| scheduler.pool.retire(lwp, lwp.life.spare_since())));
    let stop = |scheduler: &'static Scheduler, _: &'static Lwp| {
        scheduler.stop();
        true
    };
    assert!(!is_given(stop));
}

#[test]
fn a_spare_for_which_a_pinned_thread_waits_is_lent_a_slot() {
    let model = Model::with(0, 1, 1, |scheduler| scheduler.placement = Placement::Home);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    lwp.pinned.push(model.green(0).ptr(), || Normal);
    assert!(end(wait_for_slot(&model)));
    assert!(lwp.slot.is_held() && !lwp.sleep.is_asleep());
    assert_eq!((scheduler.slots.lent(), scheduler.pool.spares()), (1, 0));
}

#[test]
fn a_spare_makes_threads_runnable_when_their_deadlines_are_over() {
    for placement in [Placement::Anywhere, Placement::Home] {
        let model = Model::with(0, 2, 1, |scheduler| scheduler.placement = placement);
        let (scheduler, lwp, home, green) = (model.scheduler, model.lwp(0), model.lwp(1), model.green(0));
        green.lwp.set(Some(home));
        let entry = Entry::new(scheduler.clock.now() + MS, green.thread(), &Nap);
        // SAFETY: it stays here until it is disarmed.
        unsafe { lwp.timers.arm(&entry) };
        let spare = wait_for_slot(&model);
        let shared = || scheduler.inject.len();
        wait_until(|| shared() + home.pinned.len() == 1);
        assert_eq!(shared() == 1, placement == Placement::Anywhere, "a pinned one goes to its LWP");
        // It is back on the list of spares, once.
        wait_until(|| scheduler.pool.spares() == 1 && lwp.sleep.is_asleep());
        assert!(scheduler.pool.hand_off(|| Some(InHand::first_of_its_life())).is_some());
        assert!(end(spare));
        assert_eq!(scheduler.pool.spares(), 0);
        lwp.timers.disarm(&entry);
    }
}

#[test]
fn a_spare_that_gets_a_slot_at_its_deadline_waits_for_that() {
    let model = Model::new(0, 1, 1);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let (at, entry) = soon(&model);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&entry) };
    let spare = wait_for_slot(&model);
    wait_until(|| scheduler.pool.leave_spares(lwp));
    wait_until(|| scheduler.clock.now() >= at);
    hold_up(&spare);
    assert_eq!(scheduler.pool.spares(), 0, "nor does it go back to the list");
    scheduler.pool.give(lwp, InHand::first_of_its_life());
    assert!(!lwp.sleep.wake(), "no set");
    assert!(end(spare));
    lwp.timers.disarm(&entry);
}

#[test]
fn a_spare_that_is_given_a_slot_and_taken_for_asleep_goes_on_with_it() {
    let model = Model::new(0, 1, 0);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let spare = wait_for_slot(&model);
    wait_until(|| scheduler.pool.leave_spares(lwp));
    scheduler.pool.give(lwp, InHand::first_of_its_life());
    // It is woken, but has to wait for a CPU.
    scheduler.rest(lwp, false);
    assert!(lwp.slot.is_resting());
    assert!(!lwp.sleep.wake(), "no set");
    wait_until(|| spare.is_finished() || scheduler.pool.spares() == 1);
    assert_eq!((scheduler.pool.spares(), lwp.slot.is_held()), (0, true));
    assert!(end(spare));
    assert_eq!((scheduler.slots.resting(), scheduler.slots.is_any_open()), (0, false));
}
