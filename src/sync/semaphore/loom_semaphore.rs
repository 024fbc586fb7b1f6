//! Models of the semaphore: few and many permits, waiters that give up, priorities. Negative models leave
//! out the release, or the serving.

use std::sync::Arc;

use super::Semaphore;
use super::protocol::SERVED;
use super::word::Queued;
use crate::park::current::current;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Core, Green, Letter, body, both_outcomes, deadline, large_model, model, model_within, on, spawn_with,
    together,
};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Order, Woken};
use crate::shim::strike;
use crate::time::Moment;

/// A semaphore, and a value that a thread with all permits may write, and one with one permit may read.
#[repr(align(2048))]
struct Guarded {
    semaphore: Semaphore,
    count: Letter,
}

impl Guarded {
    fn new(permits: usize) -> Arc<Self> {
        let guarded = Arc::new(Self { semaphore: Semaphore::new(permits), count: Letter::default() });
        // Creates all of loom's objects before the threads start.
        assert_eq!(guarded.semaphore.available_permits(), permits);
        assert_eq!(guarded.read(), 0);
        guarded
    }

    fn write(&self) {
        self.count.add_one();
    }

    fn read(&self) -> u32 {
        self.count.read()
    }

    /// Takes all `n` permits that there are.
    fn alone(&self, n: usize) {
        let _permits = self.semaphore.acquire_many(n);
        self.write();
    }

    /// Takes one of several permits.
    fn among_others(&self) {
        let _permit = self.semaphore.acquire();
        self.read();
    }

    /// Checks the end state: all permits are back.
    fn ends_with(&self, permits: usize, count: u32) {
        assert_eq!(self.read(), count);
        assert!(wait_queue::grant_one(self.semaphore.protocol.key(), |_| SERVED).is_none());
        // It would not give these to any thread if it believed that one waits.
        assert_eq!(self.semaphore.available_permits(), permits);
        self.semaphore.try_acquire_many(permits).expect("no thread waits").forget();
    }
}

#[test]
fn one_permit_excludes_the_other_thread() {
    model(|| {
        let guarded = Guarded::new(1);
        together([(); 2].map(|()| body(&guarded, |guarded| guarded.alone(1))));
        guarded.ends_with(1, 2);
    });
}

#[test]
fn one_permit_excludes_the_other_two() {
    large_model(|| {
        let guarded = Guarded::new(1);
        together([(); 3].map(|()| body(&guarded, |guarded| guarded.alone(1))));
        guarded.ends_with(1, 3);
    });
}

#[test]
fn green_and_kernel_threads_share_permits() {
    model(|| {
        let guarded = Guarded::new(1);
        let green = Green::new();
        let other = spawn_with((guarded.clone(), green.clone()), move |(guarded, green)| {
            on(green.thread(), || guarded.alone(1))
        });
        together([body(&guarded, |guarded| guarded.alone(1))]);
        other.join().unwrap();
        guarded.ends_with(1, 2);
    });
}

/// A thread that wants both permits gets them in the end, and has them alone.
#[test]
fn a_request_for_all_waits_for_the_others_and_they_for_it() {
    large_model(|| {
        let guarded = Guarded::new(2);
        together([
            body(&guarded, |guarded| guarded.alone(2)),
            body(&guarded, Guarded::among_others),
            body(&guarded, Guarded::among_others),
        ]);
        guarded.ends_with(2, 1);
    });
}

/// Permits as signals: two that come one by one are enough for a thread that waits for two.
#[test]
fn permits_add_up() {
    model(|| {
        let guarded = Guarded::new(0);
        let gives = |guarded: &Guarded| {
            guarded.write();
            guarded.semaphore.add_permits(1);
            guarded.semaphore.add_permits(1);
        };
        let takes = |guarded: &Guarded| {
            guarded.semaphore.acquire_many(2).forget();
            assert_eq!(guarded.read(), 1);
        };
        together([body(&guarded, takes), body(&guarded, gives)]);
        guarded.ends_with(0, 1);
    });
}

