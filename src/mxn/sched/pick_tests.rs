//! What an LWP runs next, as far as it need not search: on a scheduler without kernel threads.

use std::thread::{sleep, spawn};
use std::time::Duration;

use super::placement::Placement;
use super::policy::{FAIR_TICK, GRAIN, HEAD_START, HIGH_RUN, INJECT_BATCH, LEAST_FIRED, OWED, STEPS_BETWEEN};
use super::{First, Scheduler};
use crate::mxn::green::Green;
use crate::mxn::lwp::{HighRun, Lwp};
use crate::mxn::run_queue::CAPACITY;
use crate::mxn::tests::{Model, Nap, wait_until};
use crate::mxn::timer::{BATCH, Entry};
use crate::park::priority::Priority::{self, High, Low, Normal};

/// Fills the next-slot of an LWP.
fn put_next(lwp: &Lwp, green: &'static Green) {
    lwp.queue.next.fill(green.ptr());
}

fn set(green: &'static Green, level: Priority) -> &'static Green {
    green.core.priority.set(level);
    green
}

/// Sets how long a thread has run.
fn has_run(green: &'static Green, time: u64) -> &'static Green {
    green.set_ran(time);
    green
}

/// Lets the LWP dispatch until its last dispatch was a fair one, and the next is not.
fn go_to_fair_tick(lwp: &Lwp) {
    while !lwp.tick.bump().is_multiple_of(FAIR_TICK) {}
}

/// Does the same, and one dispatch more.
fn go_past_fair_tick(lwp: &Lwp) {
    go_to_fair_tick(lwp);
    lwp.tick.bump();
}

fn migrates(scheduler: &mut Scheduler) {
    scheduler.placement = Placement::Elsewhere;
}

/// Returns the number of a thread, for messages that can be read.
fn number(model: &Model, green: Option<&'static Green>) -> Option<usize> {
    let green = green?;
    (0..).find(|&index| std::ptr::eq(model.green(index), green))
}

#[test]
fn a_thread_that_waits_is_followed_by_the_next_slot_and_then_by_the_ring() {
    let model = Model::new(1, 0, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    scheduler.queue_behind(lwp, model.green(0));
    scheduler.queue_behind(lwp, model.green(1));
    put_next(lwp, model.green(2));
    go_to_fair_tick(lwp);
    let next = || number(&model, scheduler.pick_next(lwp));
    assert_eq!([(); 4].map(|()| next()), [Some(2), Some(0), Some(1), None]);
}

/// Asks for a successor after `change`, while one waits.
fn is_followed_directly(model: &Model, change: impl FnOnce(&'static Scheduler, &'static Lwp)) -> bool {
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    go_to_fair_tick(lwp);
    scheduler.queue_behind(lwp, model.green(0));
    change(scheduler, lwp);
    scheduler.pick_next(lwp).is_some()
}

#[test]
fn the_dispatcher_is_due_where_something_goes_before_the_next_in_line() {
    let is_direct = |change: fn(&'static Scheduler, &'static Lwp)| {
        is_followed_directly(&Model::new(1, 0, 1), change) //
    };
    assert!(is_direct(|_, _| ()), "nothing goes before it");
    assert!(!is_direct(|_, lwp| lwp.slot.retake_unannounced().unwrap().retire()), "the slot is gone");
    assert!(!is_direct(|_, lwp| lwp.flags.look()), "it was asked to look");
    let is_before_fair_tick = |_: &'static Scheduler, lwp: &'static Lwp| {
        while !(lwp.tick.get() + 1).is_multiple_of(FAIR_TICK) {
            lwp.tick.bump();
        }
    };
    assert!(!is_direct(is_before_fair_tick), "turns are taken now and then");
    let model = Model::new(1, 0, 2);
    let high = set(model.green(1), High);
    assert!(!is_followed_directly(&model, |scheduler, _| scheduler.queue_shared(high)), "it is urgent");
    assert!(!is_followed_directly(&Model::with(1, 0, 1, migrates), |_, _| ()), "its thread is to migrate");
}

#[test]
fn a_thread_of_this_lwp_follows_directly_unless_the_dispatcher_is_due() {
    let has_homes = |scheduler: &mut Scheduler| scheduler.placement = Placement::Home;
    let follows = |change: fn(&Model, &'static Lwp)| {
        let model = Model::with(1, 0, 3, has_homes);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        go_past_fair_tick(lwp);
        lwp.pinned.push(model.green(0).ptr(), || Normal);
        change(&model, lwp);
        assert_eq!(
            number(&model, scheduler.pick_next(lwp)),
            None,
            "it is on no queue that can be stolen from"
        );
        number(&model, scheduler.pick_at_home_or_noted(lwp))
    };
    assert_eq!(follows(|_, _| ()), Some(0));
    assert_eq!(follows(|model, lwp| lwp.pinned.push(set(model.green(1), High).ptr(), || High)), None);
    assert_eq!(follows(|model, _| model.scheduler.queue_shared(set(model.green(1), High))), None);
    assert_eq!(follows(|_, lwp| lwp.flags.look()), None);
    assert_eq!(follows(|_, lwp| lwp.flags.trace(true)), Some(0));
    assert_eq!(follows(|_, lwp| lwp.flags.count(true)), Some(0));
    let is_noting_and_one_is_behind = |model: &Model, lwp: &'static Lwp| {
        lwp.flags.trace(true);
        lwp.flags.count(true);
        model.green(0).set_ran(1 + HEAD_START);
        model.scheduler.queue_preempted(model.green(1));
    };
    assert_eq!(follows(is_noting_and_one_is_behind), None);
    assert_eq!(follows(|_, lwp| lwp.slot.retake_unannounced().unwrap().retire()), None);
    let is_before_fair_tick = |_: &Model, lwp: &'static Lwp| {
        while !(lwp.tick.get() + 1).is_multiple_of(FAIR_TICK) {
            lwp.tick.bump();
        }
    };
    assert_eq!(follows(is_before_fair_tick), None);
}

/// Returns `true` if the ring goes before the next-slot after `change`.
fn takes_turns(model: &Model, change: impl FnOnce(&'static Lwp)) -> bool {
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    go_past_fair_tick(lwp);
    // It is the ring's turn.
    lwp.turns.set(2);
    put_next(lwp, model.green(0));
    lwp.queue.ring.push(model.green(1).ptr()).unwrap();
    change(lwp);
    number(model, scheduler.pick(lwp)) == Some(1)
}

#[test]
fn the_queues_take_turns_at_a_fair_tick_or_if_asked() {
    let new = || Model::new(1, 0, 2);
    assert!(!takes_turns(&new(), |_| ()));
    assert!(takes_turns(&new(), go_to_fair_tick));
    assert!(takes_turns(&new(), |lwp| lwp.flags.look()));
}

#[test]
fn the_queues_take_turns_if_a_normal_thread_is_owed_one_after_many_high_ones() {
    let model = Model::new(1, 0, 3);
    let (scheduler, high) = (model.scheduler, set(model.green(2), High));
    sleep(Duration::from_nanos(HIGH_RUN));
    let run_high_for_long = |lwp: &'static Lwp| {
        lwp.high_run.set(HighRun { since: 0, tick: lwp.tick.get(), is_held_up: false });
        scheduler.queue_shared(high);
    };
    assert!(takes_turns(&model, run_high_for_long));
    // Its run has just begun again, however slow the machine is.
    let lwp = model.lwp(0);
    lwp.high_run.set(HighRun { since: u64::MAX, tick: lwp.tick.get(), is_held_up: false });
    assert_eq!(number(&model, scheduler.pick(lwp)), Some(2), "the high one goes on");
}

/// The LWP that stands there may have lost its CPU.
#[test]
fn a_high_thread_whose_stack_is_in_use_lets_a_normal_one_go_first() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp, high) = (model.scheduler, model.lwp(0), set(model.green(1), High));
    go_past_fair_tick(lwp);
    scheduler.queue_shared(high);
    scheduler.queue_behind(lwp, model.green(0));
    high.fiber.mounted.set();
    let pick = || scheduler.pick(lwp).unwrap();
    for _ in 0..2 {
        assert!(std::ptr::eq(pick(), high) && !scheduler.run(lwp, high));
        scheduler.wait_for_stack(lwp, high);
        let other = pick();
        assert_eq!(number(&model, Some(other)), Some(0));
        scheduler.queue_behind(lwp, other);
    }
    high.fiber.mounted.clear();
}

