//! What an LWP without work looks at, what it takes from others, and when: on a scheduler without kernel
//! threads.

use std::ptr::{self, NonNull};
use std::thread::spawn;

use super::Scheduler;
use super::policy::{
    BALANCED, INJECT_BATCH, LONG_QUIET, MAX_AGE, MIN_AGE, ROBBED, SPIN, STEAL_PAYS, VICTIMS,
};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::placement::Placement;
use crate::mxn::tests::{Model, Nap, wait_until};
use crate::mxn::timer::Entry;
use crate::park::priority::Priority::{High, Low, Normal};
use crate::shim::cpu;

fn put_next(lwp: &Lwp, green: &'static Green) {
    lwp.queue.next.fill(green.ptr());
}

/// Puts an LWP to sleep that has not searched.
fn lay(scheduler: &Scheduler, lwp: &Lwp) {
    lwp.sleep.prepare();
    scheduler.idle.enter(lwp.index, false);
}

/// Returns how many LWPs sleep, and how many search.
fn counts(scheduler: &Scheduler) -> (u32, u32) {
    let look = scheduler.idle.look();
    (look.sleeping, look.searching)
}

#[test]
fn an_lwp_does_not_spin_but_asks_for_quiet_if_its_steals_do_not_pay() {
    let asks = |placement, lent, age| {
        let model = Model::with(1, 0, 1, |scheduler| scheduler.placement = placement);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        (0..lent).for_each(|_| scheduler.slots.lend().retire());
        lwp.search.age.set(age);
        scheduler.inject.push(green.ptr());
        let before = scheduler.clock.now();
        assert!(scheduler.search(lwp).is_some_and(|found| ptr::eq(found, green)), "it looks all the same");
        let after = scheduler.clock.now();
        assert_eq!(counts(scheduler), (0, 0));
        let until = scheduler.idle.quiet_until();
        assert!(until == 0 || (before + age..=after + age).contains(&until), "{until}");
        until > 0
    };
    assert!(!asks(Placement::Anywhere, 0, MIN_AGE));
    assert!(!asks(Placement::Anywhere, 0, SPIN));
    assert!(asks(Placement::Anywhere, 0, MAX_AGE));
    assert!(asks(Placement::Home, 0, MAX_AGE));
    assert!(!asks(Placement::Home, 1, MAX_AGE), "what a slot was lent for may lie in a ring");
}

#[test]
fn an_lwp_that_was_woken_for_nothing_asks_for_quiet() {
    let is_woken_in_vain = |age, then, quiet| {
        let model = Model::new(1, 0, 1);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        lwp.search.age.set(age);
        let searcher = spawn(move || scheduler.search(lwp));
        wait_until(|| scheduler.idle.sleepers().contains(lwp.index));
        let before = scheduler.clock.now();
        scheduler.wake_searcher();
        wait_until(|| scheduler.idle.sleepers().contains(lwp.index));
        let after = scheduler.clock.now();
        scheduler.ready_elsewhere(green);
        assert!(searcher.join().unwrap().is_some_and(|found| ptr::eq(found, green)));
        assert_eq!(lwp.search.age.get(), then);
        let until = scheduler.idle.quiet_until();
        assert!(
            (before + quiet..=after + quiet).contains(&until),
            "{until} is not after {before} by {quiet}"
        );
    };
    is_woken_in_vain(MIN_AGE, 2 * MIN_AGE, 2 * MIN_AGE);
    is_woken_in_vain(MAX_AGE, MAX_AGE, LONG_QUIET);
}

#[test]
fn an_lwp_without_work_returns_a_slot_that_was_lent() {
    let model = Model::with(1, 0, 1, |scheduler| scheduler.placement = Placement::Home);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    scheduler.slots.lend().retire();
    // If it slept, it would wake up then.
    let late = Entry::new(scheduler.clock.now() + 5_000_000_000, model.green(0).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&late) };
    assert!(scheduler.search(lwp).is_none());
    assert!(lwp.slot.is_none());
    assert_eq!((scheduler.slots.lent(), counts(scheduler)), (0, (0, 0)));
    lwp.timers.disarm(&late);
}

