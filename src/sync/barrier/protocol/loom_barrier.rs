//! The barrier: two rounds, and a party that withdraws.

use std::sync::Arc;

use super::{Arrival, RELEASED, ROUND_SHIFT};
use crate::park::current::current;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Green, Letter, Outcomes, body, both_outcomes, deadline, model, model_within, on, spawn_with, together,
};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Woken};
use crate::shim::atomic::Ordering;
use crate::shim::strike;
use crate::sync::Barrier;

#[repr(align(2048))]
struct Meeting {
    barrier: Barrier,
    /// Each party writes one before the barrier, and reads all after it.
    letters: [Letter; 3],
}

impl Meeting {
    fn new(parties: usize) -> Arc<Self> {
        let meeting = Arc::new(Self { barrier: Barrier::new(parties), letters: Default::default() });
        // Creates all of loom's objects before the threads start.
        assert!(meeting.barrier.protocol.word.is_in(0));
        assert_eq!((0..3).map(|writer| meeting.read(writer)).sum::<u32>(), 0);
        meeting
    }

    fn write(&self, me: usize, text: u32) {
        self.letters[me].write(text);
    }

    fn read(&self, writer: usize) -> u32 {
        self.letters[writer].read()
    }
}

fn party(me: usize, parties: usize) -> impl FnOnce(&Meeting) + Send {
    move |meeting| {
        meeting.write(me, 1);
        meeting.barrier.wait();
        assert_eq!((0..parties).map(|writer| meeting.read(writer)).sum::<u32>(), parties as u32);
    }
}

#[test]
fn no_thread_goes_on_before_all_have_come() {
    // Two preemptions make some hundred thousands of orders here.
    model_within(1, || {
        let meeting = Meeting::new(3);
        together([0, 1, 2].map(|me| body(&meeting, party(me, 3))));
    });
}

#[test]
fn green_and_kernel_threads_meet() {
    model(|| {
        let meeting = Meeting::new(2);
        let green = Green::new();
        let other = spawn_with((meeting.clone(), green.clone()), move |(meeting, green)| {
            on(green.thread(), || party(1, 2)(&meeting))
        });
        together([body(&meeting, party(0, 2))]);
        other.join().unwrap();
    });
}

/// Plays two rounds of two parties, which pass the barrier by `wait`.
fn two_rounds(wait: fn(&Barrier)) {
    let meeting = Meeting::new(2);
    let rounds = move |me: usize| {
        move |meeting: &Meeting| {
            for round in 1..=2 {
                meeting.write(me, round);
                wait(&meeting.barrier);
                // The other is in this round, and writes for the next one only after it has seen us pass.
                assert_eq!(meeting.read(1 - me), round);
                wait(&meeting.barrier);
            }
        }
    };
    together([body(&meeting, rounds(0)), body(&meeting, rounds(1))]);
}

#[test]
fn rounds_do_not_mix() {
    model(|| {
        two_rounds(|barrier| {
            barrier.wait();
        });
    });
}

/// A last arrival begins the next round before it takes the bucket lock. It may take threads of the next
/// round off the queue too, and they go on too early.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_next_round_before_the_lock() {
    model(|| {
        two_rounds(|barrier| match barrier.protocol.word.arrive(barrier.protocol.parties) {
            Arrival::Waits { round } => {
                let options = Options::new(WaitReason::Barrier, Wait::forever());
                let _ = wait_queue::wait(
                    barrier.protocol.key(),
                    &options,
                    || barrier.protocol.word.is_in(round),
                    || (),
                );
            }
            Arrival::Last(full) => {
                assert!(barrier.protocol.word.next_round(full));
                wait_queue::grant_all(barrier.protocol.key(), RELEASED, || true).unwrap().wake_all();
            }
        });
    });
}

