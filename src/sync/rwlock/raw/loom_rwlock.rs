//! Models of the read-write lock: readers against writers, deadlines, interrupts. Negative models leave a
//! step out.

use std::sync::Arc;

use loom::thread::JoinHandle;

use super::super::word::{Mine, Queue, Wish};
use super::{Entry, HANDED_OVER, RawRwLock, options, wait_queue};
use crate::park::current::current;
use crate::park::tests::loom_model::{
    Core, Green, Letter, body, both_outcomes, deadline, large_model, model, on, together,
};
use crate::park::wait::Wait;
use crate::park::wait_queue::Woken;
use crate::park::word_queues;
use crate::shim::strike;

/// A lock, and what it guards.
#[repr(C, align(2048))]
pub(super) struct Guarded {
    pub(super) lock: RawRwLock,
    count: Letter,
}

impl Guarded {
    pub(super) fn new() -> Arc<Self> {
        let guarded = Arc::new(Self { lock: RawRwLock::new(), count: Letter::default() });
        // Creates all of loom's objects before the threads start.
        guarded.lock.acquire(Wish::Write);
        guarded.lock.release(Wish::Write);
        guarded.lock.passing.wakes(1, 0);
        assert_eq!(guarded.look(), 0);
        guarded
    }

    /// Counts an entry. Called by a writer.
    pub(super) fn count(&self) {
        self.count.add_one();
    }

    /// Reads the count. Called by a reader.
    pub(super) fn look(&self) -> u32 {
        self.count.read()
    }

    pub(super) fn writes(&self) {
        self.lock.acquire(Wish::Write);
        self.count();
        self.lock.release(Wish::Write);
    }

    pub(super) fn reads(&self) {
        self.lock.acquire(Wish::Read);
        self.look();
        self.lock.release(Wish::Read);
    }

    /// Checks the end state: the lock is free, and all entries have been counted.
    pub(super) fn ends_with(&self, count: u32) {
        assert_eq!(self.lock.bits(), RawRwLock::new().bits());
        assert_eq!(self.look(), count);
        word_queues::with(self.lock.word.address(), |queues| {
            assert!((0..word_queues::QUEUES).all(|queue| queues.first(queue).is_none()));
        });
    }
}

#[test]
fn writers_exclude_each_other() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::writes), body(&guarded, Guarded::writes)]);
        guarded.ends_with(2);
    });
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::reads), body(&guarded, Guarded::writes)]);
        guarded.ends_with(1);
    });
}

#[test]
fn two_readers_and_a_writer() {
    large_model(|| {
        let guarded = Guarded::new();
        let reads = || body(&guarded, Guarded::reads);
        together([body(&guarded, Guarded::writes), reads(), reads()]);
        guarded.ends_with(1);
    });
}

#[test]
fn two_writers_and_a_reader() {
    large_model(|| {
        let guarded = Guarded::new();
        let writes = || body(&guarded, Guarded::writes);
        together([body(&guarded, Guarded::reads), writes(), writes()]);
        guarded.ends_with(2);
    });
}

#[test]
fn green_threads_and_kernel_threads() {
    large_model(|| {
        let guarded = Guarded::new();
        let greens = [(); 2].map(|()| Green::new());
        let runs: [fn(&Guarded); 2] = [Guarded::reads, Guarded::writes];
        let others = [0, 1].map(|n| {
            let (guarded, green, run) = (guarded.clone(), greens[n].clone(), runs[n]);
            loom::thread::spawn(move || on(green.thread(), || run(&guarded)))
        });
        together([body(&guarded, Guarded::writes)]);
        others.into_iter().for_each(|other| other.join().unwrap());
        guarded.ends_with(2);
    });
}

/// Starts a thread. Its core must outlive all threads of the model.
pub(super) fn start<R: 'static>(
    guarded: &Arc<Guarded>,
    run: impl FnOnce(&Guarded) -> R + Send + 'static,
) -> (Core, JoinHandle<R>) {
    let (core, guarded) = (Core::new(), guarded.clone());
    let thread = core.thread();
    (core, loom::thread::spawn(move || on(thread, || run(&guarded))))
}

