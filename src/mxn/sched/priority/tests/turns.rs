//! What goes first if priorities differ, and which LWP is asked to leave a lower thread. On a scheduler
//! without kernel threads.

use std::thread::sleep;
use std::time::Duration;

use super::super::{Aging, OWED};
use crate::mxn::green::Green;
use crate::mxn::life::end::Visit;
use crate::mxn::lwp::{HighRun, Lwp};
use crate::mxn::sched::Scheduler;
use crate::mxn::sched::placement::Placement;
use crate::mxn::sched::policy::{FAIR_TICK, HEAD_START, HIGH_RUN, LOW_AGE};
use crate::mxn::sched::switch::wait_for;
use crate::mxn::tests::Model;
use crate::park::priority::Priority::{self, High, Low, Normal};
use crate::park::thread::NO_ID;
use crate::shim::atomic::Ordering;

/// Gives a thread, which waits nowhere, this priority.
fn set(green: &'static Green, level: Priority) -> &'static Green {
    green.core.priority.set(level);
    green
}

fn queue(scheduler: &Scheduler, green: &'static Green, level: Priority) {
    scheduler.queue_shared(set(green, level));
}

#[test]
fn low_threads_are_owed_a_turn_when_none_has_run_for_long() {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
    let levels = &scheduler.levels;
    let mut aging = Aging::default();
    // Returns `true` if a low thread is owed a turn, if one was first seen at this time by the scheduler's
    // clock.
    let mut is_owed = |since: u64| {
        aging.since = since;
        scheduler.age_low(&mut aging);
        assert_eq!(levels.are_urgent(), levels.owe_low());
        levels.owe_low()
    };
    const NOT_YET: u64 = 0;
    const LONG_AGO: u64 = 1;
    const JUST_NOW: u64 = u64::MAX;
    // The clock began with the model.
    sleep(Duration::from_nanos(LOW_AGE + LONG_AGO));
    assert!(!is_owed(LONG_AGO), "no thread waits");
    queue(scheduler, green, Low);
    assert!(!is_owed(NOT_YET) && !is_owed(JUST_NOW), "it has just come");
    assert!(is_owed(LONG_AGO), "it has waited for long");
    assert_eq!(scheduler.pick_urgent(lwp), Ok(green.ptr()));
    assert!(!levels.are_urgent(), "the turn was paid");
    queue(scheduler, green, Low);
    assert!(!is_owed(LONG_AGO), "a thread has had a turn since");
    assert!(is_owed(LONG_AGO), "none has had one since");
    assert_eq!(levels.take_low(), Some(green.ptr()));
    assert!(!levels.owe_low(), "the thread was taken in passing");
}

#[test]
fn each_shared_queue_is_looked_at() {
    let model = Model::new(1, 0, 1);
    let (scheduler, green) = (model.scheduler, model.green(0));
    assert!(!scheduler.has_shared());
    scheduler.inject.push(green.ptr());
    assert!(scheduler.has_shared());
    assert!(scheduler.inject.pop(0, |_| ()).is_some() && !scheduler.has_shared());
    scheduler.queue_preempted(green);
    assert!(scheduler.has_shared());
    assert!(scheduler.pop_preempted().is_some() && !scheduler.has_shared());
    queue(scheduler, green, High);
    assert!(scheduler.has_shared());
    assert!(scheduler.levels.take_high().is_some() && !scheduler.has_shared());
}

#[test]
fn a_low_thread_runs_if_no_other_lwp_has_a_normal_one() {
    let model = Model::new(2, 0, 4);
    let (scheduler, lwp, other) = (model.scheduler, model.lwp(0), model.lwp(1));
    let (shared, pinned) = (model.green(0), model.green(1));
    assert_eq!(scheduler.pick_low(lwp), None);
    queue(scheduler, shared, Low);
    assert_eq!(scheduler.pick_low(lwp), Some(shared.ptr()));
    lwp.pinned.push(set(pinned, Low).ptr(), || Low);
    assert_eq!(scheduler.pick_low(lwp), Some(pinned.ptr()));
    lwp.pinned.push(pinned.ptr(), || Low);
    queue(scheduler, shared, Low);
    scheduler.queue_behind(lwp, model.green(2));
    assert_eq!(scheduler.pick_low(lwp), Some(shared.ptr()), "what it has itself says nothing");
    scheduler.queue_behind(other, model.green(3));
    assert_eq!(scheduler.pick_low(lwp), None, "a thread can be stolen");
    assert_eq!(other.queue.ring.pop(), Some(model.green(3).ptr()));
    assert_eq!(scheduler.pick_low(lwp), Some(pinned.ptr()));
}

#[test]
fn a_normal_thread_is_owed_a_turn_after_many_high_ones() {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
    // It has run high threads for long.
    let is_owed = |tick: u32| {
        lwp.high_run.set(HighRun { since: 0, tick: lwp.tick.get().wrapping_sub(tick), is_held_up: false });
        scheduler.is_normal_owed(lwp)
    };
    sleep(Duration::from_nanos(HIGH_RUN));
    assert!(!is_owed(1), "no normal thread waits");
    scheduler.inject.push(green.ptr());
    assert!(is_owed(1));
    assert_ne!(lwp.high_run.get().since, 0, "its run has begun again");
    assert!(!is_owed(2), "another thread has run in between");
    assert!(scheduler.inject.pop(0, |_| ()).is_some());
    scheduler.queue_preempted(green);
    assert!(is_owed(1));
    assert!(scheduler.pop_preempted().is_some() && !is_owed(1));
    scheduler.queue_behind(lwp, green);
    assert!(is_owed(1));
}

/// Notes that an LWP runs this thread.
fn runs(lwp: &Lwp, green: &'static Green, level: Priority) {
    lwp.show_running(Some(set(green, level)));
}

#[test]
fn the_lwp_of_the_lowest_thread_is_asked_to_leave_it() {
    let model = Model::new(3, 0, 3);
    let scheduler = model.scheduler;
    let lwps = [0, 1, 2].map(|index| model.lwp(index));
    let asked = |level, running: [Option<Priority>; 3]| {
        for ((lwp, green), level) in lwps.iter().zip(0..).zip(running) {
            lwp.show_running(None);
            if let Some(level) = level {
                runs(lwp, model.green(green), level);
            }
        }
        scheduler.request_preemption_below(level);
        lwps.map(|lwp| lwp.flags.take().look)
    };
    assert_eq!(asked(High, [Some(Normal), Some(Low), Some(Normal)]), [false, true, false]);
    assert_eq!(asked(High, [None, Some(Normal), Some(Normal)]), [false, true, false], "the first of equals");
    assert_eq!(asked(High, [Some(High), Some(High), Some(Normal)]), [false, false, true]);
    assert_eq!(asked(High, [Some(High), Some(High), Some(High)]), [false; 3]);
    assert_eq!(asked(Normal, [Some(Normal), Some(High), None]), [false; 3]);
    assert_eq!(asked(Normal, [Some(Normal), Some(High), Some(Low)]), [false, false, true]);
}

#[test]
fn a_high_thread_asks_an_lwp_if_none_is_idle() {
    let model = Model::new(2, 0, 3);
    let (scheduler, busy, idle) = (model.scheduler, model.lwp(0), model.lwp(1));
    runs(busy, model.green(0), Normal);
    let is_asked = |level| {
        scheduler.wake_for_level(level);
        busy.flags.take().look
    };
    assert!(is_asked(High) && !is_asked(Normal) && !is_asked(Low));
    assert!(scheduler.idle.begin_search(2));
    assert!(!is_asked(High), "an LWP searches");
    idle.sleep.prepare();
    scheduler.idle.enter(idle.index, true);
    assert!(!is_asked(High), "an LWP is woken");
    assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 1));
    assert!(!scheduler.idle.end_search() || is_asked(High));
}

