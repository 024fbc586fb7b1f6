//! The permit: park, unpark, and their timeouts.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    a_permit_posted_before_is_there_after,
    two_permits_are_one,
    an_unpark_wakes_a_parked_thread,
    a_foreign_thread_unparks,
    a_thread_unparks_a_foreign_thread,
    park_timeout_waits_for_its_time_or_a_permit,
    park_until_the_past_returns,
    a_permit_is_not_eaten_by_other_waits,
    what_was_written_before_unpark_is_seen_after_park,
    two_threads_hand_each_other_the_permit,
    many_threads_unpark_one,
    an_endless_timeout_waits,
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

fn a_permit_posted_before_is_there_after<L: Leg>() {
    L::new().run(|| {
        thread::current().unpark();
        thread::park();
        thread::current().unpark();
        thread::park_timeout(LONG);
        thread::current().unpark();
        thread::park_until(Instant::now() + LONG);
    });
}

fn two_permits_are_one<L: Leg>() {
    L::new().run(|| {
        thread::current().unpark();
        thread::current().unpark();
        thread::park();
        // No other thread knows this one, so without a permit only the time ends this.
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "the second permit was still there");
    });
}

/// A flag, and the permit of the thread that waits for it.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn wait(&self) {
        while !self.0.load(SeqCst) {
            thread::park();
        }
    }

    fn raise(&self, waiter: &thread::Thread) {
        self.0.store(true, SeqCst);
        waiter.unpark();
    }
}

fn an_unpark_wakes_a_parked_thread<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (flag, theirs) = (Flag::default(), Flag::default());
        let (mine, seen) = (flag.clone(), theirs.clone());
        let me = thread::current();
        let waiter = thread::spawn(move || {
            seen.raise(&me);
            mine.wait();
        });
        theirs.wait();
        until_waits(&rt, &waiter);
        flag.raise(waiter.thread());
        waiter.join().unwrap();
    });
}

fn a_foreign_thread_unparks<L: Leg>() {
    let rt = L::new();
    let flag = Flag::default();
    let theirs = flag.clone();
    let waiter = rt.spawn(move || theirs.wait());
    // This thread is a foreign one.
    until_waits(&rt, &waiter);
    flag.raise(waiter.thread());
    waiter.join().unwrap();
}

fn a_thread_unparks_a_foreign_thread<L: Leg>() {
    let rt = L::new();
    let foreign = std::thread::spawn(move || {
        let (flag, me) = (Flag::default(), thread::current());
        let theirs = flag.clone();
        let waker = rt.spawn(move || {
            thread::sleep(Duration::from_millis(5));
            theirs.raise(&me);
        });
        flag.wait();
        waker.join().unwrap();
    });
    foreign.join().unwrap();
}

fn park_timeout_waits_for_its_time_or_a_permit<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        for millis in [0, 1, 20] {
            let timeout = Duration::from_millis(millis);
            let start = Instant::now();
            thread::park_timeout(timeout);
            assert!(start.elapsed() >= timeout);
        }
        let parked = thread::spawn(|| thread::park_timeout(LONG));
        until_waits(&rt, &parked);
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

fn park_until_the_past_returns<L: Leg>() {
    L::new().run(|| {
        let past = Instant::now();
        thread::park_until(past);
        // A permit is taken all the same.
        thread::current().unpark();
        thread::park_until(past);
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(5));
        assert!(start.elapsed() >= Duration::from_millis(5));
    });
}

fn a_permit_is_not_eaten_by_other_waits<L: Leg>() {
    L::new().run(|| {
        let nap = || thread::sleep(Duration::from_millis(2));
        thread::current().unpark();
        nap();
        thread::spawn(nap).join().unwrap();
        thread::scope(|s| {
            s.spawn(nap);
        });
        thread::yield_now();
        thread::blocking(std::thread::yield_now);
        thread::park();
    });
}

fn what_was_written_before_unpark_is_seen_after_park<L: Leg>() {
    L::new().run(|| {
        for n in 1..=500_usize {
            // Relaxed, so that only the permit orders the two. A park that ends without one reads 0 and
            // parks again.
            let cell = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&cell);
            let waiter = thread::spawn(move || {
                loop {
                    thread::park();
                    let seen = theirs.load(Relaxed);
                    if seen != 0 {
                        return seen;
                    }
                }
            });
            cell.store(n, Relaxed);
            waiter.thread().unpark();
            assert_eq!(waiter.join().unwrap(), n);
        }
    });
}

fn two_threads_hand_each_other_the_permit<L: Leg>() {
    const ROUNDS: usize = 2_000;
    L::new().run(|| {
        let turn = Arc::new(AtomicUsize::new(0));
        let first = thread::current();
        let theirs = Arc::clone(&turn);
        let second = thread::spawn(move || {
            for round in 0..ROUNDS {
                while theirs.load(SeqCst) != 2 * round + 1 {
                    thread::park();
                }
                theirs.fetch_add(1, SeqCst);
                first.unpark();
            }
        });
        for round in 0..ROUNDS {
            turn.fetch_add(1, SeqCst);
            second.thread().unpark();
            while turn.load(SeqCst) != 2 * round + 2 {
                thread::park();
            }
        }
        second.join().unwrap();
    });
}

fn many_threads_unpark_one<L: Leg>() {
    const WAKERS: usize = 8;
    const EACH: usize = 300;
    L::new().run(|| {
        let posted = AtomicUsize::new(0);
        let me = thread::current();
        thread::scope(|s| {
            for _ in 0..WAKERS {
                s.spawn(|| {
                    for _ in 0..EACH {
                        posted.fetch_add(1, SeqCst);
                        me.unpark();
                        thread::yield_now();
                    }
                });
            }
            while posted.load(SeqCst) != WAKERS * EACH {
                thread::park();
            }
        });
    });
}

fn an_endless_timeout_waits<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let flag = Flag::default();
        let theirs = flag.clone();
        let waiter = thread::spawn(move || {
            while !theirs.0.load(SeqCst) {
                thread::park_timeout(Duration::MAX);
            }
        });
        until_waits(&rt, &waiter);
        assert!(!waiter.is_finished());
        flag.raise(waiter.thread());
        waiter.join().unwrap();
    });
}