#[test]
fn each_queue_is_the_first_in_turn() {
    let model = Model::new(1, 0, 9);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let (next, ring, injected, pinned) = (0, 1, 2, 3);
    put_next(lwp, model.green(next));
    scheduler.queue_behind(lwp, model.green(ring));
    scheduler.inject.push(model.green(injected).ptr());
    lwp.pinned.push(model.green(pinned).ptr(), || Normal);
    let pick = |turn: u32| {
        lwp.turns.set(turn - 1);
        let green = scheduler.pick_fresh(lwp, false, true).unwrap();
        assert_eq!(lwp.turns.get(), turn);
        number(&model, Some(super::deref(green))).unwrap()
    };
    assert_eq!(pick(3), ring);
    scheduler.queue_behind(lwp, model.green(ring));
    assert_eq!(pick(4), injected);
    assert_eq!(pick(4), pinned, "nothing was injected: the next in turn");
    scheduler.inject.push(model.green(injected).ptr());
    lwp.pinned.push(model.green(pinned).ptr(), || Normal);
    assert_eq!(pick(5), pinned);
    assert_eq!([5, 6, 7].map(pick), [ring, injected, next], "the next-slot is not among those in turn");
}

#[test]
fn the_nearest_is_the_first_where_no_turns_are_taken() {
    let model = Model::new(1, 0, 5);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let fill = || {
        put_next(lwp, model.green(0));
        scheduler.queue_behind(lwp, model.green(1));
        lwp.pinned.push(model.green(2).ptr(), || Normal);
        scheduler.inject.push(model.green(3).ptr());
    };
    let order = |first| {
        fill();
        go_past_fair_tick(lwp);
        lwp.look_first.set(first);
        [(); 5].map(|()| number(&model, scheduler.pick(lwp)))
    };
    assert_eq!(order(First::Own), [Some(0), Some(1), Some(2), Some(3), None]);
    assert_eq!(order(First::Injected), [Some(3), Some(0), Some(1), Some(2), None], "told where to look");
}

