//! Models of a future that is woken while its thread polls it, goes to sleep, gives up, or has gone. Negative
//! models forget a wake-up after the poll, wait without a last look, leave a word alone that says woken, or
//! overwrite a wake-up.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::{WOKEN, WakeWord};
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper};
use crate::park::tests::loom_model::{Body, Core, Green, Letter, Outcomes, deadline, model, on};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::strike;

/// What is awaited: so many events. Each writes a letter, and then wakes.
struct Events {
    letters: [Letter; 2],
    come: [AtomicU32; 2],
}

/// What a negative model does in another way.
#[derive(Clone, Copy)]
struct Wrong {
    take: fn(&WakeWord) -> bool,
    wait: fn(&WakeWord, Wait) -> Result<(), WaitError>,
    wake: fn(&Arc<WakeWord>),
    /// Set if the wake-up is forgotten after the poll.
    forgets: bool,
}

const RIGHT: Wrong =
    Wrong { take: WakeWord::take, wait: WakeWord::wait, wake: Wake::wake_by_ref, forgets: false };

impl Events {
    fn new() -> Arc<Self> {
        let none = || AtomicU32::new(0);
        let this = Arc::new(Self { letters: Default::default(), come: [none(), none()] });
        // Creates all of loom's objects before the threads start.
        this.come.iter().for_each(|come| assert_eq!(come.load(Ordering::Relaxed), 0));
        this.letters.iter().for_each(|letter| assert_eq!(letter.read(), 0));
        this
    }

    /// An event. Only the wake-up orders it.
    fn comes(&self, n: usize) {
        self.letters[n].write(1);
        self.come[n].store(1, Ordering::Relaxed);
    }

    /// Polls: returns `true` if the first `of` have come.
    fn poll(&self, of: usize) -> bool {
        self.come[..of].iter().all(|come| come.load(Ordering::Relaxed) == 1)
    }

    /// Does what `block_on` does.
    fn block_on(&self, of: usize, word: &WakeWord, wrong: Wrong, wait: Wait) -> Result<(), WaitError> {
        while !self.poll(of) {
            if wrong.forgets {
                word.0.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
            if !(wrong.take)(word) {
                (wrong.wait)(word, wait)?;
                (wrong.take)(word);
            }
        }
        Ok(())
    }
}

fn word() -> Arc<WakeWord> {
    let word = Arc::new(WakeWord::new());
    assert!(!word.take());
    word
}

/// Runs `waits` as the thread `me`, and each of the others as a kernel thread.
fn beside(me: ThreadRef, others: Vec<Body>, waits: impl FnOnce()) {
    let cores: Vec<_> = others.iter().map(|_| Core::new()).collect();
    let bodies = others.into_iter().zip(cores.iter().map(Core::thread));
    let threads: Vec<_> = bodies.map(|(body, core)| loom::thread::spawn(move || on(core, body))).collect();
    on(me, waits);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The event of this number, which wakes.
fn event(events: &Arc<Events>, word: &Arc<WakeWord>, n: usize, wrong: Wrong) -> Body {
    let (events, word) = (Arc::clone(events), Arc::clone(word));
    Box::new(move || {
        events.comes(n);
        (wrong.wake)(&word);
    })
}

/// One event comes, and one thread waits for it.
fn one_event(me: ThreadRef, wrong: Wrong) {
    let (events, word) = (Events::new(), word());
    beside(me, vec![event(&events, &word, 0, wrong)], || {
        events.block_on(1, &word, wrong, Wait::forever()).unwrap();
    });
}

#[test]
fn a_kernel_thread_is_woken() {
    model(|| {
        let me = Core::new();
        one_event(me.thread(), RIGHT);
    });
}

#[test]
fn a_green_thread_is_woken() {
    model(|| {
        let me = Green::new();
        one_event(me.thread(), RIGHT);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_wake_up_is_forgotten_after_the_poll() {
    model(|| {
        let me = Core::new();
        one_event(me.thread(), Wrong { forgets: true, ..RIGHT });
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    let wait = |word: &WakeWord, wait| {
        let sleeper = Sleeper::new();
        let how = How { reason: WaitReason::Future, wait, spin: true };
        let no_preempt = NoPreempt::hold();
        word.0.store(std::ptr::from_ref(&sleeper).cast_mut(), Ordering::Release);
        let _ = sleeper.sleep(&no_preempt, &how, 0, || false);
        Ok(())
    };
    model(move || {
        let me = Core::new();
        one_event(me.thread(), Wrong { wait, ..RIGHT });
    });
}

/// Two threads wake. The poll after each wake-up sees what was written before it.
fn two_events(wrong: Wrong) {
    let (me, events, word) = (Core::new(), Events::new(), word());
    let others = (0..2).map(|n| event(&events, &word, n, wrong)).collect();
    beside(me.thread(), others, || {
        events.block_on(2, &word, wrong, Wait::forever()).unwrap();
    });
}

#[test]
fn two_threads_wake_at_once() {
    model(|| two_events(RIGHT));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_waker_leaves_a_word_alone_that_says_woken() {
    let wake = |word: &Arc<WakeWord>| {
        if word.0.load(Ordering::Relaxed) != WOKEN {
            word.wake_by_ref();
        }
    };
    model(move || two_events(Wrong { wake, ..RIGHT }));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_wake_up_is_overwritten() {
    let take = |word: &WakeWord| {
        let woken = word.0.load(Ordering::Acquire) == WOKEN;
        if woken {
            word.0.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        woken
    };
    model(move || two_events(Wrong { take, ..RIGHT }));
}

/// What was written before a wake-up is read after it, by a thread that reads nothing else.
#[test]
fn a_wake_up_orders() {
    model(|| {
        let (me, events, word) = (Core::new(), Events::new(), word());
        beside(me.thread(), vec![event(&events, &word, 0, RIGHT)], || {
            word.wait(Wait::forever()).unwrap();
            assert!(word.take());
            assert_eq!(events.letters[0].read(), 1);
        });
    });
}

/// The deadline comes at the moment of the wake-up. Then the thread waits again.
fn gives_up(me: ThreadRef, clock: Body, outcomes: &Outcomes) {
    let (events, word) = (Events::new(), word());
    beside(me, vec![event(&events, &word, 0, RIGHT), clock], || {
        let expired = events.block_on(1, &word, RIGHT, Wait::by(deadline())).is_err();
        outcomes.saw(expired);
        if expired {
            events.block_on(1, &word, RIGHT, Wait::forever()).unwrap();
        }
    });
}

#[test]
fn a_kernel_thread_gives_up() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let me = Core::new();
        gives_up(me.thread(), Box::new(strike), &outcomes);
    });
    seen.are_both();
}

#[test]
fn a_green_thread_gives_up() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let me = Green::new();
        let timer = Arc::clone(&me);
        gives_up(me.thread(), Box::new(move || timer.fire()), &outcomes);
    });
    seen.are_both();
}

/// A waker is called after the thread has gone on, when its frame is gone.
#[test]
fn a_waker_comes_late() {
    model(|| {
        let (me, events, word) = (Core::new(), Events::new(), word());
        let late = Waker::from(Arc::clone(&word));
        let first = event(&events, &word, 0, RIGHT);
        beside(me.thread(), vec![first, Box::new(move || late.wake())], || {
            events.block_on(1, &word, RIGHT, Wait::forever()).unwrap();
            drop(word);
        });
    });
}