/// One thread gives up at any moment, and no permit is lost.
#[test]
fn a_deadline_loses_no_permit() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new(0);
        let seen = seen.clone();
        let timed = move |guarded: &Guarded| {
            let taken = guarded.semaphore.protocol.take(1, Wait::by(deadline())).is_ok();
            if taken {
                guarded.semaphore.protocol.give_back(1);
            }
            seen.saw(!taken);
        };
        let clock = loom::thread::spawn(strike);
        together([body(&guarded, timed), body(&guarded, |guarded| guarded.semaphore.add_permits(1))]);
        clock.join().unwrap();
        guarded.ends_with(1, 0);
    });
}

#[test]
fn an_interrupt_loses_no_permit() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new(0);
        let seen = seen.clone();
        let interrupted = move |guarded: &Guarded| {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            let permit = guarded.semaphore.acquire_with(Wait::forever().interruptible());
            seen.saw(permit.is_err());
            interrupter.join().unwrap();
            assert_eq!(permit.is_ok(), me.is_interrupted());
        };
        together([body(&guarded, interrupted), body(&guarded, |guarded| guarded.semaphore.add_permits(1))]);
        guarded.ends_with(1, 0);
    });
}

/// There is one permit. One thread waits for two until the clock strikes, and then does `leave`; the
/// other waits for one.
fn one_behind_another(leave: fn(&Guarded)) {
    let guarded = Guarded::new(1);
    let clock = loom::thread::spawn(strike);
    together([body(&guarded, leave), body(&guarded, |guarded| guarded.alone(1))]);
    clock.join().unwrap();
    guarded.ends_with(1, 1);
}

#[test]
fn a_waiter_that_gives_up_makes_way_for_the_one_behind() {
    model(|| {
        one_behind_another(|guarded| {
            assert!(guarded.semaphore.protocol.take(2, Wait::by(deadline())).is_err())
        });
    });
}

/// Waits for permits that have been claimed, as `wait` does, but without its `before_sleep`, and without
/// an end.
fn waits(semaphore: &Semaphore, n: usize, deadline: Option<Moment>) -> Result<Woken, wait_queue::Invalid> {
    let mut options = Options::new(WaitReason::Semaphore, Wait::by(deadline));
    options.order = Order::Fifo;
    options.demand = n;
    wait_queue::wait(
        semaphore.protocol.key(),
        &options,
        || semaphore.protocol.word.queue(n) != Queued::Met,
        || (),
    )
}

/// A waiter gives up and withdraws its claim. The one behind, for which there is enough, waits forever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_give_up_without_serving() {
    model(|| {
        one_behind_another(|guarded| {
            let semaphore = &guarded.semaphore;
            assert!(!semaphore.protocol.word.take_or_claim(2));
            let ended = waits(semaphore, 2, deadline());
            assert!(matches!(ended, Ok(Woken::Ended { why: WaitError::TimedOut, .. })));
            let give_up = || semaphore.protocol.word.begin(2);
            let granted =
                wait_queue::grant_while(semaphore.protocol.key(), SERVED, give_up, |_, _| false, |_, _| ());
            assert!(granted.is_none());
        });
    });
}

/// There is one permit, and one thread waits for two. The other, of higher priority, wants one, and then
/// adds the second.
fn one_before_another(hurried: ThreadRef, take: fn(&Semaphore)) {
    let guarded = Guarded::new(1);
    let first = Core::new();
    hurried.priority.begin(Priority::High);
    let other = spawn_with(guarded.clone(), move |guarded| {
        on(hurried, || {
            take(&guarded.semaphore);
            guarded.write();
            guarded.semaphore.add_permits(2);
        });
    });
    on(first.thread(), || guarded.alone(2));
    other.join().unwrap();
    guarded.ends_with(2, 2);
}

#[test]
fn a_small_request_before_large_ones_is_served() {
    model(|| {
        let hurried = Core::new();
        one_before_another(hurried.thread(), |semaphore| semaphore.acquire().forget());
    });
}

/// The thread grants itself, between its publication and its sleep.
#[test]
fn a_green_thread_that_comes_before_those_is_served() {
    model(|| {
        let hurried = Green::new();
        one_before_another(hurried.thread(), |semaphore| semaphore.acquire().forget());
    });
}