#[test]
fn a_high_thread_goes_before_all_normal_ones() {
    for is_pinned in [false, true] {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let high = set(model.green(1), High);
        go_past_fair_tick(lwp);
        put_next(lwp, model.green(0));
        if is_pinned {
            lwp.pinned.push(high.ptr(), || High);
        } else {
            scheduler.queue_shared(high);
        }
        assert_eq!([(); 2].map(|()| number(&model, scheduler.pick(lwp))), [Some(1), Some(0)], "{is_pinned}");
    }
}

/// The monitor saved one of two slots where all threads had a high priority, because no ring had any.
#[test]
fn an_lwp_with_threads_of_any_queue_has_not_run_dry() {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    for level in [High, Normal, Low] {
        scheduler.queue_shared(set(model.green(0), level));
        go_to_fair_tick(lwp);
        assert_eq!(number(&model, scheduler.pick(lwp)), Some(0), "{level:?}");
    }
    assert_eq!(lwp.counters.ran_dry.get(), 0);
}

#[test]
fn threads_that_lost_their_slice_come_after_fresh_ones_and_before_low_ones() {
    let model = Model::new(1, 0, 4);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    go_past_fair_tick(lwp);
    scheduler.queue_shared(set(model.green(0), Low));
    scheduler.queue_preempted(has_run(model.green(1), 2));
    scheduler.queue_preempted(has_run(model.green(2), 1));
    scheduler.inject.push(model.green(3).ptr());
    let order = [(); 5].map(|()| number(&model, scheduler.pick(lwp)));
    assert_eq!(order, [Some(3), Some(2), Some(1), Some(0), None]);
}

