//! A thread that gets another priority is in no queue that its old priority had been, wherever it was. And a
//! thread that waits in a priority's queue is found.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{HIGH, PriorityQueues};
use crate::mxn::green::Green;
use crate::mxn::life::end::Visit;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::tests::Model;
use crate::park::priority::Priority;
use crate::park::tests::loom_model::{Letter, large_model, model, spawn_with};
use crate::park::thread::NO_ID;
use crate::shim::UnsafeCell;
use crate::shim::atomic::Ordering;

type Raise = fn(&'static Scheduler, &'static Green);

/// Raises a thread, as `Thread::set_priority` does.
fn raise(scheduler: &'static Scheduler, green: &'static Green) {
    green.core.priority.set(Priority::High);
    scheduler.reprioritize(green);
}

/// Does everything but set the flags.
fn raise_without_flags(scheduler: &'static Scheduler, green: &'static Green) {
    green.core.priority.set(Priority::High);
    let levels = &scheduler.levels;
    levels.sifting.store(true, Ordering::Relaxed);
    if levels.remove(green)
        || scheduler.inject.remove(green.ptr(), || ())
        || scheduler.pool.lwps().any(|lwp| scheduler.pull_out(lwp, green))
    {
        scheduler.ready_by_level(green);
    }
}

/// Sets the flags before the byte.
fn raise_afterwards(scheduler: &'static Scheduler, green: &'static Green) {
    for lwp in scheduler.pool.lwps() {
        lwp.flags.sift();
    }
    raise_without_flags(scheduler, green);
}

/// Checks, after each LWP has dispatched once more, that `green` is in the high queue, unless it was taken.
fn check(scheduler: &'static Scheduler, green: &'static Green, took: Option<NonNull<Green>>) {
    for lwp in scheduler.pool.lwps() {
        scheduler.do_what_is_asked(lwp);
    }
    if took != Some(green.ptr()) {
        assert_eq!(scheduler.levels.take_high(), Some(green.ptr()), "left where it was");
    }
    assert!(!scheduler.levels.are_urgent());
}

/// Models an LWP that makes a thread runnable while another thread raises it, and that dispatches meanwhile.
fn a_ring(raise: Raise) {
    large_model(move || {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp, first, green) = (model.scheduler, model.lwp(0), model.green(0), model.green(1));
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        scheduler.do_what_is_asked(lwp);
        scheduler.queue_behind(lwp, first);
        scheduler.queue_behind(lwp, green);
        raiser.join().unwrap();
        check(scheduler, green, None);
    });
}

#[test]
fn a_thread_is_raised_on_its_way_to_a_ring() {
    a_ring(raise);
}

#[test]
#[should_panic(expected = "left where it was")]
fn negative_raising_without_flags() {
    a_ring(raise_without_flags);
}

#[test]
#[should_panic(expected = "left where it was")]
fn negative_raising_after_the_flags() {
    a_ring(raise_afterwards);
}

/// Models the same for the next-slot.
#[test]
fn a_thread_is_raised_on_its_way_to_a_next_slot() {
    large_model(|| {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp, me, green) = (model.scheduler, model.lwp(0), model.green(0), model.green(1));
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        scheduler.do_what_is_asked(lwp);
        if green.core.priority.is_normal() {
            scheduler.ready_here(me, lwp, green);
        } else {
            scheduler.ready_by_level(green);
        }
        raiser.join().unwrap();
        check(scheduler, green, None);
    });
}

/// Models an LWP that takes a raised thread. It sees what was stored before the thread was made runnable.
#[test]
fn a_raised_thread_brings_along_what_it_was_given() {
    large_model(|| {
        let model = Model::new(1, 0, 2);
        let (scheduler, lwp, me, green) = (model.scheduler, model.lwp(0), model.green(0), model.green(1));
        let note = Arc::new(Letter::default());
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        // Not the raiser: it passes a fence after it has put the thread into the queue.
        let taker = spawn_with(Arc::clone(&note), move |note| {
            let took = scheduler.levels.take_high();
            if took.is_some() {
                assert_eq!(note.read(), 7);
            }
            took
        });
        note.write(7);
        if green.core.priority.is_normal() {
            scheduler.ready_here(me, lwp, green);
        } else {
            scheduler.ready_by_level(green);
        }
        raiser.join().unwrap();
        check(scheduler, green, taker.join().unwrap());
    });
}

/// Models an outside thread that makes a thread runnable while another outside thread raises it.
fn a_shared_queue(ready: fn(&'static Scheduler, &'static Green)) {
    model(move || {
        let model = Model::new(1, 0, 1);
        let (scheduler, green) = (model.scheduler, model.green(0));
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        ready(scheduler, green);
        raiser.join().unwrap();
        check(scheduler, green, None);
    });
}

#[test]
fn a_thread_is_raised_on_its_way_to_a_shared_queue() {
    a_shared_queue(|scheduler, green| scheduler.queue_shared(green));
}

#[test]
#[should_panic(expected = "left where it was")]
fn negative_asking_before_the_lock() {
    a_shared_queue(|scheduler, green| {
        if green.core.priority.is_normal() {
            scheduler.inject.push(green.ptr());
        } else {
            scheduler.queue_shared(green);
        }
    });
}

