//! Semaphores: what goes in comes out, in turn, on every kind of thread.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::sync::{Semaphore, TooManyPermits};
use selvedge::thread::Priority;
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};
use crate::waiting::until_waits;

both! {
    no_more_are_inside_than_there_are_permits,
    what_was_done_before_is_seen_after,
    all_kinds_signal_each_other,
    requests_of_all_sizes_are_served,
    a_request_for_all_is_not_starved,
    a_higher_request_passes_one_that_must_wait,
    a_timeout_takes_its_time_and_no_permit,
    timeouts_and_releases_agree,
    an_interrupt_takes_no_permit,
    a_waiter_that_gives_up_makes_way,
    a_grant_and_an_interrupt_agree,
    owned_permits_go_anywhere,
    a_permit_goes_back_when_its_thread_panics,
}

const LONG: Duration = Duration::from_secs(1000);

fn no_more_are_inside_than_there_are_permits<L: Leg>() {
    const PERMITS: usize = 3;
    const ROUNDS: usize = 200;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L, _>(3, move || {
        let (semaphore, inside, most) = &*theirs;
        for round in 0..ROUNDS {
            let _permit = semaphore.acquire();
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            if round % 20 == 0 {
                thread::yield_now();
            }
            inside.fetch_sub(1, SeqCst);
        }
    });
    let (semaphore, inside, most) = &*shared;
    assert_eq!((semaphore.available_permits(), inside.load(SeqCst)), (PERMITS, 0));
    assert!(most.load(SeqCst) <= PERMITS, "{most:?} inside");
    assert!(semaphore.try_acquire_many(PERMITS).is_some(), "no thread is believed to wait");
}