#[test]
fn a_preempted_thread_goes_before_a_fresh_one_if_it_has_run_for_much_less() {
    let order = |less| {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        go_past_fair_tick(lwp);
        scheduler.queue_preempted(has_run(model.green(0), OWED - less));
        put_next(lwp, has_run(model.green(1), OWED));
        [(); 2].map(|()| number(&model, scheduler.pick(lwp)))
    };
    assert_eq!(order(HEAD_START), [Some(1), Some(0)]);
    assert_eq!(order(HEAD_START + 1), [Some(0), Some(1)], "the fresh one is not lost");
}

/// It is behind, so it goes on at once, and the monitor finds no thread that waits for having lost its slice.
/// If that time were not counted, it would stay behind, and the other thread would never run.
#[test]
fn a_thread_that_loses_each_slice_and_goes_on_catches_up() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let behind = has_run(model.green(0), 0);
    put_next(lwp, has_run(model.green(1), OWED));
    for _ in 0..10_000 {
        behind.lwp.set(Some(lwp));
        lwp.show_running(Some(behind));
        scheduler.queue_for_lost_slice(behind);
        // It was told to look at the queue of those that lost their slices.
        lwp.look_first.set(First::Own);
        let next = number(&model, scheduler.pick(lwp));
        if next == Some(1) {
            return;
        }
        assert_eq!((next, scheduler.preempted.len()), (Some(0), 0));
        let now = scheduler.clock.now();
        lwp.flags.count(scheduler.shares.count(scheduler.preempted.len() > 0, now));
        while scheduler.clock.now() < now + OWED / 1_000 {}
    }
    panic!("the other thread had no turn: {:?}", scheduler.shares);
}

#[test]
fn the_time_since_the_last_dispatch_is_added_to_the_thread_and_to_the_fair_share() {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
    lwp.show_running(Some(green));
    assert!(scheduler.shares.count(true, 1));
    let before = scheduler.clock.now();
    lwp.counted.set(before);
    lwp.shared_out.set(GRAIN);
    scheduler.count_if_told(lwp);
    assert_eq!(lwp.counted.get(), before, "it was not told");
    lwp.flags.count(true);
    while scheduler.clock.now() == before {}
    scheduler.count_if_told(lwp);
    let ran = lwp.counted.get() - before;
    assert_eq!(green.ran(), ran.min(OWED));
    // It runs alone. If that was long, the fair share moves up to twice as fast.
    assert!((GRAIN + ran..=2 * (GRAIN + ran)).contains(&scheduler.shares.fair()));
    assert_eq!(lwp.shared_out.get(), 0);
}