/// A waiter queues before others, and does not look if there is enough for it.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_look_after_queueing_first() {
    model(|| {
        let hurried = Core::new();
        one_before_another(hurried.thread(), |semaphore| {
            if !semaphore.protocol.word.take_or_claim(1) {
                let _ = waits(semaphore, 1, None);
            }
        });
    });
}

/// Two threads wait for one permit each, and the permits come one by one. What the second has claimed on
/// its way to the queue is missing for the first, until it arrives.
fn two_claims(take: fn(&Semaphore)) {
    let guarded = Guarded::new(0);
    let takes = move |guarded: &Guarded| {
        take(&guarded.semaphore);
        // Gives it to the other thread, in some orders.
        guarded.semaphore.add_permits(1);
    };
    together([
        body(&guarded, |guarded| guarded.semaphore.add_permits(1)),
        body(&guarded, takes),
        body(&guarded, takes),
    ]);
    guarded.ends_with(1, 0);
}

#[test]
fn a_claim_on_its_way_holds_no_other_up() {
    model(|| two_claims(|semaphore| semaphore.acquire().forget()));
}

/// A claim arrives in the queue, and makes way for the one before it, which is not told.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_arrival_without_serving() {
    model(|| {
        two_claims(|semaphore| {
            if !semaphore.protocol.word.take_or_claim(1) {
                let _ = waits(semaphore, 1, None);
            }
        });
    });
}

/// A permit is put back without release: the next thread sees the count half made.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_release_that_orders_nothing() {
    model(|| {
        let guarded = Guarded::new(1);
        let unordered = |guarded: &Guarded| {
            guarded.semaphore.acquire().forget();
            guarded.write();
            if guarded.semaphore.protocol.word.give_unordered(1) {
                guarded.semaphore.protocol.serve(0);
            }
        };
        together([body(&guarded, unordered), body(&guarded, |guarded| guarded.alone(1))]);
    });
}

/// A waiter queues even if there is enough by then.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    model(|| {
        let guarded = Guarded::new(1);
        let wrong = |guarded: &Guarded| {
            let semaphore = &guarded.semaphore;
            if !semaphore.protocol.word.take_or_claim(1) {
                let mut options = Options::new(WaitReason::Semaphore, Wait::forever());
                options.demand = 1;
                let queue = || {
                    let _ = semaphore.protocol.word.queue(1);
                    true
                };
                let ended = wait_queue::wait(semaphore.protocol.key(), &options, queue, || ());
                assert!(matches!(ended, Ok(Woken::Granted(_))));
            }
            guarded.write();
            semaphore.protocol.give_back(1);
        };
        together([body(&guarded, |guarded| guarded.alone(1)), body(&guarded, wrong)]);
    });
}

/// A waiter takes a passed deadline for the end of its wait, whichever party won.
#[test]
#[should_panic(expected = "left: 0")]
fn negative_deadline_that_does_not_ask_for_the_winner() {
    model(|| {
        let guarded = Guarded::new(0);
        let timed = |guarded: &Guarded| {
            // Granted or not, it leaves without a permit.
            let semaphore = &guarded.semaphore;
            if !semaphore.protocol.word.take_or_claim(1) {
                let options = Options::new(WaitReason::Semaphore, Wait::by(deadline()));
                let ended = semaphore.protocol.wait(1, options);
                assert_ne!(ended, Err(WaitError::Interrupted));
            }
        };
        let clock = loom::thread::spawn(strike);
        together([body(&guarded, timed), body(&guarded, |guarded| guarded.semaphore.add_permits(1))]);
        clock.join().unwrap();
        guarded.ends_with(1, 0);
    });
}

/// One thread tries with the bucket lock held, the other takes without it. (Two preemptions are too few
/// to show that they must not both succeed.)
#[test]
fn trying_takes_no_permit_that_another_takes() {
    model_within(3, || {
        let guarded = Guarded::new(0);
        together([
            body(&guarded, |guarded| {
                guarded.semaphore.add_permits(1);
                let _permit = guarded.semaphore.acquire();
                guarded.write();
            }),
            body(&guarded, |guarded| {
                if let Some(_permit) = guarded.semaphore.try_acquire() {
                    guarded.write();
                }
            }),
        ]);
    });
}
