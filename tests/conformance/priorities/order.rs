//! Which thread runs before which.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use selvedge::sync::Mutex;
use selvedge::thread::Builder;
use selvedge::thread::Priority::{High, Low, Normal};
use selvedge::{Mxn, Runtime, thread};

use super::one_slot::{Hog, Log, MANY, join_all};
use super::turns::LOW_AGE;
use super::{ALL, ORDERS, priority_of_me};
use crate::waiting::until_waits;

one_slot! {
    high_threads_run_before_a_thousand_normal_ones,
    a_woken_high_thread_runs_next,
    the_highest_green_thread_gets_the_lock_first,
    a_raised_thread_overtakes_all_others,
    a_raised_thread_that_has_run_overtakes_too,
    a_foreign_thread_raises_one_beside_a_hog,
    a_lowered_thread_runs_last,
    a_yield_lets_a_high_thread_go_first_and_a_low_one_not,
}

fn high_threads_run_before_a_thousand_normal_ones(rt: &Mxn) {
    // Inside; the control: three more normal ones.
    for priority in [High, Normal] {
        let ran = rt.run(move || {
            let log = Log::default();
            let normal: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
            let three: Vec<_> = (MANY..MANY + 3).map(|n| log.spawn(n, priority)).collect();
            join_all(three);
            join_all(normal);
            log.take()
        });
        assert_eq!(ran[..3] == [MANY, MANY + 1, MANY + 2], priority == High, "{:?}", &ran[..3]);
    }
    // From outside, while a thread keeps the slot.
    let log = Log::default();
    let hog = Hog::start(rt);
    let spawn = |what: usize, priority| {
        let log = log.clone();
        rt.spawn_with(Builder::new().priority(priority), move || log.note(what)).unwrap()
    };
    let mut threads: Vec<_> = (0..MANY).map(|n| spawn(n, Normal)).collect();
    threads.extend((MANY..MANY + 3).map(|n| spawn(n, High)));
    hog.stop();
    join_all(threads);
    assert_eq!(log.take()[..3], [MANY, MANY + 1, MANY + 2]);
}

fn a_woken_high_thread_runs_next(rt: &Mxn) {
    let ran = rt.run(|| {
        let log = Log::default();
        let parked: Vec<_> = (MANY..MANY + 3)
            .map(|n| {
                let log = log.clone();
                let park = move || {
                    thread::park();
                    log.note(n);
                };
                Builder::new().priority(High).spawn(park).unwrap()
            })
            .collect();
        // They run, and wait.
        thread::yield_now();
        let normal: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
        for thread in &parked {
            thread.thread().unpark();
        }
        thread::yield_now();
        let mut ran = log.take();
        ran.truncate(3);
        join_all(parked);
        join_all(normal);
        ran
    });
    assert_eq!(ran, [MANY, MANY + 1, MANY + 2]);
}

fn the_highest_green_thread_gets_the_lock_first(rt: &Mxn) {
    for order in ORDERS {
        let served = rt.run(move || {
            let served = Arc::new(Mutex::new(Vec::new()));
            let held = served.lock();
            let waiters = order.map(|which| {
                let served = Arc::clone(&served);
                let wait = move || served.lock().push(priority_of_me());
                Builder::new().priority(ALL[which]).spawn(wait).unwrap()
            });
            waiters.iter().for_each(|waiter| until_waits(rt, waiter));
            drop(held);
            join_all(waiters);
            std::mem::take(&mut *served.lock())
        });
        assert_eq!(served, [High, Normal, Low], "came as {order:?}");
    }
}

fn a_raised_thread_overtakes_all_others(rt: &Mxn) {
    // The first is in the injection queue by then, the others in the ring; then the same without raising,
    // as a control.
    for raised in [[3, 900, 999], [999, 3, 901]] {
        let ran = rt.run(move || {
            let log = Log::default();
            let threads: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
            for n in raised {
                threads[n].thread().set_priority(High);
            }
            join_all(threads);
            log.take()
        });
        assert_eq!(ran[..3], raised);
        assert_eq!(ran.len(), MANY);
    }
    let control = rt.run(|| {
        let log = Log::default();
        join_all((0..MANY).map(|n| log.spawn(n, Normal)).collect::<Vec<_>>());
        log.take()
    });
    assert_ne!(control[..3], [3, 900, 999]);
}

fn a_raised_thread_that_has_run_overtakes_too(rt: &Mxn) {
    const THREADS: usize = 100;
    let ran = rt.run(|| {
        let log = Log::default();
        let over = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let (log, over) = (log.clone(), Arc::clone(&over));
                thread::spawn(move || {
                    while !over.load(SeqCst) {
                        log.note(n);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        while log.0.lock().len() < 3 * THREADS {
            thread::yield_now();
        }
        log.take();
        let raised = THREADS / 2;
        threads[raised].thread().set_priority(High);
        thread::yield_now();
        let ran = log.take();
        threads[raised].thread().set_priority(Normal);
        over.store(true, SeqCst);
        join_all(threads);
        (ran, raised)
    });
    assert_eq!(ran.0.first(), Some(&ran.1), "{:?}", ran.0);
}

fn a_foreign_thread_raises_one_beside_a_hog(rt: &Mxn) {
    for raised in [0, 500, 999] {
        let log = Log::default();
        let hog = Hog::start(rt);
        let threads: Vec<_> = (0..MANY)
            .map(|n| {
                let log = log.clone();
                rt.spawn(move || log.note(n))
            })
            .collect();
        threads[raised].thread().set_priority(High);
        hog.stop();
        join_all(threads);
        assert_eq!(log.take()[0], raised);
    }
}

fn a_lowered_thread_runs_last(rt: &Mxn) {
    for of_the_last in [false, true] {
        let ran = (0..60).find_map(|tried| {
            // A slow machine is in time with fewer only.
            let many = MANY >> (tried / 10);
            let lowered = if of_the_last { many - 10 } else { 3 };
            let start = Instant::now();
            let ran = rt.run(move || {
                let log = Log::default();
                let threads: Vec<_> = (0..many).map(|n| log.spawn(n, Normal)).collect();
                threads[lowered].thread().set_priority(Low);
                join_all(threads);
                log.take()
            });
            assert_eq!(ran.len(), many);
            // Held up for longer, it is owed a turn before.
            (start.elapsed() < LOW_AGE).then(|| (ran.last().copied(), lowered))
        });
        let (last, lowered) = ran.expect("this machine is too slow to tell");
        assert_eq!(last, Some(lowered));
    }
}

fn a_yield_lets_a_high_thread_go_first_and_a_low_one_not(rt: &Mxn) {
    const YIELDS: usize = 100;
    for _ in 0..100 {
        let (took, ran) = rt.run(|| {
            let start = Instant::now();
            let log = Log::default();
            let low = log.spawn(1, Low);
            let mut ran = Vec::new();
            // Alone with it, and then with another normal one.
            (0..YIELDS).for_each(|_| thread::yield_now());
            ran.extend(log.take());
            let normal = log.spawn(2, Normal);
            let high = log.spawn(3, High);
            (0..YIELDS).for_each(|_| thread::yield_now());
            ran.extend(log.take());
            let took = start.elapsed();
            join_all([high, normal, low]);
            (took, ran)
        });
        // A thread that was held up for longer may have seen aging.
        if took < LOW_AGE {
            assert_eq!(ran, [3, 2]);
            return;
        }
    }
    panic!("this machine is too slow to tell");
}
