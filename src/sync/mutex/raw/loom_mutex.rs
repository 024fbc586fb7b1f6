//! Models of the mutex: two and three threads, deadlines, hand-over. Negative models leave out the
//! release, or the end of `WOKEN`.

use std::sync::Arc;

use loom::sync::mpsc::{Sender, channel};

use super::{
    HANDED_OVER, LOCKED, RawMutex, TRY_AGAIN, WAITERS, WOKEN, WaitReason, Woken, company, wait_queue,
};
use crate::park::current::current;
use crate::park::tests::loom_model::{
    Green, Letter, Outcomes, body, both_outcomes, deadline, large_model, model, model_within, on, spawn_with,
    together,
};
use crate::park::wait::Wait;
use crate::park::wait_queue::Options;
use crate::shim::atomic::Ordering;
use crate::shim::{MAX_SKIPPED_WAKES, MODEL_STRIDE, bucket_of, make_a_crowd, strike};

/// A lock, and what it guards.
#[derive(Default)]
#[repr(align(2048))]
struct Guarded {
    mutex: RawMutex,
    count: Letter,
}

impl Guarded {
    fn new() -> Arc<Self> {
        let guarded: Arc<Self> = Arc::default();
        // Creates all of loom's objects before the threads start.
        guarded.section();
        guarded.count.write(0);
        guarded
    }

    /// Runs the critical section.
    fn section(&self) {
        self.mutex.acquire();
        self.count.add_one();
        self.mutex.release();
    }

    /// Runs it twice, so that the second entry may pass a thread that was woken.
    fn twice(&self) {
        self.section();
        self.section();
    }

    /// Checks the end state: the lock is free, and all entries have been counted.
    fn ends_with(&self, count: u32) {
        assert_eq!(self.mutex.word.0.load(Ordering::Relaxed) & LOCKED, 0);
        assert_eq!(self.count.read(), count);
        assert!(wait_queue::grant_one(self.mutex.key(), |_| HANDED_OVER).is_none());
    }
}

#[test]
fn two_threads_exclude_each_other() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::section), body(&guarded, Guarded::section)]);
        guarded.ends_with(2);
    });
}

#[test]
fn three_threads_exclude_each_other() {
    large_model(|| {
        let guarded = Guarded::new();
        together([(); 3].map(|()| body(&guarded, Guarded::section)));
        guarded.ends_with(3);
    });
}

/// One thread takes the lock twice, so it may pass the woken one.
#[test]
fn barging_loses_no_waiter() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::twice), body(&guarded, Guarded::section)]);
        guarded.ends_with(3);
    });
}

/// As two of the models above, of threads that yield to each other before they sleep. The negative twin is
/// `negative_woken_for_ever`.
#[test]
fn threads_that_take_turns_exclude_each_other() {
    make_a_crowd();
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::twice), body(&guarded, Guarded::section)]);
        guarded.ends_with(3);
    });
    large_model(|| {
        let guarded = Guarded::new();
        together([(); 3].map(|()| body(&guarded, Guarded::section)));
        guarded.ends_with(3);
    });
}

#[test]
fn green_threads_exclude_each_other_and_kernel_threads() {
    large_model(|| {
        let guarded = Guarded::new();
        let greens = [(); 2].map(|()| Green::new());
        let others = greens.clone().map(|green| {
            spawn_with(guarded.clone(), move |guarded| on(green.thread(), || guarded.section()))
        });
        together([body(&guarded, Guarded::section)]);
        for other in others {
            other.join().unwrap();
        }
        guarded.ends_with(3);
    });
}

/// A thread is interrupted while it waits, beside two that wait to the end.
#[test]
fn an_interrupt_forgets_no_waiter() {
    both_outcomes(
        |body| model_within(1, body),
        |seen| {
            let guarded = Guarded::new();
            let seen = seen.clone();
            let interruptible = move |guarded: &Guarded| {
                let me = current();
                let interrupter = loom::thread::spawn(move || me.interrupt());
                let locked = Wait::forever().interruptible().run(|wait| guarded.mutex.acquire_with(wait));
                seen.saw(locked.is_err());
                if locked.is_ok() {
                    guarded.mutex.release();
                }
                interrupter.join().unwrap();
            };
            let others = [(); 2].map(|()| body(&guarded, Guarded::section));
            let [one, two] = others;
            together([one, body(&guarded, interruptible), two]);
            guarded.ends_with(2);
        },
    );
}