/// The thread for which it was lent a slot may wait on any of many LWPs. (Under an emulator, each loan was
/// over after a look at the same eight.)
#[test]
fn an_lwp_goes_on_with_a_search_that_found_nothing() {
    let model = Model::with(30, 0, 1, |scheduler| scheduler.placement = Placement::Home);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    scheduler.slots.lend().retire();
    assert!(scheduler.search(lwp).is_none());
    lwp.search.next_victim.set(7);
    let begins = |at| lwp.search.begin(lwp.tick.get(), 0, |_| at);
    begins(20);
    assert_eq!(lwp.search.next_victim.get(), 7);
    lwp.tick.bump();
    begins(20);
    assert_eq!((lwp.search.next_victim.get(), lwp.search.next_far.get()), (20, 20), "it has run a thread");
}

/// Returns `true` if the end of a search wakes another LWP. There may be work in a shared queue or in the own
/// ring, and another LWP may watch.
fn wakes_another(searchers: u32, shared: bool, queued: bool, watched: bool, found: bool) -> bool {
    let model = Model::new(8, 0, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    (0..searchers).for_each(|_| assert!(scheduler.idle.begin_search(8)));
    lay(scheduler, model.lwp(1));
    if shared {
        scheduler.inject.push(model.green(0).ptr());
    }
    if queued {
        scheduler.queue_behind(lwp, model.green(1));
    }
    assert!(!watched || scheduler.idle.watch());
    if found {
        assert!(ptr::eq(scheduler.found(lwp, model.green(2).ptr()), model.green(2)));
    } else {
        scheduler.end_search();
    }
    let woken = counts(scheduler).0 == 0;
    assert_eq!(counts(scheduler).1, searchers - 1 + u32::from(woken));
    woken
}

#[test]
fn the_last_to_search_wakes_another_if_it_leaves_work_behind() {
    let finds = |searchers, shared, queued, watched| wakes_another(searchers, shared, queued, watched, true);
    assert!(finds(1, true, false, true), "a waker has left it to the one that searched");
    assert!(!finds(1, false, false, true) && !finds(1, false, false, false), "there is no more");
    assert!(finds(1, false, true, false), "no LWP looks at what was stolen with it");
    assert!(!finds(1, false, true, true), "the one that watches will look at it");
    assert!(!finds(2, true, true, false), "the other one will find it");
}

#[test]
fn a_thief_wakes_the_next_if_it_leaves_threads_and_its_steals_pay() {
    let wakes = |threads, age| {
        let model = Model::new(3, 0, threads);
        let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
        assert!(scheduler.idle.begin_search(3) && scheduler.idle.watch());
        lay(scheduler, model.lwp(2));
        (0..threads).for_each(|index| scheduler.queue_behind(victim, model.green(index)));
        lwp.search.age.set(age);
        assert_eq!(scheduler.look_around(lwp, 100, 10), None);
        let stolen = scheduler.look_around(lwp, 110, 10).expect("they have waited for long enough");
        scheduler.found(lwp, stolen);
        counts(scheduler).0 == 0
    };
    assert!(!wakes(1, MIN_AGE), "there is no more");
    assert!(wakes(2, MIN_AGE), "one is left in the other ring");
    assert!(wakes(3, SPIN), "one was stolen with it");
    assert!(!wakes(3, SPIN + 1), "its last steals did not pay");
}

#[test]
fn a_search_that_ends_in_vain_leaves_nothing_in_the_shared_queues() {
    let ends = |searchers, shared| wakes_another(searchers, shared, false, false, false);
    assert!(ends(1, true) && !ends(1, false) && !ends(2, true));
}

#[test]
fn each_lwp_is_looked_at_from_any_start() {
    let slots = 21;
    let model = Model::new(slots, 2, 0);
    let (scheduler, lwp) = (model.scheduler, model.lwp(5));
    let looks: Vec<u32> =
        (0..3).flat_map(|_| scheduler.victims(lwp).map(|victim| victim.index).collect::<Vec<_>>()).collect();
    assert_eq!(looks.len(), 3 * VICTIMS, "a look is at so many");
    let mut seen: Vec<u32> = looks[..slots - 1].to_vec();
    seen.sort_unstable();
    let others: Vec<u32> = (0..21).filter(|&index| index != 5).collect();
    assert_eq!(seen, others, "neither itself, nor an LWP without a slot, nor one twice");
}

#[test]
fn an_lwp_without_a_slot_is_looked_at_until_it_has_nothing_left() {
    let model = Model::new(2, 0, 1);
    let (scheduler, lwp, other) = (model.scheduler, model.lwp(0), model.lwp(1));
    let is_looked_at = || scheduler.victims(lwp).any(|victim| ptr::eq(victim, other));
    scheduler.pool.leave_active(other);
    assert!(is_looked_at(), "it has a slot");
    let slot = other.slot.retake_unannounced().unwrap();
    assert!(is_looked_at(), "something may be left there");
    scheduler.pool.leave_active(other);
    assert!(!is_looked_at());
    scheduler.pool.give(other, slot);
    assert!(is_looked_at());
}

/// Returns how many times in a row LWPs wake others, until all of `slots` are awake. `backlog` threads wait.
fn times_until_all_are_awake(slots: u32, backlog: usize) -> Option<usize> {
    let model = Model::new(slots as usize, 0, backlog + 1);
    let scheduler = model.scheduler;
    scheduler.pool.lwps().for_each(|lwp| lay(scheduler, lwp));
    (0..backlog).for_each(|green| scheduler.inject.push(model.green(green).ptr()));
    scheduler.wake_searcher();
    let mut awake = 0;
    for times in 0..100 {
        let woken = slots - counts(scheduler).0 - awake;
        if woken == 0 {
            return (awake == slots).then_some(times);
        }
        awake += woken;
        for _ in 0..woken {
            let found = scheduler.inject.pop(0, |_| ()).unwrap_or(model.green(backlog).ptr());
            scheduler.found(model.lwp(0), found);
        }
    }
    None
}

#[test]
fn a_backlog_wakes_lwps_in_ever_larger_numbers() {
    let times = [1, 2, 8, 64].map(|slots| times_until_all_are_awake(slots, 128));
    assert_eq!(times, [Some(1), Some(2), Some(4), Some(7)]);
    assert_eq!(times_until_all_are_awake(64, 3), None, "three threads do not wake all");
}

#[test]
fn half_of_the_lwps_that_are_awake_search_and_at_least_one() {
    let model = Model::new(7, 0, 0);
    let (scheduler, idle) = (model.scheduler, &model.scheduler.idle);
    lay(scheduler, model.lwp(6));
    (0..3).for_each(|_| assert!(idle.begin_search(7)));
    assert!(!idle.begin_search(7), "six are awake");
    assert!(!idle.end_search() && !idle.end_search() && idle.end_search());
    assert!(idle.begin_search(1), "all sleep, but for the one that asks");
    assert!(!idle.begin_search(1));
}

#[test]
fn an_lwp_that_steps_aside_goes_on_searching_unless_others_do() {
    let model = Model::new(2, 0, 1);
    let scheduler = model.scheduler;
    assert!(scheduler.idle.begin_search(2));
    assert!(scheduler.step_aside());
    assert_eq!(counts(scheduler), (0, 1));
    lay(scheduler, model.lwp(1));
    scheduler.inject.push(model.green(0).ptr());
    assert!(!scheduler.step_aside(), "the one that was woken for what is left searches");
    assert_eq!(counts(scheduler), (0, 1));
}

#[test]
fn an_lwp_waits_longer_the_next_time_if_a_steal_did_not_pay() {
    let model = Model::new(1, 0, 0);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let age_after = |age, now, stole_at, robbed_at| {
        lwp.search.age.set(age);
        lwp.search.stole_at.set(stole_at);
        lwp.was_robbed(robbed_at);
        let judged = scheduler.judge_last_steal(lwp, now);
        assert_eq!(judged, lwp.search.age.get());
        assert_eq!(scheduler.judge_last_steal(lwp, now), judged, "a steal is judged once");
        judged
    };
    let (age, now) = (3 * MIN_AGE, MAX_AGE);
    assert_eq!(age_after(age, now, 0, 0), age, "nothing was stolen");
    assert_eq!(age_after(age, 1, 0, 0), age, "nor soon after the start");
    assert_eq!(age_after(age, now, now - STEAL_PAYS + 1, 0), 2 * age, "what it stole was done soon");
    assert_eq!(age_after(age, now, now - STEAL_PAYS, 0), MIN_AGE, "it paid");
    assert_eq!(age_after(age, now, 0, now - ROBBED + 1), 2 * age, "all there was to do was stolen");
    assert_eq!(age_after(age, now, 0, now - ROBBED), age);
    assert_eq!(age_after(age, now, now - STEAL_PAYS, now - 1), 2 * age, "either verdict counts");
    assert_eq!(age_after(MAX_AGE, now, now, now), MAX_AGE);
}

#[test]
fn what_needs_no_steal_is_taken_in_this_order() {
    let model = Model::new(1, 0, 7);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let now = scheduler.clock.now();
    scheduler.queue_preempted(model.green(5));
    scheduler.inject.push(model.green(4).ptr());
    lwp.pinned.push(model.green(3).ptr(), || Normal);
    put_next(lwp, model.green(2));
    let due = Entry::new(now, model.green(1).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { lwp.timers.arm(&due) };
    model.green(0).core.priority.set(High);
    scheduler.queue_shared(model.green(0));
    model.green(6).core.priority.set(Low);
    scheduler.queue_shared(model.green(6));
    for index in 0..6 {
        assert_eq!(scheduler.look_at_own(lwp, now), Some(model.green(index).ptr()), "{index}");
    }
    lwp.timers.disarm(&due);
    assert_eq!(scheduler.look_at_own(lwp, now), None);
    assert_eq!(scheduler.look_around(lwp, now, 0), Some(model.green(6).ptr()), "low ones come last");
}

#[test]
fn what_is_due_on_another_lwp_is_taken_at_once() {
    let model = Model::new(2, 0, 1);
    let (scheduler, lwp, other) = (model.scheduler, model.lwp(0), model.lwp(1));
    let due = Entry::new(1, model.green(0).thread(), &Nap);
    // SAFETY: it stays here until it is disarmed.
    unsafe { other.timers.arm(&due) };
    assert_eq!(scheduler.look_around(lwp, 0, MAX_AGE), None, "it was not, when the look began");
    assert_eq!(scheduler.look_around(lwp, 1, MAX_AGE), Some(model.green(0).ptr()));
    other.timers.disarm(&due);
}

#[test]
fn a_steal_is_noted_by_both_sides() {
    let model = Model::new(2, 0, 2);
    let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
    (0..2).for_each(|index| scheduler.queue_behind(victim, model.green(index)));
    assert_eq!(scheduler.look_around(lwp, 100, 10), None);
    assert_eq!((lwp.search.stole_at.get(), victim.robbed_at()), (0, 0));
    assert_eq!(scheduler.look_around(lwp, 110, 10), Some(model.green(0).ptr()));
    assert_eq!((lwp.search.stole_at.get(), victim.robbed_at()), (110, 110));
    assert_eq!(lwp.counters.steals.get(), 1);
}

#[test]
fn a_next_slot_is_stolen_if_it_stays_the_same_for_long_enough() {
    let model = Model::new(2, 0, 3);
    let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
    let (first, second, waker) = (model.green(0), model.green(1), model.green(2));
    let steals = |now| scheduler.steal(victim, lwp, now, 10).is_some();
    assert!(!steals(0) && !steals(90), "there is nothing");
    put_next(victim, first);
    assert!(!steals(100) && !steals(109), "it has just come");
    put_next(victim, second);
    assert!(!steals(110) && !steals(119), "it is another");
    victim.tick.bump();
    assert!(!steals(120) && !steals(129), "the LWP has dispatched, and the thread may have come back");
    victim.queue.next.blame(Some(waker.ptr()));
    assert!(!waker.wakes_early());
    assert_eq!(scheduler.steal(victim, lwp, 130, 10), Some(second.ptr()));
    assert!(waker.wakes_early(), "it computed on after it had woken the thread");
    assert!(!victim.has_next() && !steals(999));
    put_next(victim, second);
    assert!(!steals(1000), "the next look begins anew");
}

#[test]
fn half_of_a_ring_is_stolen_if_anything_in_it_waits_for_long_enough() {
    let model = Model::new(2, 0, 6);
    let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
    let steal = |now| scheduler.steal(victim, lwp, now, 10);
    let queue = |index| scheduler.queue_behind(victim, model.green(index));
    queue(0);
    assert_eq!((steal(100), steal(109)), (None, None));
    assert!(victim.queue.ring.pop().is_some());
    (1..6).for_each(queue);
    assert_eq!(steal(110), None, "all that was seen is gone");
    victim.tick.bump();
    assert!(victim.queue.ring.pop().is_some());
    assert_eq!(steal(119), None);
    assert_eq!(steal(120), Some(model.green(2).ptr()), "some that were seen still wait");
    assert_eq!(
        [lwp.queue.ring.pop(), lwp.queue.ring.pop()],
        [Some(model.green(3).ptr()), None],
        "half of four"
    );
    assert_eq!((victim.queue.ring.len(), steal(121)), (2, None), "the rest was seen just now");
}

#[test]
fn an_lwp_that_has_the_cpu_of_another_lets_that_run_once_before_it_steals() {
    let cpus = [cpu::Word::new(0), cpu::Word::new(1)];
    let model = Model::new(2, 0, 2);
    let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
    let steals = |now| scheduler.steal(victim, lwp, now, 10).is_some();
    let in_the_way = || lwp.search.in_the_way.take();
    lwp.show_cpu(Some(NonNull::from(&cpus[0])));
    for is_next in [true, false] {
        victim.show_cpu(Some(NonNull::from(&cpus[0])));
        let fill = || {
            if is_next {
                put_next(victim, model.green(0))
            } else {
                scheduler.queue_behind(victim, model.green(1))
            }
            victim.tick.bump();
        };
        fill();
        assert!(!steals(100) && !in_the_way());
        assert!(!steals(110) && in_the_way(), "it has its CPU");
        assert!(steals(111) && !in_the_way(), "it was given that, and has not dispatched");
        fill();
        assert!(!steals(200) && !steals(210) && in_the_way(), "it has dispatched since");
        assert!(steals(211));
        victim.show_cpu(Some(NonNull::from(&cpus[1])));
        fill();
        assert!(!steals(300) && steals(310) && !in_the_way(), "it has another CPU");
        victim.show_cpu(None);
        fill();
        assert!(!steals(400) && steals(410) && !in_the_way(), "it has no kernel thread");
    }
}

/// Returns `true` if an LWP steals before it runs a preempted thread that has run for so long.
fn steals_beside_preempted(ran: Option<u64>, from: u32) -> bool {
    let model = Model::new(2, 1, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    if let Some(ran) = ran {
        model.green(0).set_ran(ran);
        scheduler.queue_preempted(model.green(0));
    }
    lwp.search.age.set(0);
    put_next(model.lwp(from), model.green(1));
    assert_eq!(scheduler.steal_beside_preempted(lwp), None, "the first look");
    let stolen = scheduler.steal_beside_preempted(lwp);
    assert!(stolen.is_none_or(|stolen| stolen == model.green(1).ptr()));
    assert_eq!(lwp.counters.steals.get(), u64::from(stolen.is_some()));
    stolen.is_some()
}

#[test]
fn an_lwp_steals_before_it_runs_a_preempted_thread_that_has_had_its_share() {
    assert!(steals_beside_preempted(Some(1), 1));
    assert!(!steals_beside_preempted(Some(0), 1), "it is owed its share");
    assert!(!steals_beside_preempted(None, 1), "there is no such thread");
    assert!(!steals_beside_preempted(Some(1), 2), "an LWP without a slot gives its threads away");
    assert!(!steals_beside_preempted(Some(1), 0), "its own are not stolen");
}

#[test]
fn an_lwp_takes_half_of_the_difference_where_more_than_twice_as_many_wait() {
    let balance = |ours: usize, theirs: usize| {
        let model = Model::new(2, 0, 2);
        let (scheduler, lwp, other) = (model.scheduler, model.lwp(0), model.lwp(1));
        let fill = |lwp: &Lwp, count, index| {
            (0..count).for_each(|_| lwp.queue.ring.push(model.green(index).ptr()).unwrap());
        };
        fill(lwp, ours, 0);
        // The oldest is another.
        fill(other, 1, 0);
        fill(other, theirs - 1, 1);
        scheduler.balance(lwp, 2);
        assert_eq!((lwp.queue.ring.len(), other.queue.ring.len()), (ours, theirs), "it is its own turn");
        scheduler.balance(lwp, 1);
        let moved = lwp.queue.ring.len() - ours;
        assert_eq!(other.queue.ring.len(), theirs - moved);
        let oldest_goes = other.queue.ring.first() != Some(model.green(0).ptr());
        assert_eq!((oldest_goes, lwp.counters.steals.get() == 1), (moved > 0, moved > 0));
        moved
    };
    let enough = 2 * 3 + BALANCED;
    assert_eq!(balance(3, enough), 0);
    assert_eq!(balance(3, enough + 1), (enough + 1 - 3) / 2);
    assert_eq!(balance(0, 2 * INJECT_BATCH + 2), INJECT_BATCH, "not too many at a time");
}
