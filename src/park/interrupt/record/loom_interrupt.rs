//! An interrupt against a grant, against a deadline, and against a thread that goes to sleep. With kernel
//! threads and green threads, in every kind of sleep.

use std::ptr;
use std::sync::Arc;

use super::SleepRef;
use crate::park::backend::Sleep;
use crate::park::interrupt::take;
use crate::park::permit::{park, sleep, unpark};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Core, Green, Letter, Outcomes, both_outcomes, deadline, model, model_within, on, spawn_with,
};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{Options, Token, Woken, grant_one, wait};
use crate::shim::atomic::Ordering;
use crate::shim::strike;
use crate::time::Moment;

const TOKEN: Token = Token(1);

/// A key to wait on, and what an interrupter makes visible.
#[derive(Default)]
#[repr(C, align(2048))]
struct WaitPoint {
    letter: Letter,
}

impl WaitPoint {
    fn new() -> Arc<Self> {
        let point = Arc::new(Self::default());
        // It must exist before the threads do.
        point.letter.read();
        point
    }

    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn write(&self) {
        self.letter.add_one();
    }

    fn read(&self) {
        assert_eq!(self.letter.read(), 1);
    }
}

/// Waits on the point.
fn queue(point: &WaitPoint, deadline: Option<Moment>) -> Result<(), WaitError> {
    Wait::by(deadline).interruptible().run(|how| {
        match wait(point.key(), &Options::new(WaitReason::Mutex, how), || true, || ()).unwrap() {
            Woken::Granted(token) => {
                assert_eq!(token, TOKEN);
                Ok(())
            }
            Woken::Ended { why, moved } => {
                assert!(!moved);
                Err(why)
            }
        }
    })
}

/// Returns a wait that only an interrupt ends.
fn endless() -> Wait {
    Wait::forever().interruptible()
}

/// Returns `true` if an interrupt has ended the wait.
fn is_interrupted(wait: impl FnOnce(Wait) -> Result<(), WaitError>) -> bool {
    endless().run(wait) == Err(WaitError::Interrupted)
}

/// A thread is interrupted while it goes to a sleep that nothing else ends. It returns, and sees what the
/// interrupter did.
fn a_sleep_ends(thread: ThreadRef, sleep: impl FnOnce(&WaitPoint) -> bool) {
    let point = WaitPoint::new();
    let other = spawn_with(Arc::clone(&point), move |point| {
        point.write();
        thread.interrupt();
    });
    on(thread, || {
        assert!(sleep(&point), "not interrupted");
        point.read();
        assert!(!thread.is_interrupted());
    });
    other.join().unwrap();
    assert!(grant_one(point.key(), |_| TOKEN).is_none(), "left in the queue");
}

macro_rules! of_both_kinds {
    ($($name:ident: $sleep:expr;)*) => {
        mod a_kernel_thread_is_interrupted {
            use super::*;
            $(#[test]
            fn $name() {
                model(|| {
                    let core = Core::new();
                    a_sleep_ends(core.thread(), $sleep);
                });
            })*
        }
        mod a_green_thread_is_interrupted {
            use super::*;
            $(#[test]
            fn $name() {
                model(|| {
                    let green = Green::new();
                    a_sleep_ends(green.thread(), $sleep);
                });
            })*
        }
    };
}

of_both_kinds! {
    in_a_queue: |point| queue(point, None) == Err(WaitError::Interrupted);
    in_park: |_| is_interrupted(|wait| park(|| wait, WaitReason::Park));
    in_its_sleep: |_| is_interrupted(sleep);
    in_join: |_| {
        let endless = Core::new();
        is_interrupted(|wait| endless.thread().wait_done(wait))
    };
}

/// An interrupter looks for a sleep before it sets the flag, without the lock. A thread that comes in
/// between sleeps forever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_look_before_flag() {
    model(|| {
        let green = Green::new();
        let thread = green.thread();
        let other = loom::thread::spawn(move || {
            let interrupt = &thread.core().interrupt;
            if interrupt.record.with(|record| record.0).is_null() {
                interrupt.flag.set();
            } else {
                thread.interrupt();
            }
        });
        on(thread, || assert!(is_interrupted(sleep)));
        other.join().unwrap();
    });
}

