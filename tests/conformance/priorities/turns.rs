//! No thread starves, and none of low priority keeps the CPU from one of high priority.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use selvedge::thread::Priority::{self, High, Low, Normal};
use selvedge::thread::{Builder, JoinHandle};
use selvedge::{Mxn, Runtime, ThreadRegister, thread};

use super::one_slot::{Over, join_all};
use crate::watchdog::Watchdog;

one_slot! {
    a_low_thread_gets_its_turn,
    a_normal_thread_gets_its_turn_among_high_ones,
    a_low_thread_runs_while_another_is_blocked_in_the_kernel,
}

/// What is due after this long without a turn (see [`Priority`]).
pub(super) const LOW_AGE: Duration = Duration::from_millis(50);

/// Two threads that yield until this is stopped or dropped.
struct Yielders {
    over: Over,
    threads: [JoinHandle<()>; 2],
    turns: Arc<AtomicUsize>,
}

impl Yielders {
    fn start(rt: &Mxn, priority: Priority) -> Self {
        let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = [(); 2].map(|()| {
            let (over, turns) = (Arc::clone(&over), Arc::clone(&turns));
            let yields = move || {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    thread::yield_now();
                }
            };
            rt.spawn_with(Builder::new().priority(priority), yields).unwrap()
        });
        while turns.load(SeqCst) < 100 {
            std::thread::yield_now();
        }
        Self { over: Over(over), threads, turns }
    }

    fn stop(self) {
        drop(self.over);
        join_all(self.threads);
    }
}

/// Far beyond what the docs promise for a few turns, far below what a machine with other work could hold
/// it up by.
const BOUND: Duration = Duration::from_secs(10);

fn a_low_thread_gets_its_turn(rt: &Mxn) {
    for others in [Normal, High] {
        let yielders = Yielders::start(rt, others);
        let start = Instant::now();
        let low = rt.spawn_with(Builder::new().priority(Low), || {
            thread::yield_now();
            thread::yield_now();
        });
        low.unwrap().join().unwrap();
        // Three turns, each of which it had to wait for. Pinned threads that have begun count turns instead.
        let waits = if rt.info().thread_register == Some(selvedge::ThreadRegister::Pinned) { 1 } else { 3 };
        let took = start.elapsed();
        assert!(took >= LOW_AGE * waits, "it did not wait for its turns: {took:?}");
        assert!(took < BOUND, "{took:?}");
        yielders.stop();
    }
}

fn a_normal_thread_gets_its_turn_among_high_ones(rt: &Mxn) {
    let yielders = Yielders::start(rt, High);
    let start = Instant::now();
    let before = yielders.turns.load(SeqCst);
    let normal = rt.spawn(|| {
        for _ in 0..3 {
            thread::yield_now();
        }
    });
    normal.join().unwrap();
    let (took, turns) = (start.elapsed(), yielders.turns.load(SeqCst) - before);
    assert!(took < BOUND, "{took:?}");
    assert!(turns > 10, "it had {turns} turns of the high threads for 4 of its own");
    yielders.stop();
}

/// What SIGWAITING was made for, with a thread of low priority: it need not wait until it is owed a turn.
fn a_low_thread_runs_while_another_is_blocked_in_the_kernel(rt: &Mxn) {
    let took = || {
        let (tell, told) = mpsc::channel();
        let start = Instant::now();
        rt.run(move || {
            let low = Builder::new().priority(Low).spawn(move || tell.send(()).unwrap()).unwrap();
            told.recv().unwrap();
            low.join().unwrap();
        });
        start.elapsed()
    };
    // A machine with other work may hold up many of them, and being owed a turn takes this long each time.
    assert!((0..200).any(|_| took() < LOW_AGE), "it waits until it is owed a turn");
}

/// Makes a test of each scenario for each rung on which threads are preempted by signal.
macro_rules! preempting {
    ($($scenario:ident),* $(,)?) => {
        preempting! { @rung preempting, ThreadRegister::Switched, $($scenario),* }
        preempting! { @rung preempting_by_syscall, ThreadRegister::Syscall, $($scenario),* }
    };
    (@rung $name:ident, $register:expr, $($scenario:ident),*) => {
        mod $name {
            use super::*;

            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    let builder = || Mxn::builder().concurrency(1).thread_register($register);
                    match builder().build() {
                        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                            println!("skipped: {what}: {error}");
                        }
                        _ => {
                            let _watchdog = Watchdog::start(what);
                            super::$scenario(builder());
                        }
                    }
                }
            )*
        }
    };
}

preempting! {
    a_raised_thread_preempts_a_lower_one,
    a_low_thread_gets_its_turn_among_hogs,
    a_normal_thread_gets_its_turn_among_high_hogs,
    a_raised_thread_leaves_an_lwp_that_does_not_dispatch,
}

/// Threads that count and never yield, until this is stopped or dropped.
struct Counting {
    over: Over,
    counts: [Arc<AtomicUsize>; 2],
    threads: [JoinHandle<()>; 2],
}

impl Counting {
    fn start(rt: &Mxn, priority: Priority) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let threads = counts.clone().map(|count| {
            let over = Arc::clone(&over);
            let counting = move || {
                while !over.load(SeqCst) {
                    count.fetch_add(1, SeqCst);
                }
            };
            rt.spawn_with(Builder::new().priority(priority), counting).unwrap()
        });
        Self { over: Over(over), counts, threads }
    }

    fn stop(self) {
        drop(self.over);
        join_all(self.threads);
    }
}

