//! Threads that never yield: whoever sleeps or yields beside them gets its turns all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, RuntimeStats, thread};

use crate::ladder::{ALL, CONTROL, MIGRATING, Rung, best_of, on, report, sized};

/// Threads that compute until this is dropped.
pub(crate) struct Hogs {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Hogs {
    /// Two for each slot. Whoever comes after them finds no slot free.
    pub(crate) fn start(rt: &Mxn) -> Self {
        Self::with(rt, || ())
    }

    /// The same; now and then they call the runtime, so that one whose slot was handed off takes part again.
    pub(crate) fn that_come_back(rt: &Mxn) -> Self {
        Self::with(rt, thread::yield_now)
    }

    fn with(rt: &Mxn, now_and_then: fn()) -> Self {
        let slots = rt.info().concurrency;
        let over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicUsize::new(0));
        let hog = |_| {
            let (over, begun) = (Arc::clone(&over), Arc::clone(&begun));
            rt.spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    let turn = Instant::now();
                    while turn.elapsed() < Duration::from_millis(20) && !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    now_and_then();
                }
            })
        };
        let threads = (0..2 * slots).map(hog).collect();
        while begun.load(Ordering::Relaxed) < slots {
            std::thread::yield_now();
        }
        Self { over, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|hog| hog.join().unwrap());
    }
}

/// How many of a hundred turns of `act` the caller does in a second.
fn turns_of_a_hundred(mut act: impl FnMut()) -> usize {
    let second = Instant::now() + Duration::from_secs(1);
    let mut turns = 0;
    while turns < 100 && Instant::now() < second {
        act();
        turns += 1;
    }
    turns
}

/// What a green thread gets done in a second beside hogs, in percent of what a kernel thread does that it shares the machine with; at
/// full length, of a hundred turns.
fn share(rt: &Mxn, mine: fn(), kernel: fn()) -> usize {
    let hogs = Hogs::start(rt);
    let kernel = std::thread::spawn(move || turns_of_a_hundred(kernel));
    let turns = rt.spawn(move || turns_of_a_hundred(mine)).join().unwrap();
    let kernel = kernel.join().unwrap();
    drop(hogs);
    let stats = rt.stats();
    report(format_args!(
        "{turns} turns, a kernel thread {kernel}; {} preempted, {} handed off",
        stats.preempted, stats.handed_off
    ));
    // Where other processes have the CPUs, all may have become kernel threads.
    assert!(stats.preempted + stats.handed_off > 0, "{stats}");
    100 * turns / sized(kernel.max(1), 100)
}

/// Percent. Who had to wait for every hog's slice would get half of the lower.
const ENOUGH: (usize, usize) = (50, 90);
/// A hundred of these make a second.
const SLEEP: Duration = Duration::from_millis(10);

#[test]
fn who_sleeps_beside_hogs_wakes_nearly_on_time() {
    on(MIGRATING, "100 sleeps beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let sleeps = || {
            let rt = rung.builder().concurrency(2).build().unwrap();
            share(&rt, || thread::sleep(SLEEP), || std::thread::sleep(SLEEP))
        };
        best_of(5, &format!("{rung:?}: sleeps of 10 ms in a second, percent"), |&n| n >= enough, sleeps);
    });
}

#[test]
fn who_yields_to_hogs_gets_its_turn_back() {
    on(MIGRATING, "100 yields beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let yields = || {
            let rt = rung.builder().concurrency(2).build().unwrap();
            share(&rt, thread::yield_now, std::thread::yield_now)
        };
        best_of(5, &format!("{rung:?}: yields in a second, percent"), |&n| n >= enough, yields);
    });
}

/// How often a slot went to a spare, whatever for.
fn moved(stats: &RuntimeStats) -> u64 {
    stats.handed_off + stats.compensated
}

/// Where threads stay with their LWP, and no signal may move them: hogs are handed off, and new threads run.
#[test]
fn new_threads_run_beside_hogs() {
    on(ALL, "new threads beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let threads = || {
            let rt = rung.builder().concurrency(2).build().unwrap();
            let _hogs = Hogs::start(&rt);
            let started = turns_of_a_hundred(|| rt.spawn(|| ()).join().unwrap());
            let stats = rt.stats();
            match rung {
                Rung::Pinned => assert!(stats.preempted == 0 && moved(&stats) > 0, "{stats}"),
                _ => assert!(stats.preempted + stats.handed_off > 0, "{stats}"),
            }
            started
        };
        best_of(5, &format!("{rung:?}: threads in a second, of 100"), |&n| n >= enough, threads);
    });
}

/// A program that wants no signals: hogs are handed off, on every rung.
#[test]
fn new_threads_run_beside_hogs_without_a_signal() {
    on(ALL, "new threads beside hogs, no signal", |rung| {
        let rt = rung.builder().concurrency(2).preemption_signal(None).build().unwrap();
        let _hogs = Hogs::start(&rt);
        (0..20).for_each(|_| rt.spawn(|| ()).join().unwrap());
        let stats = rt.stats();
        assert!(stats.preempted == 0 && moved(&stats) > 0, "{stats}");
    });
}

/// The control: without slices, nobody.
#[test]
fn without_slices_nobody_runs_beside_hogs() {
    on(ALL, "hogs without slices", |rung| {
        let rt = rung.builder().concurrency(2).max_lwps(2).time_slice(None).build().unwrap();
        let hogs = Hogs::start(&rt);
        let turns = Arc::new(AtomicU32::new(0));
        let others = [(); 2].map(|()| {
            let turns = Arc::clone(&turns);
            rt.spawn(move || {
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            })
        });
        std::thread::sleep(CONTROL);
        assert_eq!(turns.load(Ordering::Relaxed), 0, "somebody ran beside hogs that nobody stopped");
        let stats = rt.stats();
        assert_eq!((stats.preempted, stats.handed_off), (0, 0), "{stats}");
        drop(hogs);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