#[test]
fn a_thread_that_is_raised_in_a_ring_is_taken_from_there() {
    let model = Model::new(2, 0, 3);
    let (scheduler, lwp, idle) = (model.scheduler, model.lwp(0), model.lwp(1));
    let greens = [0, 1, 2].map(|index| model.green(index));
    let change = |level| scheduler.reprioritize(set(greens[1], level));
    greens.iter().for_each(|green| scheduler.queue_behind(lwp, green));
    change(Normal);
    assert_eq!(lwp.queue.ring.len(), 3, "a normal thread stays in the ring");
    idle.sleep.prepare();
    scheduler.idle.enter(idle.index, false);
    change(High);
    assert_eq!(scheduler.idle.look().sleeping, 0, "an LWP is woken for it");
    assert_eq!(scheduler.levels.take_high(), Some(greens[1].ptr()));
    assert_eq!(scheduler.inject.pop(0, |_| ()), Some(greens[0].ptr()), "it was before the raised one");
    assert_eq!((lwp.queue.ring.len(), lwp.queue.ring.pop()), (1, Some(greens[2].ptr())));
}

/// Queues four threads on an LWP, in its next-slot and its ring, and gives each a priority afterwards.
fn queue_and_change(model: &Model, levels: [Priority; 4]) {
    let lwp = model.lwp(0);
    lwp.queue.next.fill(model.green(0).ptr());
    (1..4).for_each(|index| lwp.queue.ring.push(model.green(index).ptr()).unwrap());
    (0..4).zip(levels).for_each(|(index, level)| _ = set(model.green(index), level));
}

