//! Interrupts: what they end, what they leave alone, and which wait gets the error.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::channel::{Select, unbounded};
use selvedge::sync::{Barrier, Condvar, LockWith, Mutex};
use selvedge::thread::{Builder, Interrupted, JoinHandle, Thread};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;

both! {
    every_kind_of_wait_ends,
    bound_and_foreign_threads_are_interrupted,
    the_flag_stays_until_a_wait_reports_it,
    two_interrupts_are_one,
    waits_of_std_take_no_notice,
    what_comes_first_is_kept,
    a_party_that_leaves_is_not_counted,
    an_interrupted_waiter_does_not_eat_a_notification,
    a_mutex_outlives_interrupted_waiters,
    what_was_done_before_is_seen_after,
    an_ended_thread_may_be_interrupted,
    an_interrupt_that_came_before_goes_before_an_end,
    threads_start_without_the_flag,
    a_storm_loses_nothing,
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

#[test]
fn the_error_says_what_it_is() {
    thread::current().interrupt();
    let error: Interrupted = thread::sleep_with(Wait::timeout(LONG).interruptible()).unwrap_err();
    let shown: &dyn Error = &error;
    assert_eq!(shown.to_string(), "the wait was interrupted");
    let error = io::Error::from(error);
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    assert!(error.get_ref().is_some_and(|inner| inner.is::<Interrupted>()));
}

/// What threads that are to be interrupted wait for, in vain.
#[derive(Default)]
struct Vain {
    mutex: Mutex<u32>,
    other: Mutex<()>,
    changed: Condvar,
    two: Option<Barrier>,
}

impl Vain {
    fn new() -> Arc<Self> {
        Arc::new(Self { two: Some(Barrier::new(2)), ..Self::default() })
    }

    fn two(&self) -> &Barrier {
        self.two.as_ref().unwrap()
    }
}

type WaitInVain = fn(&Vain) -> Result<(), WaitError>;

/// Each waits for what does not come; another thread has locked `vain.mutex`.
const WAITS: [(&str, WaitInVain); 21] = [
    ("sleep", |_| sleeping(Wait::timeout(LONG))),
    ("endless sleep", |_| sleeping(Wait::timeout(Duration::MAX))),
    ("park", |_| thread::park_with(Wait::forever().interruptible())),
    ("park with a timeout", |_| thread::park_with(Wait::timeout(LONG).interruptible())),
    ("sleep until a moment", |_| sleeping(Wait::until(Instant::now() + LONG))),
    ("park until a moment", |_| thread::park_with(Wait::until(Instant::now() + LONG).interruptible())),
    ("mutex", |vain| vain.mutex.lock_with(Wait::forever().interruptible()).map(drop)),
    ("mutex with a timeout", |vain| vain.mutex.lock_with(Wait::timeout(LONG).interruptible()).map(drop)),
    ("mutex with a deadline", |vain| {
        vain.mutex.lock_with(Wait::until(Instant::now() + LONG).interruptible()).map(drop)
    }),
    ("condition variable", |vain| {
        vain.changed.wait_with(&mut vain.other.lock(), Wait::forever().interruptible())
    }),
    ("condition variable with a timeout", |vain| {
        vain.changed.wait_with(&mut vain.other.lock(), Wait::timeout(LONG).interruptible())
    }),
    ("barrier", |vain| vain.two().wait_with(Wait::forever().interruptible()).map(drop)),
    ("barrier with a timeout", |vain| vain.two().wait_with(Wait::timeout(LONG).interruptible()).map(drop)),
    ("barrier with a deadline", |vain| {
        vain.two().wait_with(Wait::until(Instant::now() + LONG).interruptible()).map(drop)
    }),
    ("select", |_| selecting(Wait::forever())),
    ("select with a timeout", |_| selecting(Wait::timeout(LONG))),
    ("select with a deadline", |_| selecting(Wait::until(Instant::now() + LONG))),
    ("join with a timeout", |_| joining(Wait::timeout(LONG))),
    ("join with a deadline", |_| joining(Wait::until(Instant::now() + LONG))),
    ("join in a scope", |_| {
        thread::scope(|s| match s.spawn(thread::park).join_with(Wait::timeout(LONG).interruptible()) {
            Ok(_) => Ok(()),
            Err((endless, why)) => {
                endless.thread().unpark();
                endless.join().unwrap();
                Err(why)
            }
        })
    }),
    ("join", |_| joining(Wait::forever())),
];

fn sleeping(wait: Wait) -> Result<(), WaitError> {
    thread::sleep_with(wait.interruptible()).map_err(Into::into)
}

/// Waits for what is not sent.
fn selecting(wait: Wait) -> Result<(), WaitError> {
    let (_s, r) = unbounded::<u32>();
    let mut select = Select::new();
    select.recv(&r);
    select.ready_with(wait.interruptible()).map(drop)
}

/// Waits for a thread that does not end before it is told to.
fn joining(wait: Wait) -> Result<(), WaitError> {
    match thread::spawn(thread::park).join_with(wait.interruptible()) {
        Ok(_) => Ok(()),
        Err((endless, why)) => {
            endless.thread().unpark();
            endless.join().unwrap();
            Err(why)
        }
    }
}

/// Interrupts a thread at moments of all kinds: before it waits, on its way, and asleep.
fn interrupt_soon(thread: &Thread, round: u32) {
    match round % 4 {
        0 => {}
        1 => thread::yield_now(),
        2 => thread::sleep(Duration::from_micros(50)),
        _ => thread::sleep(Duration::from_millis(3)),
    }
    thread.interrupt();
}

fn every_kind_of_wait_ends<L: Leg>() {
    L::new().run(|| {
        let vain = Vain::new();
        let locked = vain.mutex.lock();
        for (what, wait) in WAITS {
            for round in 0..8 {
                let theirs = Arc::clone(&vain);
                let waiter = thread::spawn(move || (wait(&theirs), thread::take_interrupt()));
                interrupt_soon(waiter.thread(), round);
                let (result, flag) = waiter.join().unwrap();
                assert_eq!(result, Err(WaitError::Interrupted), "{what}");
                assert!(!flag, "{what}: the wait that reports it takes the flag");
            }
        }
        assert_eq!(*locked, 0);
    });
}

fn bound_and_foreign_threads_are_interrupted<L: Leg>() {
    let rt = L::new();
    let vain = Vain::new();
    let locked = vain.mutex.lock();
    for (what, wait) in WAITS {
        for round in 0..4 {
            let theirs = Arc::clone(&vain);
            let bound = rt.spawn_with(Builder::new().bound(true), move || wait(&theirs)).unwrap();
            interrupt_soon(bound.thread(), round);
            assert!(bound.join().unwrap().is_err(), "{what}");
            let theirs = Arc::clone(&vain);
            let (tell, hear) = std::sync::mpsc::channel();
            let foreign = std::thread::spawn(move || {
                tell.send(thread::current()).unwrap();
                wait(&theirs)
            });
            // From a thread of the runtime.
            let of = hear.recv().unwrap();
            rt.run(|| interrupt_soon(&of, round));
            assert!(foreign.join().unwrap().is_err(), "{what}");
        }
    }
    drop(locked);
}

fn the_flag_stays_until_a_wait_reports_it<L: Leg>() {
    L::new().run(|| {
        let me = thread::current();
        let vain = Vain::new();
        for (what, wait) in WAITS {
            assert!(!me.is_interrupted());
            me.interrupt();
            assert!(me.is_interrupted());
            // The mutex is free, the sleep could be short: all the same.
            assert!(wait(&vain).is_err(), "{what}");
            assert!(!me.is_interrupted(), "{what}");
        }
        me.interrupt();
        assert!(sleeping(Wait::timeout(Duration::ZERO)).is_err());
        assert!(sleeping(Wait::timeout(Duration::ZERO)).is_ok());
        me.interrupt();
        assert!(thread::take_interrupt());
        assert!(!thread::take_interrupt());
        assert!(sleeping(Wait::timeout(Duration::from_micros(10))).is_ok());
    });
}

fn two_interrupts_are_one<L: Leg>() {
    L::new().run(|| {
        let me = thread::current();
        me.interrupt();
        me.interrupt();
        let long = Wait::timeout(LONG).interruptible();
        assert_eq!(thread::park_with(long), Err(WaitError::Interrupted));
        let start = Instant::now();
        let short = Wait::timeout(Duration::from_millis(5)).interruptible();
        assert_eq!(thread::park_with(short), Err(WaitError::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(5));
    });
}

fn waits_of_std_take_no_notice<L: Leg>() {
    L::new().run(|| {
        let me = thread::current();
        me.interrupt();
        let start = Instant::now();
        thread::sleep(Duration::from_millis(3));
        thread::park_timeout(Duration::from_millis(3));
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let mut guard = mutex.lock();
        assert!(changed.wait_for(&mut guard, Duration::from_millis(3)).timed_out());
        assert!(Barrier::new(2).wait_timeout(Duration::from_millis(3)).is_none());
        assert!(start.elapsed() >= Duration::from_millis(12));
        drop(guard);
        drop(mutex.lock());
        assert_eq!(thread::spawn(|| 1).join().unwrap(), 1);
        thread::scope(|s| s.spawn(thread::yield_now).join().unwrap());
        assert!(me.is_interrupted());
        // One that sleeps already sleeps on. Beside load, the interrupt may come when it has ended.
        let was_in_time = (0..50).any(|_| {
            let sleeper = thread::spawn(|| {
                let start = Instant::now();
                thread::sleep(Duration::from_millis(20));
                (start.elapsed(), thread::take_interrupt())
            });
            thread::sleep(Duration::from_millis(5));
            sleeper.thread().interrupt();
            let (slept, flag) = sleeper.join().unwrap();
            assert!(slept >= Duration::from_millis(20));
            flag
        });
        assert!(was_in_time);
        assert!(thread::take_interrupt());
    });
}

fn what_comes_first_is_kept<L: Leg>() {
    L::new().run(|| {
        // A permit is not eaten by a park that is interrupted.
        let me = thread::current();
        me.unpark();
        me.interrupt();
        let endless = Wait::forever().interruptible();
        assert!(thread::park_with(endless).is_err());
        assert!(thread::park_with(endless).is_ok());
        // A grant and an interrupt at once: either way the lock is free afterwards, and the flag was
        // reported once.
        for _ in 0..200 {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.lock();
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || {
                let refused = theirs.lock_with(Wait::forever().interruptible()).map(drop).is_err();
                (refused, thread::take_interrupt())
            });
            let of = waiter.thread().clone();
            thread::yield_now();
            drop(guard);
            of.interrupt();
            let (refused, taken) = waiter.join().unwrap();
            let reports = [refused, taken, of.is_interrupted()];
            assert_eq!(reports.iter().filter(|&&report| report).count(), 1, "{reports:?}");
            assert!(mutex.try_lock().is_some());
        }
    });
}

fn a_party_that_leaves_is_not_counted<L: Leg>() {
    L::new().run(|| {
        let barrier = Arc::new(Barrier::new(3));
        let waits = |times: usize| {
            let barrier = Arc::clone(&barrier);
            let wait = Wait::forever().interruptible();
            thread::spawn(move || (0..times).filter(|_| barrier.wait_with(wait).is_err()).count())
        };
        for round in 0..20 {
            let (stays, leaves) = (waits(1), waits(1));
            interrupt_soon(leaves.thread(), round);
            assert_eq!(leaves.join().unwrap(), 1);
            assert!(!stays.is_finished(), "two of three have come");
            let third = waits(1);
            assert!(!third.is_finished() && !stays.is_finished());
            barrier.wait();
            assert_eq!((stays.join().unwrap(), third.join().unwrap()), (0, 0));
        }
    });
}

fn an_interrupted_waiter_does_not_eat_a_notification<L: Leg>() {
    L::new().run(|| {
        for round in 0..200 {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            // Two wait for one item; one of them is interrupted while it is delivered. One of them must
            // get it.
            let taker = || {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (items, arrived) = &*shared;
                    let mut items = items.lock();
                    while *items == 0 {
                        if arrived.wait_with(&mut items, Wait::forever().interruptible()).is_err() {
                            return false;
                        }
                    }
                    *items -= 1;
                    true
                })
            };
            let (one, other) = (taker(), taker());
            if round % 2 == 0 {
                thread::yield_now();
            }
            *shared.0.lock() += 1;
            shared.1.notify_one();
            one.thread().interrupt();
            let first = one.join().unwrap();
            // If it was interrupted, the notification went to the other, or no thread waited yet. If it
            // took the item, the other waits for one more.
            if first {
                *shared.0.lock() += 1;
                shared.1.notify_one();
            }
            assert!(other.join().unwrap());
            assert_eq!(*shared.0.lock(), 0);
        }
    });
}