#[test]
fn an_lwp_that_was_spare_looks_at_preempted_threads_first() {
    let model = Model::new(1, 0, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let first = |first| {
        go_past_fair_tick(lwp);
        put_next(lwp, model.green(0));
        scheduler.queue_preempted(has_run(model.green(1), 2));
        scheduler.queue_preempted(has_run(model.green(2), 1));
        lwp.look_first.set(first);
        let order = [(); 4].map(|()| number(&model, scheduler.pick(lwp)));
        assert_eq!(order[3], None);
        order[0].unwrap()
    };
    assert_eq!(first(First::Own), 0);
    assert_eq!(first(First::Preempted), 2, "of the preempted ones, the one that has run least");
    assert_eq!(first(First::Oldest), 1, "each is to have a turn");
}

/// Returns how many of the injected threads go to the ring of an LWP that takes one, if the ring has this
/// much room.
fn share(slots: usize, injected: usize, room: u32) -> usize {
    let model = Model::new(slots, 0, injected + 1);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    (room..CAPACITY).for_each(|_| lwp.queue.ring.push(model.green(injected).ptr()).unwrap());
    (0..injected).for_each(|index| scheduler.inject.push(model.green(index).ptr()));
    let (queued, first) = (lwp.queue.ring.len(), scheduler.pop_injected(lwp));
    assert_eq!(first, (injected > 0).then(|| model.green(0).ptr()), "the oldest");
    let share = lwp.queue.ring.len() - queued;
    assert_eq!(scheduler.inject.len() + share + usize::from(first.is_some()), injected);
    share
}

#[test]
fn of_the_injected_threads_an_lwp_takes_a_share() {
    assert_eq!(share(1, 0, CAPACITY), 0);
    assert_eq!(share(2, 1, CAPACITY), 0);
    assert_eq!(share(2, 6, CAPACITY), 3, "the others' LWPs may come");
    assert_eq!(share(1, 2 * INJECT_BATCH, CAPACITY), INJECT_BATCH, "not too many at a time");
    assert_eq!(share(1, 20, 6), 3, "half of the room in its ring");
    assert_eq!(share(1, 20, 0), 0);
}

#[test]
fn where_threads_migrate_those_that_ran_elsewhere_go_first() {
    let model = Model::with(2, 0, 3, migrates);
    let (scheduler, lwp, other) = (model.scheduler, model.lwp(0), model.lwp(1));
    let order = |ran_on: [Option<&'static Lwp>; 3]| {
        for (index, lwp) in ran_on.into_iter().enumerate() {
            model.green(index).lwp.set(lwp);
            scheduler.inject.push(model.green(index).ptr());
        }
        let first = scheduler.pop_injected(lwp).map(super::deref);
        let left = [(); 3].map(|()| number(&model, scheduler.inject.pop(0, |_| ()).map(super::deref)));
        assert_eq!(left[2], None);
        (number(&model, first), left[0], left[1])
    };
    let (ours, theirs) = (Some(lwp), Some(other));
    assert_eq!(order([ours, theirs, ours]), (Some(1), Some(2), Some(0)));
    assert_eq!(order([ours, None, theirs]), (Some(1), Some(2), Some(0)), "it has run nowhere");
    assert_eq!(order([theirs; 3]), (Some(0), Some(1), Some(2)));
    assert_eq!(order([ours; 3]), (Some(0), Some(1), Some(2)), "no other LWP has come for it meanwhile");
    let alone = Model::with(1, 0, 1, migrates);
    alone.green(0).lwp.set(Some(alone.lwp(0)));
    alone.scheduler.inject.push(alone.green(0).ptr());
    assert!(alone.scheduler.pop_injected(alone.lwp(0)).is_some(), "there is no other LWP");
}

#[test]
fn a_thread_with_a_stack_in_use_waits_behind_the_others_of_its_priority() {
    let model = Model::new(1, 0, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    scheduler.queue_behind(lwp, model.green(0));
    scheduler.put_back(lwp, model.green(1));
    assert_eq!(
        [(); 3].map(|()| lwp.queue.ring.pop()),
        [Some(model.green(0).ptr()), Some(model.green(1).ptr()), None]
    );
    scheduler.put_back(lwp, set(model.green(2), High));
    assert_eq!((scheduler.levels.take_high(), lwp.queue.ring.len()), (Some(model.green(2).ptr()), 0));
    while lwp.queue.ring.push(model.green(0).ptr()).is_ok() {}
    scheduler.put_back(lwp, model.green(1));
    assert_eq!(scheduler.inject.pop(0, |_| ()), Some(model.green(1).ptr()), "the ring is full");
}

#[test]
fn deadlines_that_are_over_make_threads_runnable() {
    let model = Model::new(2, 0, 2);
    let (scheduler, of, on) = (model.scheduler, model.lwp(0), model.lwp(1));
    assert!(!scheduler.fire_timers(of, on), "there is none");
    let far = Entry::new(u64::MAX - 1, model.green(0).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { of.timers.arm(&far) };
    assert!(!scheduler.fire_timers(of, on), "it is far away");
    let due = Entry::new(0, model.green(1).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { of.timers.arm(&due) };
    assert!(scheduler.fire_timers(of, on));
    assert_eq!(
        (on.queue.ring.pop(), of.queue.ring.pop()),
        (Some(model.green(1).ptr()), None),
        "it goes to the one that looks"
    );
    assert!(!scheduler.fire_timers(of, on), "only once");
    [&far, &due].into_iter().for_each(|entry| of.timers.disarm(entry));
}

/// Hundreds of sleeps are due. Their threads wait among the timers, and not in front of others.
#[test]
fn no_more_sleeps_end_than_a_queue_has_room_for() {
    let model = Model::new(1, 0, 300);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let ring = || lwp.queue.ring.len();
    let entries: Vec<_> = (0..300).map(|n| Entry::new(0, model.green(n).thread(), &Nap)).collect();
    // SAFETY: they stay here until they are disarmed.
    entries.iter().for_each(|entry| unsafe { lwp.timers.arm(entry) });
    go_past_fair_tick(lwp);
    assert!(scheduler.fire_timers(lwp, lwp));
    assert_eq!(ring(), BATCH);
    assert!(!scheduler.fire_timers(lwp, lwp), "as many wait as may");
    (0..20).for_each(|_| assert!(lwp.queue.ring.pop().is_some()));
    assert!(scheduler.fire_timers(lwp, lwp));
    assert_eq!(ring(), BATCH - 20 + STEPS_BETWEEN, "threads wait, so it is not to take long");
    while lwp.queue.ring.push(model.green(0).ptr()).is_ok() {}
    assert!(!scheduler.fire_timers(lwp, lwp));
    go_to_fair_tick(lwp);
    assert!(scheduler.fire_timers(lwp, lwp), "a ring that is always full does not stop time");
    assert_eq!((ring(), scheduler.inject.len()), (CAPACITY as usize, LEAST_FIRED), "what waits there stays");
    scheduler.fire_elsewhere(lwp, None, 50);
    assert_eq!(scheduler.inject.len(), 50);
    scheduler.fire_elsewhere(lwp, None, 50);
    assert_eq!(scheduler.inject.len(), 51, "at least one");
    entries.iter().for_each(|entry| lwp.timers.disarm(entry));
}

#[test]
fn deadlines_are_looked_at_where_turns_are_taken() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let due = Entry::new(0, model.green(1).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&due) };
    put_next(lwp, model.green(0));
    go_past_fair_tick(lwp);
    assert_eq!(number(&model, scheduler.pick(lwp)), Some(0));
    assert_eq!(lwp.timers.next(), 0, "the clock is not asked");
    go_to_fair_tick(lwp);
    assert_eq!(number(&model, scheduler.pick(lwp)), Some(1));
    lwp.timers.disarm(&due);
}

#[test]
fn an_lwp_that_loses_its_slot_while_it_sleeps_joins_the_spares() {
    let model = Model::new(2, 0, 0);
    let (scheduler, lwp) = (model.scheduler, model.lwp(1));
    let dispatcher = spawn(move || scheduler.dispatch(lwp));
    wait_until(|| scheduler.idle.sleepers().contains(lwp.index));
    assert!(scheduler.shrink());
    wait_until(|| dispatcher.is_finished() || scheduler.pool.spares() == 1);
    assert!(!dispatcher.is_finished(), "it has not been told to end");
    scheduler.stop();
    wait_until(|| dispatcher.is_finished());
    dispatcher.join().unwrap();
}
