//! LWPs without work, for real: what they look at, how they sleep, what wakes them, and how the runtime ends.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{Scheduler, Slept, deref, policy};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::slots::slot::InHand;
use crate::mxn::tests::Model;
use crate::mxn::timer::Entry;
use crate::park::backend::Sleep;
use crate::park::tests::loom_model::{model, model_within};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{futex, strike};

/// Plays an LWP that dispatches until it has found a thread. It runs that one forever.
fn find(scheduler: &'static Scheduler, lwp: &'static Lwp) -> &'static Green {
    loop {
        if let Some(green) = scheduler.pick(lwp).or_else(|| scheduler.search(lwp)) {
            return green;
        }
    }
}

/// Models an outside thread that makes a thread runnable while the only LWP goes to sleep.
#[test]
fn a_thread_from_outside_is_found() {
    model(|| {
        let model = Model::new(1, 0, 1);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(0), model.green(0));
        let lwp = loom::thread::spawn(move || find(scheduler, lwp));
        scheduler.ready_elsewhere(green);
        assert!(std::ptr::eq(lwp.join().unwrap(), green));
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
    });
}

/// Models a thread that wakes another and computes on. Its wakee is in the next-slot, and no LWP is told. The
/// LWP that naps finds it.
fn a_wakee_beside_a_hog(watched: bool) {
    model(move || {
        let model = Model::new(2, 0, 2);
        let (scheduler, idler, busy) = (model.scheduler, model.lwp(0), model.lwp(1));
        let (hog, wakee) = (model.green(0), model.green(1));
        if watched {
            // The role is taken, although no LWP naps.
            assert!(scheduler.idle.watch());
        }
        let idler = loom::thread::spawn(move || find(scheduler, idler));
        let clock = loom::thread::spawn(strike);
        scheduler.ready_here(hog, busy, wakee);
        assert!(std::ptr::eq(idler.join().unwrap(), wakee));
        clock.join().unwrap();
    });
}

#[test]
fn one_lwp_watches_while_another_runs() {
    a_wakee_beside_a_hog(false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_lwp_watches() {
    a_wakee_beside_a_hog(true);
}

/// Ends a search that has found something.
type Found = fn(&'static Scheduler, &'static Lwp, NonNull<Green>) -> &'static Green;

/// Plays an LWP that searches, without the spinning, until it has found a thread. It runs that one forever.
fn look_and_sleep(scheduler: &'static Scheduler, lwp: &'static Lwp, found: Found) -> &'static Green {
    loop {
        // The second look takes what the first has seen in another LWP's ring.
        for _ in 0..2 {
            if let Some(green) = scheduler.look_around(lwp, 0, 0) {
                return found(scheduler, lwp, green);
            }
        }
        match scheduler.sleep(lwp, true, &mut policy::MIN_NAP.clone()) {
            Slept::Found(green) => return found(scheduler, lwp, green),
            Slept::Woken | Slept::Napped => {}
            Slept::Over => unreachable!("its slot stays"),
        }
    }
}

/// Models one LWP that searches and another that sleeps. Two threads are made runnable from outside. Each
/// keeps its LWP forever. No nap ends, so an LWP sleeps until it is woken.
fn two_from_outside(found: Found) {
    // Two preemptions make millions of orders here.
    model_within(1, move || {
        let model = Model::new(2, 0, 2);
        let (scheduler, lwps) = (model.scheduler, [model.lwp(0), model.lwp(1)]);
        assert!(scheduler.idle.begin_search(2));
        lwps[1].sleep.prepare();
        scheduler.idle.enter(1, false);
        let searcher = loom::thread::spawn(move || look_and_sleep(scheduler, lwps[0], found));
        let sleeper = loom::thread::spawn(move || {
            assert!(lwps[1].wait(None));
            look_and_sleep(scheduler, lwps[1], found)
        });
        scheduler.ready_elsewhere(model.green(0));
        scheduler.ready_elsewhere(model.green(1));
        let ran = [searcher, sleeper].map(|lwp| lwp.join().unwrap());
        assert!(!std::ptr::eq(ran[0], ran[1]), "one thread on two LWPs");
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
    });
}

#[test]
fn each_of_two_threads_from_outside_gets_an_lwp() {
    two_from_outside(Scheduler::found);
}

/// The last to search does not look again, but the waker of the second thread has left that one to it.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_found_without_another_look() {
    two_from_outside(|scheduler, _, green| {
        let _ = scheduler.idle.end_search();
        deref(green)
    });
}

