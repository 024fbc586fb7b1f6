//! A running thread makes several others runnable at once. Each is found once, and no LWP sleeps on.

use super::Scheduler;
use crate::mxn::green::Green;
use crate::mxn::tests::Model;
use crate::park::priority::Priority;
use crate::park::tests::loom_model::{model_within, on};
use crate::shim::strike;

type Ready = fn(&'static Scheduler, &'static Green, &mut dyn Iterator<Item = &'static Green>) -> usize;

/// Models a thread that computes on and wakes three others, one of them of priority `level`, while the other
/// LWP goes to sleep. That LWP naps. If another is said to watch, it sleeps until it is woken.
fn several_are_woken(level: Priority, watched: bool, ready: Ready) {
    model_within(1, move || {
        let model = Model::new(2, 0, 4);
        let (scheduler, idler, busy) = (model.scheduler, model.lwp(0), model.lwp(1));
        let (waker, wakees) = (model.green(0), [model.green(1), model.green(2), model.green(3)]);
        waker.lwp.set(Some(busy));
        wakees[1].core.priority.set(level);
        if watched {
            // The role is taken, and no LWP naps.
            assert!(scheduler.idle.watch());
        }
        let clock = loom::thread::spawn(strike);
        let idler = loom::thread::spawn(move || {
            loop {
                if let Some(green) = scheduler.pick(idler).or_else(|| scheduler.search(idler)) {
                    return green;
                }
            }
        });
        let mut others = wakees[1..].iter().copied();
        let others = on(waker.thread(), || ready(scheduler, wakees[0], &mut others));
        assert_eq!(others, 2);
        let mut found = vec![idler.join().unwrap()];
        clock.join().unwrap();
        // What the idler has stolen beside the thread that it runs is in its own ring.
        for lwp in [busy, model.lwp(0)] {
            found.extend(std::iter::from_fn(|| scheduler.pick(lwp)));
        }
        for wakee in wakees {
            let times = found.iter().filter(|green| std::ptr::eq(**green, wakee)).count();
            assert_eq!(times, 1, "found so many times");
        }
        assert_eq!((scheduler.idle.look().sleeping, scheduler.idle.look().searching), (0, 0));
    });
}

#[test]
fn several_that_are_woken_at_once_are_found() {
    several_are_woken(Priority::Normal, false, |scheduler, first, others| {
        scheduler.ready_behind(first, || others.next())
    });
}

#[test]
fn several_of_different_priorities_that_are_woken_at_once_are_found() {
    several_are_woken(Priority::High, false, |scheduler, first, others| {
        scheduler.ready_behind(first, || others.next())
    });
}

/// All go into the ring, no LWP is woken for them, and none watches.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_several_are_queued_in_silence() {
    several_are_woken(Priority::Normal, true, |scheduler, first, others| {
        let lwp = scheduler.here().unwrap().1;
        lwp.queue.ring.push(first.ptr()).unwrap();
        others.map(|green| lwp.queue.ring.push(green.ptr()).unwrap()).count()
    });
}