/// A thread was woken, and is late: the owner's `unlock` forgets it. A third thread may queue meanwhile.
fn one_is_late(unlock: fn(&Guarded), seen: &Outcomes) {
    let guarded = Guarded::new();
    guarded.mutex.acquire();
    guarded.mutex.word.0.fetch_or(WOKEN, Ordering::Relaxed);
    guarded.mutex.queued.0.store(MAX_SKIPPED_WAKES, Ordering::Relaxed);
    let seen = seen.clone();
    let late = move |guarded: &Guarded| {
        seen.saw(guarded.mutex.word.look() & WOKEN == 0);
        guarded.mutex.acquire_after(TRY_AGAIN);
        guarded.count.add_one();
        guarded.mutex.release();
    };
    together([body(&guarded, unlock), body(&guarded, late), body(&guarded, Guarded::section)]);
    guarded.ends_with(2);
    assert_eq!(guarded.mutex.word.0.load(Ordering::Relaxed), 0, "no thread waits or is on its way");
}

/// The thread that was forgotten clears the bit of another, or none.
#[test]
fn a_late_waiter_is_forgotten_and_no_other() {
    both_outcomes(large_model, |seen| one_is_late(|guarded| guarded.mutex.release(), seen));
}

/// An unlock forgets the late waiter by a store: it also forgets a waiter that has queued since the look.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_forgotten_by_a_store() {
    model(|| {
        let unlock = |guarded: &Guarded| {
            if guarded.mutex.word.look() & WAITERS == 0 {
                guarded.mutex.queued.set(false);
                guarded.mutex.word.store(0);
            } else {
                guarded.mutex.release();
            }
        };
        one_is_late(unlock, &Outcomes::default());
    });
}

/// A waiter is woken to compete for the lock, is interrupted, and keeps `WOKEN`: the other waiter sleeps on.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_interrupted_on_its_way() {
    model(|| {
        let guarded = Guarded::new();
        guarded.mutex.acquire();
        let gives_up = |guarded: &Guarded| {
            let options = Options::new(WaitReason::Mutex, Wait::by(None).interruptible());
            if let Ok(Woken::Granted(token)) =
                wait_queue::wait(guarded.mutex.key(), &options, || guarded.mutex.announce(0), || ())
                && token == HANDED_OVER
            {
                guarded.mutex.release();
            }
        };
        let unlocks = |guarded: &Guarded| guarded.mutex.release();
        together([body(&guarded, unlocks), body(&guarded, gives_up), body(&guarded, Guarded::section)]);
    });
}

/// Two locks with their waiters in one bucket: each unlock finds its own waiter.
#[test]
fn two_locks_share_a_bucket() {
    #[derive(Default)]
    #[repr(align(2048))]
    struct Pair([RawMutex; 2]);

    large_model(|| {
        let pair: Arc<Pair> = Arc::default();
        let section = |mutex: &RawMutex| {
            mutex.acquire();
            mutex.release();
        };
        pair.0.iter().for_each(section);
        assert_eq!(bucket_of(pair.0[0].key()), bucket_of(pair.0[1].key()));
        let both = |pair: &Pair| {
            pair.0.iter().for_each(RawMutex::acquire);
            pair.0.iter().for_each(RawMutex::release);
        };
        together([
            body(&pair, both),
            body(&pair, move |pair| section(&pair.0[0])),
            body(&pair, move |pair| section(&pair.0[1])),
        ]);
        assert!(pair.0.iter().all(|mutex| mutex.word.look() & LOCKED == 0));
    });
}

#[test]
fn a_fair_unlock_hands_over() {
    large_model(|| {
        let guarded = Guarded::new();
        let fair = |guarded: &Guarded| {
            guarded.mutex.acquire();
            guarded.count.add_one();
            guarded.mutex.release_fair();
        };
        together([body(&guarded, fair), body(&guarded, fair), body(&guarded, Guarded::section)]);
        guarded.ends_with(3);
    });
}

/// One thread gives up at any moment, and neither of the others is forgotten.
#[test]
fn a_deadline_forgets_no_waiter() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new();
        let gave_up = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let timed = {
            let gave_up = gave_up.clone();
            move |guarded: &Guarded| {
                if guarded.mutex.acquire_with(Wait::by(deadline())).is_ok() {
                    guarded.count.add_one();
                    guarded.mutex.release();
                } else {
                    gave_up.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let clock = loom::thread::spawn(strike);
        together([body(&guarded, Guarded::section), body(&guarded, timed)]);
        clock.join().unwrap();
        guarded.ends_with(2 - gave_up.load(Ordering::Relaxed));
        seen.saw(gave_up.load(Ordering::Relaxed) == 1);
        assert_eq!(guarded.mutex.word.0.load(Ordering::Relaxed) & WOKEN, 0, "no waiter is on its way");
    });
}

impl Guarded {
    fn call_key(&self) -> usize {
        self.mutex.key() + MODEL_STRIDE
    }