fn moves(count: &AtomicUsize, within: Duration) -> bool {
    let (start, before) = (Instant::now(), count.load(SeqCst));
    while start.elapsed() < within {
        if count.load(SeqCst) != before {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Of two low ones that never yield, one waits until it is owed a turn, in 50 ms; raised, it does not.
fn a_raised_thread_preempts_a_lower_one(builder: selvedge::mxn::Builder) {
    let rt = builder.build().unwrap();
    let hogs = Counting::start(&rt, Low);
    for _ in 0..200 {
        let counts = || [0, 1].map(|n| hogs.counts[n].load(SeqCst));
        // Until the one stands still while the other goes on.
        assert!(moves(&hogs.counts[0], BOUND), "it is never its turn");
        let begun = Instant::now();
        let mut moved = (begun, counts());
        let stopped = loop {
            let now = counts();
            if now[0] != moved.1[0] {
                moved = (Instant::now(), now);
            } else if now[1] != moved.1[1] && moved.0.elapsed() > Duration::from_millis(1) {
                break moved.0;
            }
            assert!(
                moved.0.elapsed() < BOUND && begun.elapsed() < 2 * BOUND,
                "both run, or none: {:?}",
                rt.stats()
            );
        };
        let raised = Instant::now();
        hogs.threads[0].thread().set_priority(High);
        assert!(moves(&hogs.counts[0], BOUND), "it waits for the other to end");
        let ran = Instant::now();
        hogs.threads[0].thread().set_priority(Low);
        // A machine with other work may be slow; by itself it would never be so fast.
        if raised - stopped < LOW_AGE / 5 && ran - raised < LOW_AGE / 2 {
            return hogs.stop();
        }
    }
    panic!("raising it changes nothing");
}

fn a_low_thread_gets_its_turn_among_hogs(builder: selvedge::mxn::Builder) {
    let rt = builder.time_slice(Some(Duration::from_millis(5))).build().unwrap();
    for priority in [Normal, High] {
        let hogs = Counting::start(&rt, priority);
        assert!(hogs.counts.iter().all(|count| moves(count, BOUND)), "one has not begun");
        let start = Instant::now();
        rt.spawn_with(Builder::new().priority(Low), || ()).unwrap().join().unwrap();
        let took = start.elapsed();
        assert!(took >= LOW_AGE, "it did not wait for its turn: {took:?}");
        assert!(took < BOUND, "{took:?}");
        hogs.stop();
    }
}

fn a_normal_thread_gets_its_turn_among_high_hogs(builder: selvedge::mxn::Builder) {
    let rt = builder.time_slice(Some(Duration::from_millis(5))).build().unwrap();
    let hogs = Counting::start(&rt, High);
    assert!(hogs.counts.iter().all(|count| moves(count, BOUND)), "one has not begun");
    let start = Instant::now();
    // It comes back for more, after it has lost its slice, too.
    let normal = rt.spawn(|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        thread::yield_now();
    });
    normal.join().unwrap();
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    hogs.stop();
}

/// On one of two LWPs a thread spawns others and then computes; the other has enough to do, and so steals
/// nothing.
fn a_raised_thread_leaves_an_lwp_that_does_not_dispatch(builder: selvedge::mxn::Builder) {
    let rt = builder.concurrency(2).time_slice(None).build().unwrap();
    let moved = || {
        let stats = rt.stats();
        stats.compensated + stats.handed_off
    };
    // An LWP that sleeps in the kernel, for a page, loses its slot. The next one takes what it had.
    let played = (0..20).any(|_| {
        let before = moved();
        let stolen = raise_beside_a_hog(&rt);
        assert!(!stolen || moved() > before, "it was stolen");
        !stolen
    });
    assert!(played, "the slots move all the time: {:?}", rt.stats());
}

/// Raises two of three threads that wait on the LWP of one that computes. Returns `true` if another LWP had
/// taken one before.
fn raise_beside_a_hog(rt: &Mxn) -> bool {
    let (hog, over, yielders) =
        (Arc::new(AtomicBool::new(false)), Arc::<AtomicBool>::default(), Arc::new(AtomicBool::new(false)));
    let (tell, told) = mpsc::channel();
    let hogging = {
        let (hog, over, yielders) = (Arc::clone(&hog), Arc::clone(&over), Arc::clone(&yielders));
        rt.spawn(move || {
            hog.store(true, SeqCst);
            while !yielders.load(SeqCst) {
                std::hint::spin_loop();
            }
            // The first is in the next-slot, the others in the ring.
            let ran = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
            let threads = ran.clone().map(|ran| thread::spawn(move || ran.store(true, SeqCst)));
            tell.send((ran, threads.each_ref().map(|thread| thread.thread().clone()))).unwrap();
            while !over.load(SeqCst) {
                std::hint::spin_loop();
            }
            join_all(threads);
        })
    };
    let over = Over(over);
    while !hog.load(SeqCst) {
        std::thread::yield_now();
    }
    let others = Yielders::start(rt, Normal);
    yielders.store(true, SeqCst);
    let (ran, threads) = told.recv().unwrap();
    // The control: no thread comes for them.
    std::thread::sleep(Duration::from_millis(50));
    let stolen = ran.iter().any(|ran| ran.load(SeqCst));
    for n in if stolen { [].as_slice() } else { &[2, 0] } {
        threads[*n].set_priority(High);
        let start = Instant::now();
        while !ran[*n].load(SeqCst) {
            assert!(start.elapsed() < BOUND, "thread {n} stays with the hog");
            std::thread::yield_now();
        }
    }
    drop(over);
    hogging.join().unwrap();
    others.stop();
    stolen
}