/// Models an LWP that steals a thread, with another, while an outside thread raises it.
fn a_thief(steal: fn(&'static Scheduler, &'static Lwp, &'static Lwp) -> Option<NonNull<Green>>) {
    large_model(move || {
        let model = Model::new(2, 0, 3);
        let (scheduler, thief, victim, green) = (model.scheduler, model.lwp(0), model.lwp(1), model.green(1));
        for n in 0..3 {
            victim.queue.ring.push(model.green(n).ptr()).unwrap();
        }
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        scheduler.do_what_is_asked(thief);
        let took = steal(scheduler, thief, victim);
        raiser.join().unwrap();
        check(scheduler, green, took);
    });
}

#[test]
fn a_thread_is_raised_while_it_is_stolen() {
    a_thief(|scheduler, thief, victim| {
        victim.queue.ring.steal_into(&thief.queue.ring).map(|first| scheduler.sift_stolen(thief, first))
    });
}

#[test]
#[should_panic(expected = "left where it was")]
fn negative_stealing_without_sifting() {
    a_thief(|_, thief, victim| victim.queue.ring.steal_into(&thief.queue.ring));
}

/// Models two threads that raise and lower the same thread. It ends where the last priority says.
#[test]
fn two_change_the_priority_of_one() {
    model(|| {
        let model = Model::new(1, 0, 1);
        let (scheduler, green) = (model.scheduler, model.green(0));
        scheduler.inject.push(green.ptr());
        let raiser = loom::thread::spawn(move || raise(scheduler, green));
        green.core.priority.set(Priority::Low);
        scheduler.reprioritize(green);
        raiser.join().unwrap();
        let levels = &scheduler.levels;
        let found = match green.core.priority.get() {
            Priority::High => levels.take_high(),
            Priority::Low => levels.take_low(),
            Priority::Normal => None,
        };
        assert_eq!((found, scheduler.has_shared()), (Some(green.ptr()), false));
        assert!(!levels.are_urgent());
    });
}

/// The bit tells whether the high queue is empty.
fn a_bit(take: fn(&PriorityQueues) -> bool) {
    model(move || {
        let model = Model::new(1, 0, 2);
        let levels = &model.scheduler.levels;
        for n in 0..2 {
            model.green(n).core.priority.set(Priority::High);
        }
        assert!(levels.push(model.green(0)));
        let taker = loom::thread::spawn(move || take(levels));
        assert!(levels.push(model.green(1)));
        assert!(taker.join().unwrap());
        assert!(levels.are_urgent(), "no LWP is told");
        assert!(levels.take_high().is_some());
        assert!(!levels.are_urgent());
    });
}

#[test]
fn a_pushed_thread_is_announced() {
    a_bit(|levels| levels.take_high().is_some());
}

#[test]
#[should_panic(expected = "no LWP is told")]
fn negative_the_bit_is_cleared_without_the_lock() {
    a_bit(|levels| {
        let taken = levels.high.take(|| ()).is_some();
        if levels.high.len() == 0 {
            levels.urgent.clear(HIGH);
        }
        taken
    });
}

/// Models an outside thread that makes a thread of this priority runnable while the only LWP goes to sleep.
fn a_sleeper(priority: Priority, ready: fn(&'static Scheduler, &'static Green)) {
    model(move || {
        // Not dropped if the model fails: that would be outside of loom.
        let model = ManuallyDrop::new(Model::new(1, 0, 1));
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        green.core.priority.begin(priority);
        let finder = loom::thread::spawn(move || {
            loop {
                if let Some(green) = scheduler.pick(lwp).or_else(|| scheduler.search(lwp)) {
                    return green;
                }
            }
        });
        ready(scheduler, green);
        assert!(std::ptr::eq(finder.join().unwrap(), green));
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
        drop(ManuallyDrop::into_inner(model));
    });
}

#[test]
fn a_high_thread_is_found() {
    a_sleeper(Priority::High, |scheduler, green| scheduler.ready_elsewhere(green));
}

#[test]
fn a_low_thread_is_found() {
    a_sleeper(Priority::Low, |scheduler, green| scheduler.ready_elsewhere(green));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_lwp_is_woken_for_a_low_thread() {
    a_sleeper(Priority::Low, |scheduler, green| scheduler.queue_shared(green));
}

/// What is freed when a runtime ends: read by threads that touch it, written by the one that frees it.
struct Memory(UnsafeCell<()>);

// SAFETY: this is what the models are to show. Loom reports an access that is not ordered.
unsafe impl Sync for Memory {}
// SAFETY: loom checks it.
unsafe impl Send for Memory {}

/// Models a caller that comes to a dropped runtime by the handle of its last thread, which ends.
fn a_visit(may_stop: fn(&'static Scheduler) -> bool) {
    model(move || {
        let model = Model::new(1, 0, 1);
        let memory = Arc::new(Memory(UnsafeCell::new(())));
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        // SAFETY: no other thread sees it yet.
        unsafe { green.core.begin(1, NO_ID, scheduler, None, None, Priority::Normal) };
        scheduler.life.count_spawn();
        scheduler.life.close();
        let visitor = spawn_with(Arc::clone(&memory), move |memory| {
            if let Some(_visit) = Visit::of(green.thread()) {
                memory.0.with(|_| ());
            }
        });
        let lwp = loom::thread::spawn(move || {
            assert!(!green.core.finish(), "it is not detached");
            // As `reap`.
            lwp.counters.ended.add_alone();
        });
        if may_stop(scheduler) {
            memory.0.with_mut(|_| ());
        }
        visitor.join().unwrap();
        lwp.join().unwrap();
    });
}

#[test]
fn a_runtime_ends_after_its_last_visit() {
    a_visit(Scheduler::may_stop);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_runtime_ends_without_taking_the_lock() {
    a_visit(|scheduler| scheduler.live_threads() == 0 && !scheduler.life.has_visitors());
}