/// A thread does not look at the flag again when it enters its sleep into the record.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_second_look() {
    model(|| {
        let green = Green::new();
        a_sleep_ends(green.thread(), |_| {
            struct Endless(crate::shim::atomic::AtomicU32);
            impl Sleep for Endless {
                fn word(&self) -> &crate::shim::atomic::AtomicU32 {
                    &self.0
                }
                fn is_asleep(&self) -> bool {
                    self.0.load(Ordering::Acquire) == 0
                }
                fn commit_kernel(&self) -> Option<u32> {
                    unreachable!("a green thread")
                }
                fn expire(&self) -> bool {
                    unreachable!("no deadline")
                }
                fn interrupt(&self) -> bool {
                    self.0.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                }
            }
            if take() {
                return true;
            }
            let me = crate::park::current::current();
            let sleep = Endless(crate::shim::atomic::AtomicU32::from(0));
            let sleep_ref = SleepRef(&sleep);
            me.core().interrupt.record.with(|record| record.0 = ptr::from_ref(&sleep_ref).cast());
            me.backend().block(&me, &sleep, None, WaitReason::Sleep);
            me.core().interrupt.leave();
            take()
        });
    });
}

/// One thread waits, one grants, and one interrupts. Each sleep is ended once, and no grant or interrupt is
/// lost.
fn a_grant_and_an_interrupt(
    thread: ThreadRef,
    seen: &Outcomes,
    wait: impl Fn(&WaitPoint) -> Result<(), WaitError>,
    grant: impl FnOnce(&WaitPoint) -> bool + Send + 'static,
) {
    let point = WaitPoint::new();
    let granter = spawn_with(Arc::clone(&point), move |point| grant(&point));
    let interrupter = loom::thread::spawn(move || thread.interrupt());
    let outcome = on(thread, || wait(&point));
    let granted = granter.join().unwrap();
    interrupter.join().unwrap();
    match outcome {
        // The interrupt is still there for the next wait.
        Ok(()) => assert!(granted && thread.is_interrupted()),
        Err(why) => assert!(why == WaitError::Interrupted && !thread.is_interrupted()),
    }
    seen.saw(outcome.is_err());
}

/// Grants one waiter if there is one.
fn grant(point: &WaitPoint) -> bool {
    grant_one(point.key(), |_| TOKEN).map(crate::park::wait_queue::Grant::wake).is_some()
}

#[test]
fn a_grant_and_an_interrupt_of_a_kernel_thread_have_one_winner() {
    // Three threads at one lock spin. With two preemptions there are too many orders to try.
    both_outcomes(
        |body| model_within(1, body),
        |seen| {
            let core = Core::new();
            a_grant_and_an_interrupt(core.thread(), seen, |point| queue(point, None), grant);
        },
    );
}

#[test]
fn a_grant_and_an_interrupt_of_a_green_thread_have_one_winner() {
    both_outcomes(model, |seen| {
        let green = Green::new();
        a_grant_and_an_interrupt(green.thread(), seen, |point| queue(point, None), grant);
    });
}

#[test]
fn an_unpark_and_an_interrupt_of_a_kernel_thread_have_one_winner() {
    both_outcomes(model, |seen| {
        let core = Core::new();
        let thread = core.thread();
        let post = move |_: &WaitPoint| {
            unpark(thread);
            true
        };
        a_grant_and_an_interrupt(
            thread,
            seen,
            |_| endless().run(|wait| park(|| wait, WaitReason::Park)),
            post,
        );
        // A token that was not taken is still there.
        let wait = Wait::by(deadline()).interruptible();
        let _ = on(thread, || wait.run(|wait| park(|| wait, WaitReason::Park)));
    });
}

#[test]
fn an_unpark_and_an_interrupt_of_a_green_thread_have_one_winner() {
    both_outcomes(model, |seen| {
        let green = Green::new();
        let thread = green.thread();
        let post = move |_: &WaitPoint| {
            unpark(thread);
            true
        };
        let wait = |_: &WaitPoint| endless().run(|wait| park(|| wait, WaitReason::Park));
        a_grant_and_an_interrupt(thread, seen, wait, post);
    });
}