/// The searcher looks, but not at the shared queues.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_found_without_a_look_at_the_shared_queues() {
    two_from_outside(|scheduler, lwp, green| {
        if scheduler.idle.end_search() && !lwp.queue.ring.is_empty() && !scheduler.idle.is_watched() {
            scheduler.wake_searcher();
        }
        deref(green)
    });
}

/// Models the next-slot: its LWP fills it, fills it again, and empties it, while thieves empty it.
#[test]
fn a_next_slot_loses_and_doubles_no_thread() {
    model(|| {
        let model = Model::new(1, 0, 3);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let thieves =
            [(); 2].map(|()| loom::thread::spawn(move || lwp.queue.next.take().into_iter().count()));
        scheduler.ready_here(model.green(0), lwp, model.green(1));
        scheduler.ready_here(model.green(0), lwp, model.green(2));
        let mut found = 0;
        while scheduler.pick(lwp).is_some() {
            found += 1;
        }
        let stolen: usize = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
        assert_eq!(found + stolen, 2);
    });
}

/// Models an LWP that naps because another runs. The other then sleeps too, and then the monitor. The first
/// LWP ends its nap. The monitor must be awake, or soon be.
fn a_nap_ends(end: fn(&'static Scheduler, &'static Lwp)) {
    model(move || {
        let model = Model::new(2, 0, 1);
        let (scheduler, napper) = (model.scheduler, model.lwp(0));
        // If the other sleeps already, a deadline of its own ends the sleep.
        let entry = Entry::new(1 << 40, model.green(0).thread(), &Far);
        // SAFETY: it stays here until it is disarmed.
        unsafe { napper.timers.arm(&entry) };
        // The other has looked round and sleeps deeply. Nothing plays it from here on.
        model.lwp(1).sleep.prepare();
        let monitor = loom::thread::spawn(move || {
            scheduler.idle.enter(1, false);
            scheduler.watch.sleep_deeply(None, || scheduler.may_sleep_deeply());
        });
        let clock = loom::thread::spawn(strike);
        end(scheduler, napper);
        monitor.join().unwrap();
        clock.join().unwrap();
        napper.timers.disarm(&entry);
        assert_eq!(scheduler.idle.look().sleeping, 1);
    });
}

/// A sleep that does not end within the model.
struct Far;

impl Sleep for Far {
    fn word(&self) -> &AtomicU32 {
        unreachable!("only its deadline is of interest")
    }

    fn is_asleep(&self) -> bool {
        true
    }

    fn commit_kernel(&self) -> Option<u32> {
        None
    }

    fn expire(&self) -> bool {
        unreachable!("its deadline is far away")
    }

    fn interrupt(&self) -> bool {
        unreachable!("no thread interrupts it")
    }
}

#[test]
fn a_nap_that_ends_wakes_the_monitor() {
    a_nap_ends(|scheduler, lwp| {
        let slept = scheduler.sleep(lwp, false, &mut policy::MIN_NAP.clone());
        assert!(matches!(slept, Slept::Napped));
    });
}

/// Only the end of a sleep without a nap is told.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_nap_ends_in_silence() {
    a_nap_ends(|scheduler, lwp| {
        lwp.sleep.prepare();
        scheduler.idle.enter(lwp.index, false);
        assert!(!lwp.wait(scheduler.clock.moment(1)));
        assert!(scheduler.idle.leave(lwp.index));
        lwp.sleep.cancel();
    });
}