#[test]
fn an_lwp_sifts_what_it_has_queued_if_it_was_told_to() {
    let model = Model::new(2, 0, 4);
    let (scheduler, lwp, idle) = (model.scheduler, model.lwp(0), model.lwp(1));
    let greens = [0, 1, 2, 3].map(|index| model.green(index).ptr());
    idle.sleep.prepare();
    scheduler.idle.enter(idle.index, false);
    let sleeping = || scheduler.idle.look().sleeping;
    let queued = || (lwp.queue.next.take(), [(); 3].map(|()| lwp.queue.ring.pop()));

    queue_and_change(&model, [High, Low, Normal, High]);
    assert!(!scheduler.do_what_is_asked(lwp));
    assert_eq!(lwp.queue.ring.len(), 3, "it was not told to");
    lwp.flags.sift();
    assert!(scheduler.do_what_is_asked(lwp), "it is to look, too");
    assert!(!lwp.flags.is_any());
    assert_eq!(sleeping(), 0, "an LWP is woken for them");
    assert_eq!(queued(), (None, [Some(greens[2]), None, None]));
    assert_eq!([(); 3].map(|()| scheduler.levels.take_high()), [Some(greens[0]), Some(greens[3]), None]);
    assert_eq!(scheduler.levels.take_low(), Some(greens[1]));

    scheduler.idle.end_search();
    scheduler.idle.enter(idle.index, false);
    queue_and_change(&model, [Normal; 4]);
    lwp.flags.sift();
    assert!(scheduler.do_what_is_asked(lwp));
    assert_eq!(queued(), (Some(greens[0]), [Some(greens[1]), Some(greens[2]), Some(greens[3])]));
    assert_eq!(sleeping(), 1, "nothing has moved");
}

#[test]
fn a_thief_runs_a_raised_thread_first() {
    let model = Model::new(1, 0, 4);
    let (scheduler, lwp, first) = (model.scheduler, model.lwp(0), model.green(0).ptr());
    (1..4).for_each(|index| lwp.queue.ring.push(model.green(index).ptr()).unwrap());
    set(model.green(2), High);
    assert_eq!(scheduler.sift_stolen(lwp, first), first, "no priority was ever changed");
    scheduler.levels.sifting.store(true, Ordering::Relaxed);
    assert_eq!(scheduler.sift_stolen(lwp, first), model.green(2).ptr());
    assert_eq!(scheduler.inject.pop(0, |_| ()), Some(first), "it has its turn later");
    assert_eq!(lwp.queue.ring.len(), 2);
    assert_eq!(scheduler.sift_stolen(lwp, first), first, "none was raised");
    assert_eq!((scheduler.inject.len(), lwp.queue.ring.len()), (0, 2));
}

#[test]
fn a_thread_with_another_priority_goes_to_the_queue_of_that() {
    let model = Model::new(1, 0, 1);
    let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
    let levels = &scheduler.levels;
    let change = |level| scheduler.reprioritize(set(green, level));
    scheduler.queue_preempted(set(green, Normal));
    change(High);
    assert_eq!((scheduler.preempted.len(), levels.high()), (0, 1));
    change(Low);
    assert_eq!((levels.high(), levels.take_low()), (0, Some(green.ptr())));
    queue(scheduler, green, Low);
    change(Normal);
    assert_eq!((levels.len(), scheduler.inject.len()), (0, 1));
    change(Low);
    assert_eq!((scheduler.inject.len(), levels.take_low()), (0, Some(green.ptr())));
    assert!(!lwp.flags.is_any(), "it was found each time");
    scheduler.queue_behind(lwp, set(green, Normal));
    change(Low);
    assert_eq!((levels.len(), lwp.queue.ring.len()), (0, 1), "its LWP has it until that dispatches");
    assert!(scheduler.do_what_is_asked(lwp) && levels.sifting.load(Ordering::Relaxed));
    assert_eq!((levels.take_low(), lwp.queue.ring.len()), (Some(green.ptr()), 0));
}

