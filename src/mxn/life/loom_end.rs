//! When a runtime may be freed: after its last thread, and after the last outside thread that touched it.

use std::sync::Arc;

use loom::thread::JoinHandle;

use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::tests::Model;
use crate::mxn::timer::NEVER;
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::UnsafeCell;
use crate::shim::atomic::{Ordering, fence};
use crate::shim::poll_set::{self, Events};

/// What is freed when a runtime ends: read by threads that touch it, written by the one that frees it.
struct Memory(UnsafeCell<()>);

// SAFETY: this is what the models are to show. Loom reports an access that is not ordered.
unsafe impl Sync for Memory {}
// SAFETY: loom checks it.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Arc<Self> {
        let memory = Self(UnsafeCell::new(()));
        memory.touch();
        Arc::new(memory)
    }

    fn touch(&self) {
        self.0.with(|_| ());
    }

    fn free(&self) {
        self.0.with_mut(|_| ());
    }
}

/// Models an outside thread that makes the last thread runnable. That runs and ends before the outside thread
/// has left the scheduler.
fn the_last_thread(counted: bool) {
    model(move || {
        let model = Model::new(1, 0, 1);
        let memory = Memory::new();
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        scheduler.life.count_spawn();
        scheduler.life.close();
        let lwp = loom::thread::spawn(move || {
            if scheduler.inject.pop(0, |_| ()).is_some() {
                // As `reap`.
                lwp.counters.ended.add_alone();
            }
        });
        let visitor = {
            let memory = memory.clone();
            // As `ready_elsewhere`.
            loom::thread::spawn(move || {
                if counted {
                    scheduler.life.enter();
                }
                scheduler.inject.push(green.ptr());
                memory.touch();
                if counted {
                    scheduler.life.leave();
                }
            })
        };
        if scheduler.may_stop() {
            memory.free();
        }
        lwp.join().unwrap();
        visitor.join().unwrap();
    });
}

#[test]
fn a_runtime_ends_after_its_last_visitor() {
    the_last_thread(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_visitors_are_not_counted() {
    the_last_thread(false);
}

/// Models a thread on one LWP that spawns another and ends. The other ends on a second LWP.
fn a_family_ends(live: fn(&'static Scheduler) -> u64) {
    model(move || {
        let model = Model::new(2, 0, 1);
        let memory = Memory::new();
        let (scheduler, first, second, child) = (model.scheduler, model.lwp(0), model.lwp(1), model.green(0));
        scheduler.life.count_spawn();
        let parent = spawn_with(memory.clone(), move |memory| {
            first.counters.spawned.add_alone();
            scheduler.inject.push(child.ptr());
            memory.touch();
            first.counters.ended.add_alone();
        });
        let other = spawn_with(memory.clone(), move |memory| {
            if scheduler.inject.pop(0, |_| ()).is_some() {
                memory.touch();
                second.counters.ended.add_alone();
            }
        });
        if live(scheduler) == 0 {
            memory.free();
        }
        parent.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn no_thread_is_left_when_the_counts_agree() {
    a_family_ends(Scheduler::live_threads);
}

/// Spawns are read first: a thread that is spawned and ends in between makes up for one that lives.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_spawns_are_counted_before_ends() {
    a_family_ends(|scheduler| {
        let sum = |counter: fn(&Lwp) -> u64| scheduler.pool.lwps().map(counter).sum::<u64>();
        let spawned = sum(|lwp| lwp.counters.spawned.get());
        let spawned = spawned + scheduler.life.spawned_elsewhere.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        spawned.saturating_sub(sum(|lwp| lwp.counters.ended.get()))
    });
}

/// Models two idle LWPs after their last look, and a monitor that ends the runtime and cannot ring. `ring` is
/// the reserve's part. One LWP may go to the set when the other has left it.
fn two_that_may_sleep_in_the_set(ring: fn(&'static Scheduler, JoinHandle<()>)) {
    model(move || {
        let model = Model::new(2, 0, 0);
        let scheduler = model.scheduler;
        // All atomics come into being before the threads do.
        scheduler.poller.watch_anew(0, 0).unwrap();
        assert!(scheduler.poller.enter(1).is_some() && scheduler.poller.take_asked() == 0);
        scheduler.poller.leave();
        let _ = scheduler.poller.set().unwrap().look(&mut Events::new());
        let lwps = [0, 1].map(|index| {
            let lwp = model.lwp(index);
            lwp.life.show_tid(1 + index);
            lwp.sleep.prepare();
            scheduler.idle.enter(index, false);
            loom::thread::spawn(move || scheduler.sleep_in_set(lwp, NEVER, &mut Events::new()))
        });
        let monitor = loom::thread::spawn(move || {
            poll_set::leave_table();
            scheduler.stop();
        });
        ring(scheduler, monitor);
        lwps.into_iter().for_each(|lwp| _ = lwp.join().unwrap());
    });
}

#[test]
fn the_bell_is_rung_after_all_lwps_were_told() {
    two_that_may_sleep_in_the_set(|scheduler, monitor| {
        monitor.join().unwrap();
        scheduler.ring();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_bell_is_rung_while_lwps_are_told() {
    two_that_may_sleep_in_the_set(|scheduler, monitor| {
        while !scheduler.life.is_stopping() {
            loom::thread::yield_now();
        }
        scheduler.ring();
        monitor.join().unwrap();
    });
}