/// Models an LWP that finds something at its last look, when it is on the list of sleepers already. All
/// others sleep, and the monitor is about to. The monitor must be awake, or soon be.
fn a_last_look_finds(look: fn(&'static Scheduler, &'static Lwp)) {
    model(move || {
        let model = Model::new(2, 0, 1);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        scheduler.inject.push(model.green(0).ptr());
        model.lwp(1).sleep.prepare();
        let monitor = loom::thread::spawn(move || {
            scheduler.idle.enter(1, false);
            scheduler.watch.sleep_deeply(None, || scheduler.may_sleep_deeply());
        });
        look(scheduler, lwp);
        monitor.join().unwrap();
        assert_eq!(scheduler.idle.look().sleeping, 1);
    });
}

#[test]
fn a_last_look_that_finds_something_wakes_the_monitor() {
    a_last_look_finds(|scheduler, lwp| {
        let slept = scheduler.sleep(lwp, false, &mut policy::MIN_NAP.clone());
        assert!(matches!(slept, Slept::Found(_)));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_last_look_finds_something_in_silence() {
    a_last_look_finds(|scheduler, lwp| {
        lwp.sleep.prepare();
        scheduler.idle.enter(lwp.index, false);
        assert!(matches!(scheduler.last_look(lwp), Some(Slept::Found(_))));
        assert!(scheduler.idle.leave(lwp.index));
        lwp.sleep.cancel();
    });
}

/// Models a runtime that ends while one LWP goes to sleep among the idle, and another among the spares.
fn an_end(spares: usize, stop: fn(&'static Scheduler)) {
    model(move || {
        let model = Model::new(1 - spares, spares, 0);
        let scheduler = model.scheduler;
        let lwp = model.lwp(0);
        let lwp = loom::thread::spawn(move || scheduler.dispatch(lwp));
        stop(scheduler);
        lwp.join().unwrap();
    });
}

#[test]
fn an_idle_lwp_sees_the_end() {
    an_end(0, Scheduler::stop);
}

#[test]
fn a_spare_lwp_sees_the_end() {
    an_end(1, Scheduler::stop);
}

fn stop_without_a_fence(scheduler: &'static Scheduler) {
    scheduler.life.stop();
    scheduler.pool.lwps().for_each(|lwp| scheduler.wake_lwp(lwp));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_an_end_without_a_fence() {
    an_end(0, stop_without_a_fence);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_an_end_without_a_fence_for_spares() {
    an_end(1, stop_without_a_fence);
}

/// Models a slot that is handed to a spare, while the runtime may end.
#[test]
fn a_spare_gets_the_slot_that_is_handed_off() {
    model(|| {
        let model = Model::new(0, 1, 0);
        let (scheduler, spare) = (model.scheduler, model.lwp(0));
        let waits = loom::thread::spawn(move || scheduler.wait_for_slot(spare));
        let moved = scheduler.pool.hand_off(|| Some(InHand::first_of_its_life())).is_some();
        if !moved {
            scheduler.stop();
        }
        assert_eq!((waits.join().unwrap(), spare.slot.is_held()), (moved, moved));
    });
}

/// Models a spare that sleeps until a deadline that was armed on it. Another thread would hand it a slot, and
/// finds that it has none.
fn a_spare_with_a_deadline(hand_off_nothing: fn(&'static Scheduler)) {
    model(move || {
        let model = Model::new(0, 1, 1);
        let (scheduler, spare) = (model.scheduler, model.lwp(0));
        let due = Due::new();
        let entry = Entry::new(1, model.green(0).thread(), &*due);
        // SAFETY: it stays here until it has fired.
        unsafe { spare.timers.arm(&entry) };
        let waits = loom::thread::spawn(move || scheduler.wait_for_slot(spare));
        let nothing = loom::thread::spawn(move || hand_off_nothing(scheduler));
        strike();
        due.wait();
        spare.timers.disarm(&entry);
        nothing.join().unwrap();
        scheduler.stop();
        assert!(!waits.join().unwrap());
    });
}

#[test]
fn a_spare_never_sleeps_past_its_deadline() {
    a_spare_with_a_deadline(|scheduler| assert!(scheduler.pool.hand_off(|| None).is_none()));
}

/// The spare is taken off the list, and put back.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_spare_is_taken_off_its_list_for_nothing() {
    a_spare_with_a_deadline(|scheduler| {
        if let Some(spare) = scheduler.pool.take_spare() {
            scheduler.pool.enter_spares(scheduler.pool.lwp(spare));
        }
    });
}

/// A sleep that ends while a thread of the model waits for that.
struct Due(AtomicU32);

impl Due {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::from(0)))
    }

    fn wait(&self) {
        while self.0.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.0, 0, None);
        }
    }
}

impl Sleep for Due {
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    fn commit_kernel(&self) -> Option<u32> {
        None
    }

    fn expire(&self) -> bool {
        self.0.store(1, Ordering::Release);
        futex::wake(&raw const self.0, 1);
        // The thread is not to be run.
        false
    }

    fn interrupt(&self) -> bool {
        unreachable!("no thread interrupts it")
    }
}

/// Models a monitor that believes that an LWP sleeps in the kernel, and moves its slot. Meanwhile the LWP is
/// back and goes to sleep idle. It must not stay on the list of LWPs that sleep with a slot.
fn a_late_compensation(compensate: fn(&'static Scheduler, &'static Lwp) -> bool) {
    model(move || {
        let model = Model::new(1, 1, 0);
        let (scheduler, lwp, spare) = (model.scheduler, model.lwp(0), model.lwp(1));
        spare.sleep.prepare();
        scheduler.pool.enter_spares(spare);
        let back = loom::thread::spawn(move || assert!(scheduler.search(lwp).is_none()));
        assert!(compensate(scheduler, lwp));
        back.join().unwrap();
        assert!(spare.slot.is_held() && !lwp.slot.is_held());
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
    });
}

#[test]
fn an_idle_lwp_that_loses_its_slot_gets_up() {
    a_late_compensation(Scheduler::compensate);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_moving_a_slot_and_nothing_else() {
    a_late_compensation(|scheduler, lwp| scheduler.pool.hand_off(|| lwp.slot.retake_unannounced()).is_some());
}

/// Models `concurrency`, which shrinks while the LWP that is to lose its slot goes to sleep idle.
fn one_slot_less(shrink: fn(&'static Scheduler) -> bool) {
    model(move || {
        let model = Model::new(1, 0, 0);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let back = loom::thread::spawn(move || assert!(scheduler.search(lwp).is_none()));
        assert!(shrink(scheduler));
        back.join().unwrap();
        assert!(!lwp.slot.is_held());
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
    });
}

#[test]
fn an_idle_lwp_gets_up_if_its_slot_is_retired() {
    one_slot_less(Scheduler::shrink);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_retiring_a_slot_and_nothing_else() {
    one_slot_less(|scheduler| {
        let slot = scheduler.pool.lwp(0).slot.retake_unannounced();
        slot.map(InHand::retire).is_some()
    });
}

/// Models a spare that another thread hands a slot while its kernel thread is told to end. It gets one order
/// or the other.
fn a_spare_is_retired(retire: fn(&'static Scheduler, &'static Lwp) -> bool) {
    model(move || {
        let model = Model::new(0, 1, 0);
        let (scheduler, spare) = (model.scheduler, model.lwp(0));
        spare.sleep.prepare();
        scheduler.pool.enter_spares(spare);
        // As at the end of `wait_for_slot`.
        let waits = loom::thread::spawn(move || {
            spare.wait(None);
            (spare.slot.is_held(), spare.sleep.is_retired())
        });
        let monitor = loom::thread::spawn(move || {
            scheduler.pool.hand_off(|| Some(InHand::first_of_its_life())).is_some()
        });
        let retired = retire(scheduler, spare);
        let moved = monitor.join().unwrap();
        assert!(moved != retired, "two orders for one spare, or none");
        assert_eq!(waits.join().unwrap(), (moved, retired));
    });
}

#[test]
fn a_spare_that_ends_gets_no_slot() {
    a_spare_is_retired(|scheduler, spare| {
        let since = spare.life.spare_since();
        scheduler.pool.retire(spare, since)
    });
}

/// Tells the kernel thread to end, but leaves the LWP on the list.
#[test]
#[should_panic(expected = "two orders")]
fn negative_a_spare_is_retired_where_it_lies() {
    a_spare_is_retired(|_, spare| {
        // DISMISSED.
        spare.sleep.retire();
        true
    });
}