fn a_mutex_outlives_interrupted_waiters<L: Leg>() {
    const WAITERS: usize = 8;
    L::new().run(|| {
        let mutex = Arc::new(Mutex::new(0_usize));
        for round in 0..20 {
            let guard = mutex.lock();
            let waiters: Vec<JoinHandle<bool>> = (0..WAITERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    thread::spawn(move || match mutex.lock_with(Wait::forever().interruptible()) {
                        Ok(mut count) => {
                            *count += 1;
                            true
                        }
                        Err(_) => false,
                    })
                })
                .collect();
            interrupt_soon(waiters[0].thread(), round);
            waiters.iter().skip(1).step_by(2).for_each(|waiter| waiter.thread().interrupt());
            drop(guard);
            let locked =
                waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(|&locked| locked).count();
            assert!(locked >= WAITERS / 2 - 1, "those that were not interrupted have locked");
            let mut count = mutex.try_lock().expect("it is free");
            assert_eq!(*count, locked);
            *count = 0;
        }
    });
}

fn what_was_done_before_is_seen_after<L: Leg>() {
    L::new().run(|| {
        for n in 1..=300 {
            // Relaxed, so that only the interrupt orders the two.
            let cell = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&cell);
            let waiter = thread::spawn(move || {
                assert!(sleeping(Wait::timeout(LONG)).is_err());
                theirs.load(std::sync::atomic::Ordering::Relaxed)
            });
            cell.store(n, std::sync::atomic::Ordering::Relaxed);
            waiter.thread().interrupt();
            assert_eq!(waiter.join().unwrap(), n);
        }
    });
}

