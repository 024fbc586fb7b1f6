//! Models of the wait group's word: the last to leave, a member that comes late, and one that gives up.
//!
//! Members are counted by hand: the value that does so is in an `Arc`, and a model must not depend on its
//! address.

use std::sync::Arc;

use super::Members;
use crate::park::current::current;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Green, Letter, body, both_outcomes, deadline, large_model, model, model_within, on, spawn_with, together,
};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options};
use crate::shim::strike;

/// A group, and a letter by each of its members.
#[repr(align(2048))]
struct Group {
    members: Members,
    letters: [Letter; 2],
}

impl Group {
    fn new(members: usize) -> Arc<Self> {
        let group = Arc::new(Self { members: Members::one(), letters: Default::default() });
        // Creates all of loom's objects before the threads start.
        (1..members).for_each(|_| group.members.join());
        assert_eq!(group.members.count(), members);
        assert_eq!(group.read(0) + group.read(1), 0);
        group
    }

    fn write(&self, me: usize) {
        self.letters[me].write(1);
    }

    fn read(&self, writer: usize) -> u32 {
        self.letters[writer].read()
    }

    /// Leaves, and waits for the others.
    fn wait(&self) {
        self.members.leave();
        self.members.wait(Wait::forever()).unwrap();
    }

    fn ends(&self) {
        assert_eq!(self.members.count(), 0);
        let left = wait_queue::grant_all(self.members.key(), super::GONE, || true);
        assert!(left.is_none_or(|left| left.wake_all() == 0), "left in the queue");
    }
}

fn member(me: usize) -> impl FnOnce(&Group) + Send {
    move |group| {
        group.write(me);
        group.members.leave();
    }
}

fn waits_for(all: usize) -> impl FnOnce(&Group) + Send {
    move |group| {
        group.wait();
        assert_eq!((0..all).map(|writer| group.read(writer)).sum::<u32>(), all as u32);
    }
}

#[test]
fn one_waits_for_one() {
    model(|| {
        let group = Group::new(2);
        together([body(&group, waits_for(1)), body(&group, member(0))]);
        group.ends();
    });
}

#[test]
fn one_waits_for_two() {
    large_model(|| {
        let group = Group::new(3);
        together([body(&group, waits_for(2)), body(&group, member(0)), body(&group, member(1))]);
        group.ends();
    });
}

#[test]
fn two_wait_for_each_other_and_a_third() {
    // Three threads at one bucket lock: with two preemptions there is no end of orders to try.
    model_within(1, || {
        let group = Group::new(3);
        together([body(&group, waits_for(1)), body(&group, waits_for(1)), body(&group, member(0))]);
        group.ends();
    });
}

#[test]
fn a_green_thread_waits_for_a_kernel_thread() {
    model(|| {
        let group = Group::new(2);
        let green = Green::new();
        let other = spawn_with((group.clone(), green.clone()), move |(group, green)| {
            on(green.thread(), || waits_for(1)(&group))
        });
        together([body(&group, member(0))]);
        other.join().unwrap();
        group.ends();
    });
}

/// A member makes another, and leaves before it.
#[test]
fn a_thread_that_comes_late_is_waited_for() {
    large_model(|| {
        let group = Group::new(2);
        let makes_another = |group: &Group| {
            group.members.join();
            group.write(0);
            group.members.leave();
            group.write(1);
            group.members.leave();
        };
        together([body(&group, waits_for(2)), body(&group, makes_another)]);
        group.ends();
    });
}

/// A thread that gives up is a member again, and the other waits for it.
#[test]
fn a_waiter_that_gives_up_is_waited_for() {
    both_outcomes(model, |seen| {
        let group = Group::new(2);
        let seen = seen.clone();
        let timed = move |group: &Group| {
            group.members.leave();
            let ended = group.members.wait(Wait::by(deadline()));
            if ended == Err(WaitError::TimedOut) {
                group.write(0);
                group.members.leave();
            } else {
                // The other has left, perhaps without a wake-up.
                assert_eq!(group.read(1), 1);
            }
            seen.saw(ended.is_err());
        };
        let other = |group: &Group| {
            group.write(1);
            group.wait();
            // Written before, or never.
            group.read(0);
        };
        let clock = loom::thread::spawn(strike);
        together([body(&group, timed), body(&group, other)]);
        clock.join().unwrap();
        group.ends();
    });
}

#[test]
fn an_interrupted_caller_is_waited_for() {
    both_outcomes(model, |seen| {
        let group = Group::new(2);
        let seen = seen.clone();
        let interrupted = move |group: &Group| {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            group.members.leave();
            let ended = group.members.wait(Wait::forever().interruptible());
            if ended == Err(WaitError::Interrupted) {
                group.write(0);
                group.members.leave();
            } else {
                assert_eq!(group.read(1), 1);
            }
            interrupter.join().unwrap();
            seen.saw(ended.is_err());
        };
        let other = |group: &Group| {
            group.write(1);
            group.wait();
            group.read(0);
        };
        together([body(&group, interrupted), body(&group, other)]);
        group.ends();
    });
}

/// A thread gives up and adds itself, whatever the count. The other has seen none left, and reads what
/// this one writes.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_back_from_zero() {
    use crate::shim::atomic::{AtomicUsize, Ordering};
    model(|| {
        let group = Group::new(2);
        let timed = |group: &Group| {
            group.members.leave();
            // SAFETY: the only field.
            let word = unsafe { &*std::ptr::from_ref(&group.members).cast::<AtomicUsize>() };
            word.fetch_add(super::MEMBER, Ordering::Relaxed);
            group.write(0);
            group.members.leave();
        };
        let other = |group: &Group| {
            group.wait();
            group.read(0);
        };
        together([body(&group, timed), body(&group, other)]);
    });
}

/// A waiter looks, and then queues without a last look.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    model(|| {
        let group = Group::new(2);
        let wrong = |group: &Group| {
            group.members.leave();
            if group.members.announce() {
                let forever = Options::new(WaitReason::WaitGroup, Wait::forever());
                let _ = wait_queue::wait(group.members.key(), &forever, || true, || ());
            }
        };
        together([body(&group, wrong), body(&group, member(0))]);
    });
}

/// The leaving of a member orders nothing.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_leave_without_release() {
    use crate::shim::atomic::{AtomicUsize, Ordering};
    model(|| {
        let group = Group::new(2);
        let unordered = |group: &Group| {
            group.write(0);
            // SAFETY: the only field.
            let word = unsafe { &*std::ptr::from_ref(&group.members).cast::<AtomicUsize>() };
            if word.fetch_sub(super::MEMBER, Ordering::Relaxed) == super::MEMBER | super::WAITERS {
                group.members.last_has_left();
            }
        };
        together([body(&group, waits_for(1)), body(&group, unordered)]);
    });
}