#[test]
fn one_that_withdraws_is_not_counted() {
    model(|| {
        let meeting = Meeting::new(2);
        let timed = |meeting: &Meeting| {
            meeting.write(0, 1);
            if meeting.barrier.protocol.pass(Wait::by(deadline())) == Err(WaitError::TimedOut) {
                // Arrives again, so that the other party does not wait forever.
                meeting.barrier.wait();
            }
            assert_eq!(meeting.read(1), 1);
        };
        let clock = loom::thread::spawn(strike);
        together([body(&meeting, timed), body(&meeting, party(1, 2))]);
        clock.join().unwrap();
        assert_eq!(meeting.barrier.protocol.word.0.load(Ordering::Relaxed), 1 << ROUND_SHIFT);
    });
}

#[test]
fn one_that_is_interrupted_is_not_counted() {
    model(|| {
        let meeting = Meeting::new(2);
        let interrupted = |meeting: &Meeting| {
            meeting.write(0, 1);
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            if meeting.barrier.wait_with(Wait::forever().interruptible()).is_err() {
                // Arrives again, so that the other party does not wait forever.
                meeting.barrier.wait();
            }
            assert_eq!(meeting.read(1), 1);
            interrupter.join().unwrap();
        };
        together([body(&meeting, interrupted), body(&meeting, party(1, 2))]);
        assert_eq!(meeting.barrier.protocol.word.0.load(Ordering::Relaxed), 1 << ROUND_SHIFT);
    });
}

/// A party withdraws its arrival when the other party may already be in the next round.
fn a_withdrawal_and_the_next_round(wait_timed: fn(&Barrier) -> bool, seen: &Outcomes) {
    let meeting = Meeting::new(2);
    let seen = seen.clone();
    let timed = move |meeting: &Meeting| {
        let expired = wait_timed(&meeting.barrier);
        seen.saw(expired);
        if expired {
            // Arrives again, so that the other party does not wait forever.
            meeting.barrier.wait();
        }
        meeting.barrier.wait();
    };
    let plain = |meeting: &Meeting| {
        meeting.barrier.wait();
        meeting.barrier.wait();
    };
    let clock = loom::thread::spawn(strike);
    together([body(&meeting, timed), body(&meeting, plain)]);
    clock.join().unwrap();
    assert_eq!(meeting.barrier.protocol.word.0.load(Ordering::Relaxed), 2 << ROUND_SHIFT);
}

#[test]
fn a_withdrawal_is_not_taken_from_the_next_round() {
    both_outcomes(model, |seen| {
        let wait =
            |barrier: &Barrier| barrier.protocol.pass(Wait::by(deadline())) == Err(WaitError::TimedOut);
        a_withdrawal_and_the_next_round(wait, seen);
    });
}

/// A party withdraws an arrival without a look at the round. The other party waits for a party that has
/// arrived already.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_withdrawn_from_any_round() {
    model(|| {
        let wait = |barrier: &Barrier| match barrier.protocol.word.arrive(barrier.protocol.parties) {
            Arrival::Waits { round } => {
                let options = Options::new(WaitReason::Barrier, Wait::by(deadline()));
                let woken = wait_queue::wait(
                    barrier.protocol.key(),
                    &options,
                    || barrier.protocol.word.is_in(round),
                    || (),
                );
                // Relaxed: the bug is not in the ordering.
                let withdraws = matches!(woken, Ok(Woken::Ended { why: WaitError::TimedOut, .. }))
                    && barrier.protocol.word.0.load(Ordering::Relaxed) as u32 != 0;
                if withdraws {
                    barrier.protocol.word.0.fetch_sub(1, Ordering::Relaxed);
                }
                withdraws
            }
            Arrival::Last(full) => {
                if let Some(all) = wait_queue::grant_all(barrier.protocol.key(), RELEASED, || {
                    barrier.protocol.word.next_round(full)
                }) {
                    all.wake_all();
                }
                false
            }
        };
        a_withdrawal_and_the_next_round(wait, &Outcomes::default());
    });
}