#[test]
fn an_end_and_an_interrupt_of_its_joiner_have_one_winner() {
    both_outcomes(model, |seen| {
        let (joiner, ending) = (Green::new(), Core::new());
        let other = ending.thread();
        let end = move |_: &WaitPoint| {
            assert!(!other.finish(), "it is not detached");
            true
        };
        let wait = |_: &WaitPoint| endless().run(|wait| other.wait_done(wait));
        a_grant_and_an_interrupt(joiner.thread(), seen, wait, end);
    });
}

/// An interrupter ignores the answer if it has won.
#[test]
#[should_panic(expected = "woken twice")]
fn negative_interrupt_that_does_not_ask_for_the_winner() {
    model(|| {
        let green = Green::new();
        let (thread, point) = (green.thread(), WaitPoint::new());
        let sleeper = spawn_with(Arc::clone(&point), move |point| on(thread, || queue(&point, None)));
        let interrupter = loom::thread::spawn(move || {
            let interrupt = &thread.core().interrupt;
            let slept = interrupt.record.with(|record| {
                interrupt.flag.set();
                // SAFETY: the record is locked, and the sleeper cannot leave without that lock.
                let sleep_ref = unsafe { record.0.as_ref() }?;
                let _ = sleep_ref.0.interrupt();
                Some(())
            });
            if slept.is_some() {
                thread.backend().wake(thread, ptr::null());
            }
        });
        grant(&point);
        let _ = sleeper.join().unwrap();
        interrupter.join().unwrap();
    });
}

#[test]
fn a_deadline_and_an_interrupt_of_a_kernel_thread_have_one_winner() {
    both_outcomes(model, |seen| {
        let (core, point) = (Core::new(), WaitPoint::new());
        let thread = core.thread();
        let clock = loom::thread::spawn(strike);
        let interrupter = loom::thread::spawn(move || thread.interrupt());
        let outcome = on(thread, || queue(&point, deadline()));
        clock.join().unwrap();
        interrupter.join().unwrap();
        let interrupted = outcome == Err(WaitError::Interrupted);
        assert!(interrupted != thread.is_interrupted());
        seen.saw(interrupted);
        assert!(grant_one(point.key(), |_| TOKEN).is_none(), "left in the queue");
    });
}

#[test]
fn a_deadline_and_an_interrupt_of_a_green_thread_have_one_winner() {
    both_outcomes(model, |seen| {
        let (green, point) = (Green::new(), WaitPoint::new());
        let thread = green.thread();
        let timer = spawn_with(Arc::clone(&green), move |green| green.fire());
        let interrupter = loom::thread::spawn(move || thread.interrupt());
        let outcome = on(thread, || queue(&point, deadline()));
        timer.join().unwrap();
        interrupter.join().unwrap();
        let interrupted = outcome == Err(WaitError::Interrupted);
        assert!(interrupted != thread.is_interrupted());
        seen.saw(interrupted);
        assert!(grant_one(point.key(), |_| TOKEN).is_none(), "left in the queue");
    });
}

#[test]
fn a_deadline_and_an_interrupt_of_a_sleeper_have_one_winner() {
    both_outcomes(model, |seen| {
        let green = Green::new();
        let thread = green.thread();
        let timer = spawn_with(Arc::clone(&green), move |green| green.fire());
        let interrupter = loom::thread::spawn(move || thread.interrupt());
        let outcome = on(thread, || Wait::by(deadline()).interruptible().run(sleep));
        timer.join().unwrap();
        interrupter.join().unwrap();
        assert!(outcome.is_err() != thread.is_interrupted());
        seen.saw(outcome.is_err());
    });
}

/// What an interrupter did is visible to a thread that only looks.
#[test]
fn a_look_at_an_interrupt_sees_what_the_interrupter_did() {
    model(|| {
        let (point, core) = (WaitPoint::new(), Core::new());
        let (theirs, thread) = (Arc::clone(&point), core.thread());
        assert!(!thread.core().is_interrupted());
        let interrupter = loom::thread::spawn(move || {
            theirs.write();
            thread.interrupt();
        });
        if thread.core().is_interrupted() {
            point.read();
        }
        interrupter.join().unwrap();
    });
}