fn an_ended_thread_may_be_interrupted<L: Leg>() {
    let rt = L::new();
    let ended = rt.spawn(|| ());
    let thread = ended.thread().clone();
    ended.join().unwrap();
    thread.interrupt();
    drop(rt);
    thread.interrupt();
    assert!(thread.is_interrupted());
}

fn an_interrupt_that_came_before_goes_before_an_end<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let ended = thread::spawn(|| 7);
        while !ended.is_finished() {
            thread::yield_now();
        }
        thread::current().interrupt();
        let (ended, why) = ended.join_with(Wait::forever().interruptible()).unwrap_err();
        assert_eq!(why, WaitError::Interrupted);
        assert_eq!(ended.join_with(Wait::forever().interruptible()).unwrap().unwrap(), 7);
    });
}

fn threads_start_without_the_flag<L: Leg>() {
    let rt = L::new();
    for _ in 0..200 {
        let interrupted = rt.spawn(|| thread::current().interrupt());
        interrupted.join().unwrap();
        assert!(!rt.spawn(thread::take_interrupt).join().unwrap(), "left by the core's last thread");
    }
}

fn a_storm_loses_nothing<L: Leg>() {
    const SLEEPERS: usize = 8;
    const EACH: usize = 150;
    L::new().run(|| {
        let over = AtomicBool::new(false);
        let reported = AtomicUsize::new(0);
        thread::scope(|s| {
            let sleepers: Vec<_> = (0..SLEEPERS)
                .map(|n| {
                    let reported = &reported;
                    s.spawn(move || {
                        for round in 0..EACH {
                            // Deadlines, permits and interrupts strike all at once.
                            let timeout = Duration::from_micros((round * 7 + n) as u64 % 90);
                            let wait = Wait::timeout(timeout).interruptible();
                            let result =
                                if round % 2 == 0 { sleeping(wait) } else { thread::park_with(wait) };
                            let interrupted = result == Err(WaitError::Interrupted);
                            reported.fetch_add(usize::from(interrupted), SeqCst);
                        }
                    })
                })
                .collect();
            let threads: Vec<Thread> = sleepers.iter().map(|sleeper| sleeper.thread().clone()).collect();
            let over = &over;
            let storm = s.spawn(move || {
                let mut n = 0;
                while !over.load(SeqCst) {
                    threads[n % SLEEPERS].interrupt();
                    threads[(n + 1) % SLEEPERS].unpark();
                    n += 1;
                    thread::yield_now();
                }
            });
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            over.store(true, SeqCst);
            storm.join().unwrap();
        });
        assert!(reported.load(SeqCst) > 0, "no thread was interrupted");
    });
}
