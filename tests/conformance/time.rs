//! Sleeping, and letting others go first.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    sleep_is_never_short,
    sleep_among_others_is_never_short,
    sleep_is_not_long,
    sleep_of_nothing_returns,
    sleep_until_meets_its_moment,
    sleep_is_not_cut_short_by_a_permit,
    sleepers_sleep_at_once,
    yields_take_turns,
    available_parallelism_is_stds,
}

fn sleep_is_never_short<L: Leg>() {
    L::new().run(|| {
        for micros in [1, 50, 999, 5_000, 20_000] {
            let time = Duration::from_micros(micros);
            let start = Instant::now();
            thread::sleep(time);
            assert!(start.elapsed() >= time);
        }
    });
}

/// A look at the clock that ends one sleep must not end those that are almost over.
fn sleep_among_others_is_never_short<L: Leg>() {
    let rt = L::new();
    let sleeps = |number: u64| {
        let time = Duration::from_micros(2_000 + 50 * number);
        move || {
            for _ in 0..5 {
                let start = Instant::now();
                thread::sleep(time);
                let slept = start.elapsed();
                assert!(slept >= time, "{time:?} became {slept:?}");
            }
        }
    };
    let sleepers: Vec<_> = (0..40).map(|number| rt.spawn(sleeps(number))).collect();
    // One that runs all the time has the clock looked at all the time.
    rt.run(|| {
        while !sleepers.iter().all(|sleeper| sleeper.is_finished()) {
            thread::yield_now();
        }
    });
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
}

fn sleep_is_not_long<L: Leg>() {
    fn best(sleep: fn(Duration)) -> Duration {
        let took = || {
            let start = Instant::now();
            sleep(Duration::from_millis(2));
            start.elapsed()
        };
        (0..30).map(|_| took()).min().unwrap()
    }
    // Beside it, a thread of the kernel: a loaded machine does not fail it, a timer that fires on a coarse
    // tick does.
    let kernel = std::thread::spawn(|| best(std::thread::sleep));
    let ours = L::new().run(|| best(thread::sleep));
    let kernel = kernel.join().unwrap();
    assert!(ours < kernel + Duration::from_millis(5), "2 ms became {ours:?} at best, and {kernel:?}");
}

fn sleep_of_nothing_returns<L: Leg>() {
    L::new().run(|| {
        thread::sleep(Duration::ZERO);
        thread::sleep_until(Instant::now());
    });
}

fn sleep_until_meets_its_moment<L: Leg>() {
    L::new().run(|| {
        let moment = Instant::now() + Duration::from_millis(15);
        thread::sleep_until(moment);
        assert!(Instant::now() >= moment);
    });
}

fn sleep_is_not_cut_short_by_a_permit<L: Leg>() {
    L::new().run(|| {
        let sleeper = thread::spawn(|| {
            let start = Instant::now();
            thread::sleep(Duration::from_millis(30));
            start.elapsed()
        });
        for _ in 0..5 {
            sleeper.thread().unpark();
            thread::sleep(Duration::from_millis(2));
        }
        assert!(sleeper.join().unwrap() >= Duration::from_millis(30));
    });
}

fn sleepers_sleep_at_once<L: Leg>() {
    let rt = L::new();
    let start = Instant::now();
    rt.run(|| {
        thread::scope(|s| {
            for _ in 0..100 {
                s.spawn(|| thread::sleep(Duration::from_millis(200)));
            }
        });
    });
    // One after the other they would take 20 s.
    assert!(start.elapsed() < Duration::from_secs(10));
}

fn yields_take_turns<L: Leg>() {
    const THREADS: usize = 4;
    const TURNS: usize = 200;
    let turn = AtomicUsize::new(0);
    L::new().run(|| {
        thread::scope(|s| {
            for mine in 0..THREADS {
                let turn = &turn;
                s.spawn(move || {
                    for _ in 0..TURNS {
                        // Only yields let the thread that has its turn go on.
                        while turn.load(SeqCst) % THREADS != mine {
                            thread::yield_now();
                        }
                        turn.fetch_add(1, SeqCst);
                    }
                });
            }
        });
    });
    assert_eq!(turn.into_inner(), THREADS * TURNS);
}

fn available_parallelism_is_stds<L: Leg>() {
    let rt = L::new();
    let here = rt.run(thread::available_parallelism).unwrap();
    assert_eq!(here, std::thread::available_parallelism().unwrap());
    assert!(rt.info().concurrency >= 1);
}