/// A thread that gives up at any moment is not counted, and the other is not forgotten.
fn gives_up(other: fn(&Guarded), timed: fn(&Guarded) -> bool, changes: [u32; 2]) {
    both_outcomes(model, move |seen| {
        let guarded = Guarded::new();
        let clock = loom::thread::spawn(strike);
        let (core, timed) = start(&guarded, timed);
        let me = Core::new();
        on(me.thread(), || other(&guarded));
        let expired = !timed.join().unwrap();
        clock.join().unwrap();
        drop(core);
        guarded.ends_with(changes[0] + if expired { 0 } else { changes[1] });
        seen.saw(expired);
    });
}

#[test]
fn a_writer_and_a_deadline() {
    let timed = |guarded: &Guarded| {
        let locked = guarded.lock.acquire_with(Wish::Write, Wait::by(deadline())).is_ok();
        if locked {
            guarded.count();
            guarded.lock.release(Wish::Write);
        }
        locked
    };
    gives_up(Guarded::writes, timed, [1, 1]);
    gives_up(Guarded::reads, timed, [0, 1]);
}

#[test]
fn a_reader_and_a_deadline() {
    gives_up(
        Guarded::writes,
        |guarded| {
            let locked = guarded.lock.acquire_with(Wish::Read, Wait::by(deadline())).is_ok();
            if locked {
                guarded.look();
                guarded.lock.release(Wish::Read);
            }
            locked
        },
        [1, 0],
    );
}

/// An interrupt and a grant at once: whether or not the thread is in, the lock is left as it should be.
#[test]
fn an_interrupt_forgets_no_waiter() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new();
        let (core, other) = start(&guarded, |guarded| {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            let locked = guarded.lock.acquire_with(Wish::Write, Wait::forever().interruptible()).is_ok();
            if locked {
                guarded.count();
                guarded.lock.release(Wish::Write);
            }
            interrupter.join().unwrap();
            locked
        });
        let me = Core::new();
        on(me.thread(), || guarded.reads());
        let locked = other.join().unwrap();
        drop(core);
        guarded.ends_with(u32::from(locked));
        seen.saw(!locked);
    });
}

/// A writer announces itself without the queue lock, and queues later: a thread that leaves in between
/// finds no waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_announced_before_the_lock() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            let lock = &guarded.lock;
            while lock.try_enter(Wish::Write, Mine::NOTHING) != Entry::In {
                if lock.word.announce(Wish::Write, Mine::NOTHING) {
                    let options = options(Wait::forever());
                    let ended = wait_queue::wait(lock.key(Queue::Writers), &options, || true, || ());
                    assert!(matches!(ended, Ok(Woken::Granted(_))));
                    lock.word.give_up_way(Mine::WOKEN);
                }
            }
            guarded.count();
            lock.release(Wish::Write);
        };
        together([body(&guarded, Guarded::reads), body(&guarded, wrong)]);
    });
}

/// A woken waiter does not give `WOKEN` up when it comes in: threads that leave believe forever that it
/// is on its way. (Or until it is late, but no model lasts that long.)
#[test]
#[should_panic(expected = "deadlock")]
fn negative_woken_for_ever() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            let lock = &guarded.lock;
            while lock.try_enter(Wish::Write, Mine::NOTHING) != Entry::In {
                let announce = || lock.word.announce(Wish::Write, Mine::NOTHING);
                let options = options(Wait::forever());
                if let Ok(Woken::Granted(token)) =
                    wait_queue::wait(lock.key(Queue::Writers), &options, announce, || ())
                {
                    assert_ne!(token, HANDED_OVER);
                }
            }
            guarded.count();
            lock.release(Wish::Write);
        };
        together([(); 3].map(|()| body(&guarded, wrong)));
    });
}

/// A reader that reads again comes in while a writer waits.
#[test]
fn a_reader_reads_again() {
    model(|| {
        let guarded = Guarded::new();
        let twice = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Read);
            let before = guarded.look();
            guarded.lock.acquire(Wish::ReadAgain);
            assert_eq!(guarded.look(), before);
            guarded.lock.release(Wish::Read);
            guarded.lock.release(Wish::Read);
        };
        together([body(&guarded, twice), body(&guarded, Guarded::writes)]);
        guarded.ends_with(1);
    });
}

/// A reader that reads again by the plain form waits for the writer that waits for it.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_reader_reads_again_by_the_plain_form() {
    model(|| {
        let guarded = Guarded::new();
        let twice = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Read);
            guarded.lock.acquire(Wish::Read);
            guarded.lock.release(Wish::Read);
            guarded.lock.release(Wish::Read);
        };
        together([body(&guarded, twice), body(&guarded, Guarded::writes)]);
    });
}