fn what_was_done_before_is_seen_after<L: Leg>() {
    let shared = Arc::new((Semaphore::new(1), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L, _>(2, move || {
        for _ in 0..300 {
            let _permit = theirs.0.acquire();
            // Relaxed, and in two steps: only the semaphore orders them.
            let seen = theirs.1.load(Relaxed);
            theirs.1.store(seen + 1, Relaxed);
        }
    });
    assert_eq!(shared.1.load(SeqCst), 2 * KINDS * 300);
}

fn all_kinds_signal_each_other<L: Leg>() {
    const ROUNDS: usize = 50;
    const THREADS: usize = 2 * KINDS;
    // A ring: each waits for the one before it, and signals the next.
    let ring: Arc<Vec<Semaphore>> =
        Arc::new((0..THREADS).map(|n| Semaphore::new(usize::from(n == 0))).collect());
    let (places, laps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (theirs, count) = (Arc::clone(&ring), Arc::clone(&laps));
    everywhere::<L, _>(2, move || {
        let place = places.fetch_add(1, SeqCst);
        for round in 0..ROUNDS {
            theirs[place].acquire().forget();
            assert_eq!(count.fetch_add(1, SeqCst), round * THREADS + place);
            theirs[(place + 1) % THREADS].add_permits(1);
        }
    });
    assert_eq!(laps.load(SeqCst), ROUNDS * THREADS);
    let left: Vec<usize> = ring.iter().map(Semaphore::available_permits).collect();
    assert_eq!(left.iter().sum::<usize>(), 1);
}

fn requests_of_all_sizes_are_served<L: Leg>() {
    const PERMITS: usize = 5;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L, _>(3, move || {
        let (semaphore, taken, coming) = &*theirs;
        let me = coming.fetch_add(1, SeqCst);
        for round in 0..100 {
            let n = (me + round) % (PERMITS + 1);
            let mut permits = semaphore.acquire_many(n);
            assert!(taken.fetch_add(n, SeqCst) + n <= PERMITS);
            if round % 10 == 0 {
                thread::yield_now();
            }
            // Some go back one by one.
            while round % 2 == 0
                && let Some(one) = permits.split(1)
            {
                taken.fetch_sub(1, SeqCst);
                drop(one);
            }
            taken.fetch_sub(permits.num_permits(), SeqCst);
        }
    });
    assert_eq!(shared.0.available_permits(), PERMITS);
    assert!(shared.0.try_acquire_many(PERMITS).is_some());
}

fn a_request_for_all_is_not_starved<L: Leg>() {
    const PERMITS: usize = 4;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicBool::new(false), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    everywhere::<L, _>(2, move || {
        let (semaphore, over, coming) = &*theirs;
        if coming.fetch_add(1, SeqCst) == 0 {
            // All others take and put back without end, and never all of them have put back.
            for _ in 0..20 {
                drop(semaphore.acquire_many(PERMITS));
            }
            over.store(true, SeqCst);
        } else {
            let mut held = semaphore.acquire();
            while !over.load(SeqCst) {
                held = {
                    drop(held);
                    thread::yield_now();
                    semaphore.acquire()
                };
            }
        }
    });
    assert_eq!(shared.0.available_permits(), PERMITS);
}

fn a_higher_request_passes_one_that_must_wait<L: Leg>() {
    let rt = L::new();
    for round in 0..20 {
        let semaphore = Arc::new(Semaphore::new(1));
        let bound = |n: usize| thread::Builder::new().bound((round / n).is_multiple_of(2));
        let theirs = Arc::clone(&semaphore);
        let big = rt.spawn_with(bound(1), move || theirs.acquire_many(2).num_permits()).unwrap();
        // As soon as the big one waits, the permits that are there are kept for it. As soon as it is queued,
        // they are seen to be there.
        while semaphore.try_acquire().is_some() || semaphore.available_permits() != 1 {
            std::thread::yield_now();
        }
        let theirs = Arc::clone(&semaphore);
        let high = move || theirs.acquire().forget();
        rt.spawn_with(bound(2).priority(Priority::High), high).unwrap().join().unwrap();
        assert!(!big.is_finished());
        semaphore.add_permits(2);
        assert_eq!(big.join().unwrap(), 2);
    }
}

fn a_timeout_takes_its_time_and_no_permit<L: Leg>() {
    const WAIT: Duration = Duration::from_millis(5);
    let semaphore = Arc::new(Semaphore::new(2));
    let theirs = Arc::clone(&semaphore);
    let refused = everywhere::<L, _>(1, move || {
        let start = Instant::now();
        assert!(theirs.try_acquire_many_for(3, WAIT).is_none());
        assert!(theirs.try_acquire_many_until(3, Instant::now() + WAIT).is_none());
        assert!(
            theirs.acquire_many_with(3, Wait::timeout(WAIT).interruptible()).err()
                == Some(WaitError::TimedOut)
        );
        assert!(
            theirs.acquire_many_with(3, Wait::until(Instant::now() + WAIT).interruptible()).err()
                == Some(WaitError::TimedOut)
        );
        assert!(theirs.try_acquire_many_owned_for(3, WAIT).is_none());
        assert!(theirs.try_acquire_many_owned_until(3, Instant::now() + WAIT).is_none());
        assert!(start.elapsed() >= 6 * WAIT);
        // What is there is given without a wait, also when the time is over; unless those before us are
        // still in the queue.
        while theirs.try_acquire_for(Duration::ZERO).is_none() {
            thread::yield_now();
        }
        true
    });
    assert_eq!(refused, [true; KINDS]);
    assert!(semaphore.try_acquire_until(Instant::now()).is_some());
    assert!(semaphore.try_acquire_for(LONG).is_some());
    assert!(semaphore.acquire_with(Wait::timeout(LONG).interruptible()).is_ok());
    assert!(semaphore.acquire_with(Wait::until(Instant::now() + LONG).interruptible()).is_ok());
    assert_eq!(semaphore.available_permits(), 2);
}

fn timeouts_and_releases_agree<L: Leg>() {
    const ROUNDS: u64 = 300;
    L::new().run(|| {
        let shared = Arc::new((Semaphore::new(0), AtomicUsize::new(0)));
        let takers: Vec<_> = (0..3)
            .map(|n| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for round in 0..ROUNDS {
                        let timeout = Duration::from_micros((round * 7 + n) % 80);
                        let wanted = 1 + (round % 2) as usize;
                        if let Some(permits) = shared.0.try_acquire_many_for(wanted, timeout) {
                            permits.forget();
                            shared.1.fetch_add(wanted, SeqCst);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..ROUNDS {
            shared.0.add_permits(1);
            thread::yield_now();
        }
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        let (left, taken) = (shared.0.available_permits(), shared.1.load(SeqCst));
        assert_eq!(left + taken, ROUNDS as usize);
        assert!(shared.0.try_acquire_many(left).is_some(), "no thread is believed to wait");
    });
}

fn an_interrupt_takes_no_permit<L: Leg>() {
    let semaphore = Arc::new(Semaphore::new(1));
    let theirs = Arc::clone(&semaphore);
    everywhere::<L, _>(1, move || {
        let me = thread::current();
        // Before the wait: the error comes whether or not there is a permit, and takes the flag.
        me.interrupt();
        assert!(theirs.acquire_with(Wait::forever().interruptible()).is_err());
        assert!(!me.is_interrupted());
        // During it.
        for n in 0..6 {
            let them = me.clone();
            let soon = move || {
                if n % 2 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                them.interrupt();
            };
            let refused: fn(&Arc<Semaphore>) -> bool = match n {
                0 | 1 => |semaphore| semaphore.acquire_many_with(2, Wait::forever().interruptible()).is_err(),
                2 => |semaphore| semaphore.acquire_many_with(2, Wait::timeout(LONG).interruptible()).is_err(),
                3 => |semaphore| {
                    semaphore
                        .acquire_many_with(2, Wait::until(Instant::now() + LONG).interruptible())
                        .is_err()
                },
                4 => {
                    |semaphore| semaphore.acquire_many_owned_with(2, Wait::forever().interruptible()).is_err()
                }
                _ => |semaphore| {
                    semaphore.acquire_many_owned_with(2, Wait::timeout(LONG).interruptible()).is_err()
                },
            };
            let interrupter = std::thread::spawn(soon);
            assert!(refused(&theirs));
            interrupter.join().unwrap();
            assert!(!me.is_interrupted());
        }
    });
    assert!(semaphore.try_acquire().is_some());
}

/// There is enough for the second, behind one that wants more and gives up.
fn a_waiter_that_gives_up_makes_way<L: Leg>() {
    let rt = L::new();
    let semaphore = Arc::new(Semaphore::new(1));
    for interrupted in [false, true] {
        let theirs = Arc::clone(&semaphore);
        let first = rt.spawn(move || {
            if interrupted {
                assert!(theirs.acquire_many_with(2, Wait::forever().interruptible()).is_err());
            } else {
                assert!(theirs.try_acquire_many_for(2, Duration::from_millis(30)).is_none());
            }
        });
        // Beside load, its time may be over before this thread looks.
        while semaphore.try_acquire().is_some() && !first.is_finished() {
            thread::yield_now();
        }
        let theirs = Arc::clone(&semaphore);
        let second = rt.spawn(move || drop(theirs.acquire()));
        if interrupted {
            until_waits(&rt, &second);
            assert!(!second.is_finished());
            first.thread().interrupt();
        }
        second.join().unwrap();
        first.join().unwrap();
    }
    assert_eq!(semaphore.available_permits(), 1);
}

fn a_grant_and_an_interrupt_agree<L: Leg>() {
    L::new().run(|| {
        for _ in 0..200 {
            let semaphore = Arc::new(Semaphore::new(0));
            let theirs = Arc::clone(&semaphore);
            let waiter = thread::spawn(move || {
                let refused = theirs.acquire_with(Wait::forever().interruptible()).map(drop).is_err();
                (refused, thread::take_interrupt())
            });
            let of = waiter.thread().clone();
            thread::yield_now();
            semaphore.add_permits(1);
            of.interrupt();
            let (refused, taken) = waiter.join().unwrap();
            let reports = [refused, taken, of.is_interrupted()];
            assert_eq!(reports.iter().filter(|&&report| report).count(), 1, "{reports:?}");
            assert!(semaphore.try_acquire().is_some(), "the permit is there again, or still");
        }
    });
}

fn owned_permits_go_anywhere<L: Leg>() {
    let rt = L::new();
    let semaphore = Arc::new(Semaphore::new(3));
    let (mut two, one) = (semaphore.acquire_many_owned(2), semaphore.try_acquire_owned().unwrap());
    assert!(semaphore.try_acquire_owned().is_none() && semaphore.try_acquire_many_owned(2).is_none());
    let waiter = {
        let semaphore = Arc::clone(&semaphore);
        rt.spawn(move || semaphore.acquire_owned())
    };
    // Dropped by a thread that did not take it.
    rt.spawn(move || drop(one)).join().unwrap();
    let mine = waiter.join().unwrap();
    assert_eq!(mine.num_permits(), 1);
    two.merge(mine);
    assert_eq!((two.num_permits(), semaphore.available_permits()), (3, 0));
    let one = two.split(1).unwrap();
    assert!(two.split(3).is_none());
    assert!(Arc::ptr_eq(one.semaphore(), &semaphore));
    one.forget();
    // It keeps the semaphore, and is the last that does.
    let alive = Arc::downgrade(&semaphore);
    drop(semaphore);
    assert_eq!(alive.upgrade().unwrap().available_permits(), 0);
    drop(two);
    assert!(alive.upgrade().is_none());
}

fn a_permit_goes_back_when_its_thread_panics<L: Leg>() {
    let rt = L::new();
    let semaphore = Arc::new(Semaphore::new(1));
    let theirs = Arc::clone(&semaphore);
    let panics = rt.spawn(move || {
        let _permit = theirs.acquire();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panics.join().is_err());
    assert!(semaphore.try_acquire().is_some());
}

#[test]
fn permits_are_split_merged_and_forgotten() {
    let (semaphore, other) = (Semaphore::new(5), Semaphore::new(1));
    let mut permits = semaphore.acquire_many(4);
    let some = permits.split(3).unwrap();
    assert!(permits.split(2).is_none());
    assert_eq!((permits.num_permits(), some.num_permits(), semaphore.available_permits()), (1, 3, 1));
    permits.merge(some);
    assert_eq!((permits.num_permits(), semaphore.available_permits()), (4, 1));
    assert_eq!(format!("{permits:?}"), "SemaphorePermit { permits: 4, .. }");
    let merged = catch_unwind(AssertUnwindSafe(|| permits.merge(other.acquire())));
    assert!(merged.is_err(), "of two semaphores");
    assert_eq!((other.available_permits(), permits.num_permits()), (1, 4));
    permits.split(1).unwrap().forget();
    drop(permits);
    assert_eq!(semaphore.available_permits(), 4);
    assert_eq!(format!("{semaphore:?}"), "Semaphore { permits: 4, .. }");
}

#[test]
fn too_many_permits_are_refused() {
    const MAX: usize = Semaphore::MAX_PERMITS;
    let message = |result: std::thread::Result<()>| {
        let payload = result.expect_err("a panic");
        payload.downcast_ref::<String>().cloned().or(payload.downcast_ref::<&str>().map(|&text| text.into()))
    };
    assert!(catch_unwind(|| drop(Semaphore::new(MAX + 1))).is_err());
    let semaphore = Semaphore::new(MAX);
    assert_eq!(semaphore.available_permits(), MAX);
    let error: TooManyPermits = semaphore.try_add_permits(1).unwrap_err();
    assert_eq!(semaphore.try_add_permits(usize::MAX), Err(error));
    let shown: &dyn Error = &error;
    assert_eq!(shown.to_string(), "more permits than a semaphore can have");
    let said = message(catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(1)))).unwrap();
    assert!(said.contains("more than a semaphore can have"), "{said}");
    assert_eq!(semaphore.available_permits(), MAX, "nothing was added");
    semaphore.try_acquire_many(MAX).expect("all of them").forget();
    semaphore.add_permits(MAX);
    // Added while others have some: those that put theirs back are told.
    let permit = semaphore.acquire();
    semaphore.add_permits(1);
    let said = message(catch_unwind(AssertUnwindSafe(|| drop(permit)))).unwrap();
    assert!(said.contains("more than a semaphore can have"), "{said}");
    // A request that could never be served.
    assert!(semaphore.try_acquire_many(MAX + 1).is_none());
    assert!(semaphore.try_acquire_many(usize::MAX).is_none());
    let said = message(catch_unwind(AssertUnwindSafe(|| drop(semaphore.acquire_many(MAX + 1))))).unwrap();
    assert!(said.contains("asked for more permits"), "{said}");
}
