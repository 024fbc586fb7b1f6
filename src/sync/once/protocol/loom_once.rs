//! Models of `Once` and `OnceLock`: one closure of several, one that fails, waiters that give up.
//! Negative models leave out the release, or the last look.

use std::sync::Arc;

use super::{Options, Phase};
use crate::park::current::current;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Green, Letter, both_outcomes, deadline, large_model, model, model_within, on, spawn_with, together,
};
use crate::park::wait::Wait;
use crate::park::wait_queue;
use crate::shim::strike;
use crate::sync::{Once, OnceLock, OnceState};

/// Returns the options of an endless wait.
fn endless() -> Options {
    Options::new(WaitReason::Once, Wait::forever())
}

/// Something to be done once, and what is done then.
#[repr(align(2048))]
struct Work {
    once: Once,
    done: Letter,
}

impl Work {
    fn new() -> Arc<Self> {
        let work = Arc::new(Self { once: Once::new(), done: Letter::default() });
        // Creates all of loom's objects before the threads start.
        assert!(!work.once.is_completed());
        assert_eq!(work.read(), 0);
        work
    }

    fn write(&self) {
        self.done.add_one();
    }

    fn read(&self) -> u32 {
        self.done.read()
    }

    fn call(&self) {
        self.once.call_once(|| self.write());
        assert_eq!(self.read(), 1);
    }

    /// Calls a closure that fails, unless one has failed before; then it succeeds.
    fn call_in_vain_first(&self) {
        let called = self.once.call_as("work", true, Wait::forever(), |state: &OnceState| {
            self.write();
            if !state.is_poisoned() {
                state.fail();
            }
        });
        called.unwrap();
    }

    fn wait(&self) {
        self.once.wait_force();
        assert!(self.read() > 0);
    }

    fn ends_with(&self, times: u32) {
        assert_eq!(self.read(), times);
        assert!(self.once.is_completed());
        let left = wait_queue::grant_all(self.once.protocol.key(), super::ENDED, || true);
        assert!(left.is_none_or(|left| left.wake_all() == 0), "left in the queue");
    }
}

type Body = Box<dyn FnOnce() + Send>;

fn body(work: &Arc<Work>, run: impl FnOnce(&Work) + Send + 'static) -> Body {
    let work = work.clone();
    Box::new(move || run(&work))
}

#[test]
fn one_of_two_does_it() {
    model(|| {
        let work = Work::new();
        together([(); 2].map(|()| body(&work, Work::call)));
        work.ends_with(1);
    });
}

#[test]
fn one_of_three_does_it() {
    large_model(|| {
        let work = Work::new();
        together([(); 3].map(|()| body(&work, Work::call)));
        work.ends_with(1);
    });
}

#[test]
fn a_green_or_a_kernel_thread_does_it() {
    model(|| {
        let work = Work::new();
        let green = Green::new();
        let other = spawn_with((work.clone(), green.clone()), move |(work, green)| {
            on(green.thread(), || work.call())
        });
        together([body(&work, Work::call)]);
        other.join().unwrap();
        work.ends_with(1);
    });
}

/// The first closure fails, whichever it is, and the other thread does the work again. The thread that
/// waits for success sees it.
#[test]
fn a_call_that_fails_leaves_it_to_the_next() {
    model(|| {
        let work = Work::new();
        together([(); 2].map(|()| body(&work, Work::call_in_vain_first)));
        work.ends_with(2);
    });
}

/// One thread fails twice. The other may look after the first failure, and begin after the second.
#[test]
fn a_thread_that_begins_after_two_failures_sees_both() {
    model(|| {
        let work = Work::new();
        let fails = |work: &Work| {
            let called = work.once.call_as("work", true, Wait::forever(), |state: &OnceState| {
                work.write();
                state.fail();
            });
            called.unwrap();
        };
        let twice = move |work: &Work| {
            fails(work);
            fails(work);
        };
        let succeeds = |work: &Work| {
            work.once.call_as("work", true, Wait::forever(), |_| work.write()).unwrap();
        };
        together([body(&work, twice), body(&work, succeeds)]);
        assert!((1..=3).contains(&work.read()) && work.once.is_completed());
    });
}

#[test]
fn a_wait_for_success_is_not_ended_by_a_failure() {
    large_model(|| {
        let work = Work::new();
        let waits = |work: &Work| {
            work.wait();
            assert_eq!(work.read(), 2);
        };
        let twice = |work: &Work| {
            work.call_in_vain_first();
            work.call_in_vain_first();
        };
        together([body(&work, waits), body(&work, twice)]);
        work.ends_with(2);
    });
}

#[test]
fn a_wait_before_any_call_has_begun_is_woken() {
    // Three threads at one bucket lock: with two preemptions there is no end of orders to try.
    model_within(1, || {
        let work = Work::new();
        together([body(&work, Work::wait), body(&work, Work::wait), body(&work, Work::call)]);
        work.ends_with(1);
    });
}