#[test]
fn a_thread_that_is_raised_in_a_next_slot_is_taken_from_there() {
    let model = Model::new(2, 0, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(1));
    let [next, other] = [0, 1].map(|index| model.green(index));
    lwp.queue.next.fill(next.ptr());
    scheduler.reprioritize(set(other, High));
    assert_eq!(lwp.queue.next.look(), Some(next.ptr()), "another thread");
    assert_eq!(scheduler.levels.high(), 0, "it runs, or waits for something");
    scheduler.reprioritize(set(next, High));
    assert!(lwp.queue.next.is_empty());
    assert_eq!(scheduler.levels.take_high(), Some(next.ptr()));
}

#[test]
fn a_low_thread_goes_first_only_if_it_is_owed_a_turn() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    queue(scheduler, model.green(0), Low);
    queue(scheduler, model.green(1), High);
    assert_eq!(scheduler.pick_urgent(lwp), Ok(model.green(1).ptr()));
    queue(scheduler, model.green(1), High);
    scheduler.levels.urgent.set(OWED);
    assert_eq!(scheduler.pick_urgent(lwp), Ok(model.green(0).ptr()));
    assert_eq!(scheduler.pick_urgent(lwp), Ok(model.green(1).ptr()));
    assert_eq!(scheduler.pick_urgent(lwp), Err(false));
}

#[test]
fn a_low_thread_at_home_has_a_turn_beside_new_threads() {
    let model = Model::with(1, 0, 2, |scheduler| scheduler.placement = Placement::Home);
    let (scheduler, lwp, new, low) =
        (model.scheduler, model.lwp(0), model.green(0), set(model.green(1), Low));
    low.lwp.set(Some(lwp));
    scheduler.ready_at_home(low);
    let has_its_turn = (0..3).any(|_| {
        // Each new thread starts another, and ends.
        lwp.queue.next.fill(new.ptr());
        while !lwp.tick.bump().is_multiple_of(FAIR_TICK) {}
        let picked = scheduler.pick(lwp);
        let _ = lwp.queue.next.take();
        picked.is_some_and(|green| std::ptr::eq(green, low))
    });
    assert!(has_its_turn, "it waits forever");
}

/// It is in a ring, because it was raised together with others. As many threads yield there as lie between
/// two fair ticks, so these always find the same one. All have run for more.
#[test]
fn a_raised_thread_that_was_preempted_has_a_turn_beside_threads_that_yield() {
    let yielding = FAIR_TICK as usize;
    let model = Model::new(1, 0, yielding + 1);
    let (scheduler, lwp, raised) = (model.scheduler, model.lwp(0), model.green(yielding));
    raised.fiber.mounted.clear_preempted();
    while !lwp.tick.bump().is_multiple_of(FAIR_TICK) {}
    (0..=yielding).for_each(|index| scheduler.queue_behind(lwp, model.green(index)));
    (0..yielding).for_each(|index| model.green(index).set_ran(2 * HEAD_START));
    let mut runs = scheduler.pick_next(lwp).expect("the first");
    for _ in 0..10 * yielding {
        scheduler.queue_behind(lwp, runs);
        // As `leave_after` does.
        runs = match scheduler.pick_next(lwp) {
            Some(next) if wait_for(next) => next,
            next => {
                next.into_iter().for_each(|next| scheduler.put_back(lwp, next));
                scheduler.pick(lwp).expect("one that yields")
            }
        };
        if std::ptr::eq(runs, raised) {
            return;
        }
    }
    panic!("it was put back again and again");
}

#[test]
fn a_visit_is_counted_until_it_ends() {
    let model = Model::new(1, 0, 1);
    let (scheduler, thread) = (model.scheduler, model.green(0).thread());
    // SAFETY: no other thread sees it.
    unsafe { thread.core().begin(1, NO_ID, scheduler, None, None, Normal) };
    let visited = || scheduler.life.has_visitors();
    let visit = Visit::of(thread).expect("a living thread");
    assert!(std::ptr::eq(visit.scheduler(), scheduler));
    assert!(visited());
    drop(visit);
    assert!(!visited());
    let _ = thread.finish();
    assert!(Visit::of(thread).is_none(), "it has ended");
    assert!(!visited());
}