    /// Waits to be called, and then takes the lock. Lets `next` begin before it sleeps.
    fn called_section(&self, next: &Sender<()>) {
        let options = Options::new(WaitReason::Condvar, Wait::forever());
        let woken = wait_queue::wait(self.call_key(), &options, || true, || next.send(()).unwrap());
        let Ok(Woken::Granted(token)) = woken else { unreachable!("no deadline and no interrupt") };
        self.mutex.acquire_after(token);
        self.count.add_one();
        self.mutex.release();
    }

    /// Moves the two threads that wait to be called to the lock, which the caller has.
    fn call(&self) {
        let announce = |_| {
            assert!(!self.mutex.announce_or_take());
            true
        };
        assert_eq!(wait_queue::requeue(self.call_key(), self.mutex.key(), announce), 2);
    }
}

/// Two threads queue to be called, one after the other. Then the caller comes, which has the lock.
fn two_are_called(caller: fn(&Guarded)) {
    let guarded = Guarded::new();
    guarded.mutex.acquire();
    let ((first_is_there, second), (both_are_there, third)) = (channel(), channel());
    together([
        body(&guarded, move |guarded| guarded.called_section(&first_is_there)),
        body(&guarded, move |guarded| {
            second.recv().unwrap();
            guarded.called_section(&both_are_there);
        }),
        body(&guarded, move |guarded| {
            third.recv().unwrap();
            caller(guarded);
        }),
    ]);
    guarded.ends_with(2);
    assert_eq!(guarded.mutex.word.0.load(Ordering::Relaxed), 0, "no thread waits or is on its way");
}

/// The unlock wakes the moved threads together, and one of them owns `WOKEN`.
#[test]
fn moved_waiters_exclude_each_other() {
    large_model(|| {
        two_are_called(|guarded| {
            guarded.call();
            guarded.mutex.release();
        });
    });
}

/// An unlock wakes one of them, and says that there are no others.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_moved_waiters_left_behind() {
    model(|| {
        two_are_called(|guarded| {
            guarded.call();
            let (key, room) = (guarded.mutex.key(), || 0);
            let granted = wait_queue::grant_batch(key, 0, room, company::leaves, |found| {
                assert!(found.is_some_and(|found| found.more));
                guarded.mutex.queued.set(false);
                guarded.mutex.word.store(WOKEN);
                TRY_AGAIN
            });
            let (grant, company) = granted.unwrap();
            grant.wake();
            assert_eq!(company.wake_all(), 0);
        });
    });
}

/// An unlock orders nothing: the next owner sees the count half made.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_unlock_without_release() {
    model(|| {
        let guarded = Guarded::new();
        let unordered = |guarded: &Guarded| {
            guarded.mutex.acquire();
            guarded.count.add_one();
            let released =
                guarded.mutex.word.0.compare_exchange(LOCKED, 0, Ordering::Relaxed, Ordering::Relaxed);
            if released.is_err() {
                guarded.mutex.release();
            }
        };
        together([body(&guarded, unordered), body(&guarded, Guarded::section)]);
    });
}

/// A woken waiter does not give `WOKEN` up when it takes the lock: unlockers believe forever that it is
/// on its way.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_woken_for_ever() {
    fn acquire(mutex: &RawMutex) {
        loop {
            let seen = mutex.word.look();
            if seen & LOCKED == 0 {
                if mutex.word.try_take(seen, 0) {
                    return;
                }
                continue;
            }
            let mut options = Options::new(WaitReason::Mutex, Wait::forever());
            options.spin = false;
            if let Ok(Woken::Granted(token)) =
                wait_queue::wait(mutex.key(), &options, || mutex.word.announce_waiter(0), || ())
            {
                assert_ne!(token, HANDED_OVER);
            }
        }
    }
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            acquire(&guarded.mutex);
            guarded.count.add_one();
            guarded.mutex.release();
        };
        together([(); 3].map(|()| body(&guarded, wrong)));
    });
}

/// A waiter announces itself without the bucket lock, and queues later: the unlock in between finds no
/// waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_announced_before_the_lock() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            while !guarded.mutex.try_acquire() {
                if guarded.mutex.word.announce_waiter(0) {
                    let options = Options::new(WaitReason::Mutex, Wait::forever());
                    let queue = wait_queue::wait(guarded.mutex.key(), &options, || true, || ());
                    assert!(matches!(queue, Ok(Woken::Granted(_))));
                    guarded.mutex.word.0.fetch_and(!WOKEN, Ordering::Relaxed);
                }
            }
            guarded.count.add_one();
            guarded.mutex.release();
        };
        together([body(&guarded, Guarded::section), body(&guarded, wrong)]);
    });
}

/// Checks the bits that the models above rely on.
#[test]
fn bits_are_distinct() {
    assert_eq!(LOCKED | WAITERS | WOKEN, LOCKED ^ WAITERS ^ WOKEN);
}