#[test]
fn a_deadline_ends_a_wait_and_nothing_else() {
    both_outcomes(model, |seen| {
        let work = Work::new();
        let seen = seen.clone();
        let timed = move |work: &Work| {
            let done = work.once.protocol.wait("work", true, Wait::by(deadline())).is_ok();
            if done {
                work.read();
            }
            seen.saw(!done);
        };
        let clock = loom::thread::spawn(strike);
        together([body(&work, timed), body(&work, Work::call)]);
        clock.join().unwrap();
        work.ends_with(1);
    });
}

#[test]
fn an_interrupt_ends_a_wait_and_nothing_else() {
    both_outcomes(model, |seen| {
        let work = Work::new();
        let seen = seen.clone();
        let interrupted = move |work: &Work| {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            let result = work.once.wait_with(Wait::forever().interruptible());
            if result.is_ok() {
                work.read();
            }
            interrupter.join().unwrap();
            assert_eq!(result.is_ok(), me.is_interrupted());
            seen.saw(result.is_err());
        };
        together([body(&work, interrupted), body(&work, Work::call)]);
        work.ends_with(1);
    });
}

/// A cell that threads read and write.
#[repr(align(2048))]
struct Cell(OnceLock<u32>);

fn cell_body(cell: &Arc<Cell>, run: impl FnOnce(&OnceLock<u32>) + Send + 'static) -> Body {
    let cell = cell.clone();
    Box::new(move || run(&cell.0))
}

#[test]
fn all_see_one_value() {
    model(|| {
        let cell = Arc::new(Cell(OnceLock::new()));
        assert!(cell.0.get().is_none());
        let sets = |cell: &OnceLock<u32>| {
            let mine = cell.set(1).is_ok();
            assert_eq!(*cell.get().unwrap(), if mine { 1 } else { 2 });
        };
        let makes = |cell: &OnceLock<u32>| {
            let failed = cell.get_or_try_init(|| Err(()));
            assert!(matches!(failed, Ok(1) | Err(())));
            assert!(matches!(cell.get_or_init(|| 2), 1 | 2));
        };
        together([cell_body(&cell, sets), cell_body(&cell, makes)]);
    });
}

#[test]
fn a_look_sees_all_or_nothing() {
    model(|| {
        let cell = Arc::new(Cell(OnceLock::new()));
        assert!(cell.0.get().is_none());
        let looks = |cell: &OnceLock<u32>| assert!(matches!(cell.get(), None | Some(7)));
        let sets = |cell: &OnceLock<u32>| cell.set(7).unwrap();
        together([cell_body(&cell, looks), cell_body(&cell, sets)]);
    });
}

/// The end of a closure orders nothing.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_end_without_release() {
    use crate::shim::atomic::{AtomicUsize, Ordering};
    model(|| {
        let work = Work::new();
        let unordered = |work: &Work| {
            let word = &work.once.protocol.word;
            if word.try_run(word.look(), current().address()) {
                work.write();
                // SAFETY: the word's only field.
                let bits = unsafe { &*std::ptr::from_ref(word).cast::<AtomicUsize>() };
                bits.swap(Phase::Done as usize, Ordering::Relaxed);
            }
        };
        let looks = |work: &Work| {
            if work.once.is_completed() {
                work.read();
            }
        };
        together([body(&work, unordered), body(&work, looks)]);
    });
}

/// The end of a closure looks for waiters before it sets the phase: a waiter that comes in between waits
/// forever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_look_before_the_end() {
    model(|| {
        let work = Work::new();
        let wrong = |work: &Work| {
            let word = &work.once.protocol.word;
            if word.try_run(word.look(), current().address()) {
                work.write();
                let waited = !word.look().is_run_by(current().address());
                let waited = word.end(Phase::Done) && waited;
                if waited
                    && let Some(all) = wait_queue::grant_all(work.once.protocol.key(), super::ENDED, || true)
                {
                    all.wake_all();
                }
            }
        };
        together([body(&work, wrong), body(&work, Work::wait)]);
    });
}

/// A waiter does not look again with the bucket lock held.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    model(|| {
        let work = Work::new();
        let wrong = |work: &Work| {
            while !work.once.is_completed() {
                let _ = work.once.protocol.word.announce(|phase| phase != Phase::Done);
                let _ = wait_queue::wait(work.once.protocol.key(), &endless(), || true, || ());
            }
        };
        together([body(&work, wrong), body(&work, Work::call)]);
    });
}

/// A thread that waits for success takes any wake-up for it.
#[test]
#[should_panic(expected = "woken before it was done")]
fn negative_woken_is_done() {
    model(|| {
        let work = Work::new();
        let wrong = |work: &Work| {
            let waits = |phase| phase != Phase::Done;
            let _ = work.once.protocol.queue(Wait::forever(), waits);
            assert!(work.once.is_completed(), "woken before it was done");
        };
        let twice = |work: &Work| {
            work.call_in_vain_first();
            work.call_in_vain_first();
        };
        together([body(&work, wrong), body(&work, twice)]);
    });
}
