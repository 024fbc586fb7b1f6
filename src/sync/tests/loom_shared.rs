//! The lock between processes: sleepers on its word, of whom one gives up; by one that does not pass its wake-up on, and by one that
//! takes the lock after its sleep as if it were the only one.
//!
//! No clock strikes here, so that naps do not end, and nothing but a wake-up ends a sleep.

use std::sync::Arc;

use super::{ASLEEP, Condition, Me, RawMutex, RawRobust, RobustError, owner_of, process, shared_futex};
use crate::park::tests::loom_model::{Body, Core, Letter, Outcomes, body, model_within, on};
use crate::park::thread::ThreadRef;

/// A lock, and what it guards.
#[derive(Default)]
#[repr(align(2048))]
struct Guarded {
    lock: RawMutex,
    count: Letter,
}

impl Guarded {
    fn new() -> Arc<Self> {
        // All comes into being before the threads do.
        process::this();
        let guarded: Arc<Self> = Arc::default();
        let first = Core::new();
        on(first.thread(), || guarded.section());
        guarded.count.write(0);
        guarded
    }

    fn section(&self) {
        assert_eq!(self.lock.lock(), Ok(Condition::Sound));
        self.count_and_unlock();
    }

    fn count_and_unlock(&self) {
        self.count.add_one();
        self.lock.unlock().unwrap();
    }
}

/// One has the lock, and the others come; it interrupts the first of them, unlocks, and perhaps locks once more. (In a thread of its own:
/// the model's main thread waits for all of them, so that any may begin, and with one preemption two sleep and a third is faster.)
fn play(guarded: &Arc<Guarded>, again: bool, others: [Body; 2]) {
    let owner = Core::new();
    on(owner.thread(), || assert_eq!(guarded.lock.lock(), Ok(Condition::Sound)));
    let cores: Vec<Core> = others.iter().map(|_| Core::new()).collect();
    let first: ThreadRef = cores[0].thread();
    let mut threads: Vec<_> = others
        .into_iter()
        .zip(cores.iter().map(Core::thread))
        .map(|(body, thread)| loom::thread::spawn(move || on(thread, body)))
        .collect();
    let owns = body(guarded, move |guarded| {
        first.interrupt();
        guarded.count_and_unlock();
        if again {
            guarded.section();
        }
    });
    let thread = owner.thread();
    threads.push(loom::thread::spawn(move || on(thread, owns)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!guarded.lock.is_locked());
}

#[test]
fn sleepers_are_woken_one_after_the_other() {
    model_within(1, || {
        let guarded = Guarded::new();
        play(&guarded, false, [(); 2].map(|()| body(&guarded, Guarded::section)));
        assert_eq!(guarded.count.read(), 3);
    });
}

/// It may have been woken, while another sleeps.
#[test]
fn one_that_is_interrupted_passes_its_wake_up_on() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model_within(1, move || {
        let guarded = Guarded::new();
        let seen = seen.clone();
        let interruptible = move |guarded: &Guarded| {
            let locked = guarded.lock.lock_interruptible();
            seen.saw(locked.is_ok());
            match locked {
                Ok(_) => guarded.count_and_unlock(),
                Err(error) => assert_eq!(error, RobustError::Interrupted),
            }
        };
        play(&guarded, true, [body(&guarded, interruptible), body(&guarded, Guarded::section)]);
    });
    outcomes.are_both();
}

/// Sleeps once, if the lock is taken.
fn sleep_once(lock: &RawMutex) {
    let seen = lock.word.look();
    if owner_of(seen) != 0 && lock.word.try_announce(seen) {
        let _ = shared_futex::wait(&lock.word.0, seen | ASLEEP, None);
    }
}

/// One that gives up, and says nothing of its wake-up, though somebody was faster.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_wake_up_kept() {
    model_within(1, || {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| sleep_once(&guarded.lock);
        play(&guarded, true, [body(&guarded, wrong), body(&guarded, Guarded::section)]);
    });
}

/// One that was woken, and takes the lock as who has never slept.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_taken_without_a_word() {
    model_within(1, || {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            sleep_once(&guarded.lock);
            let me = Me::new();
            if guarded.lock.word.try_take(0, me.process.id) {
                assert_eq!(guarded.lock.enter(&me), Ok(Condition::Sound));
                guarded.count_and_unlock();
            }
        };
        play(&guarded, false, [body(&guarded, wrong), body(&guarded, Guarded::section)]);
    });
}
