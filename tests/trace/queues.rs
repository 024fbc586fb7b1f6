//! Run queues: how many threads wait in them, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::thread::{JoinHandle, ThreadState, ThreadsSeen, WaitReason};
use selvedge::trace::{Level, set_level};
use selvedge::{LatencyHistogram, Mxn, OneToOne, Runtime, ThreadRegister, thread};

use super::{compute, traced};

/// So many threads are woken.
const WOKEN: usize = 12;

/// How long the one thread that runs keeps its slot.
const HOLD: Duration = Duration::from_millis(20);

/// Returns a runtime with one slot on each rung that the machine has.
fn rungs() -> Vec<Mxn> {
    let builder = || -> Builder { Mxn::builder().concurrency(1).time_slice(None) };
    // SAFETY: the threads of these tests keep nothing in thread-locals.
    let pinned = unsafe { builder().pinned() };
    let rungs = [ThreadRegister::Switched, ThreadRegister::Syscall].map(|it| builder().thread_register(it));
    let built = rungs.into_iter().chain([pinned]).map(Builder::build);
    built.filter_map(|rt| rt.map_err(|error| println!("skipped: {error}")).ok()).collect()
}

fn latency<R: Runtime>(rt: &R) -> LatencyHistogram {
    rt.stats().run_queue_latency.expect("times are counted")
}

/// Starts threads that park once, and waits until all of them do.
fn parked<R: Runtime>(rt: &R, park: fn() -> Instant) -> Vec<JoinHandle<Instant>> {
    let threads: Vec<_> = (0..WOKEN).map(|_| rt.spawn(park)).collect();
    let parks = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Park, .. });
    while rt.threads().iter().filter(|thread| parks(thread.state())).count() < WOKEN {
        thread::yield_now();
    }
    threads
}

fn park() -> Instant {
    thread::park();
    Instant::now()
}

/// There is one slot, a thread that computes, and others that are woken behind it. All of them are in a run
/// queue until it leaves, and wait for as long.
#[test]
fn threads_behind_a_hog_wait_in_the_run_queue() {
    traced("threads_behind_a_hog_wait_in_the_run_queue", Level::Times, || {
        for rt in rungs() {
            let homes = rt.info().thread_register == Some(ThreadRegister::Pinned);
            rt.run(|| {
                let threads = parked(&rt, park);
                let (before, woken) = (latency(&rt), Instant::now());
                threads.iter().for_each(|thread| thread.thread().unpark());
                let held = Instant::now();
                let stats = rt.stats();
                let length = stats.run_queue.expect("it has run queues");
                assert_eq!(length.total(), WOKEN, "{stats}");
                assert_eq!(length.dispatchable, if homes { WOKEN } else { 1 }, "{stats}");
                assert_eq!(stats.lwps.iter().map(|lwp| lwp.queued).sum::<usize>(), WOKEN, "{stats}");
                assert!(stats.to_string().contains("\nrun queues: 12 threads, "), "{stats}");
                compute(HOLD);
                let held = held.elapsed();
                threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() >= woken));
                let (all, waits) = (woken.elapsed(), latency(&rt).since(&before));
                // The clocks of the accounts and of the test differ by their scale.
                let (held, all) = (held - held / 100, all + all / 100);
                let bounds = (0..waits.counts().len()).map(LatencyHistogram::bound);
                let long = bounds.zip(waits.counts()).filter(|&(bound, _)| bound >= held && bound / 2 <= all);
                let long: u64 = long.map(|(_, count)| count).sum();
                assert!(long >= WOKEN as u64, "{held:?} {all:?} {waits:?}");
                assert!(waits.sum() >= held * WOKEN as u32, "{held:?} {waits:?}");
                assert_eq!(rt.stats().run_queue.map(|it| it.total()), Some(0));
            });
        }
    });
}

/// Each yield to another thread, and each start, is a wait.
#[test]
fn yields_and_starts_are_waits() {
    traced("yields_and_starts_are_waits", Level::Times, || {
        for rt in rungs() {
            let before = latency(&rt);
            let stop = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&stop);
            let other = rt.spawn(move || {
                while !seen.load(Relaxed) {
                    thread::yield_now();
                }
            });
            rt.run(|| (0..100).for_each(|_| thread::yield_now()));
            stop.store(true, Relaxed);
            other.join().unwrap();
            let waits = latency(&rt).since(&before);
            assert!(waits.count() >= 100, "{waits}");
        }
    });
}

/// A thread that was woken and has not run yet has changed: it is in a run queue.
#[test]
fn a_thread_that_is_woken_has_changed_before_it_runs() {
    traced("a_thread_that_is_woken_has_changed_before_it_runs", Level::Off, || {
        for rt in rungs() {
            let parked = rt.spawn(thread::park);
            let mut seen = ThreadsSeen::new();
            while !rt.threads_changed(&mut seen, 10).threads().is_empty() {
                thread::yield_now();
            }
            let state = rt.run(|| {
                parked.thread().unpark();
                let changes = rt.threads_changed(&mut seen, 10);
                let woken = changes.threads().iter().find(|it| it.id() == parked.thread().id());
                woken.map(|it| it.state())
            });
            let waits = matches!(state, Some(ThreadState::Runnable | ThreadState::Dispatchable { .. }));
            assert!(waits, "{state:?}");
            parked.join().unwrap();
        }
    });
}

/// Two threads that run at once are on two LWPs, and the starts of both are waits of the runtime.
#[test]
fn the_waits_of_all_lwps_are_counted() {
    traced("the_waits_of_all_lwps_are_counted", Level::Times, || {
        let rt = Mxn::builder().concurrency(2).time_slice(None).build().unwrap();
        let running = Arc::new(AtomicUsize::new(0));
        let threads = [(); 2].map(|()| {
            let running = Arc::clone(&running);
            rt.spawn(move || {
                running.fetch_add(1, Relaxed);
                while running.load(Relaxed) < 2 {
                    std::hint::spin_loop();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(latency(&rt).count(), 2);
    });
}

/// What is told of the wait of a kernel thread is no longer than what the thread and its waker see.
#[test]
fn kernel_threads_wait_for_a_cpu() {
    traced("kernel_threads_wait_for_a_cpu", Level::Times, || {
        let rt = OneToOne::new().unwrap();
        let threads = parked(&rt, park);
        assert_eq!(rt.stats().run_queue, None, "the kernel has it");
        let before = latency(&rt);
        assert_eq!(before.count(), WOKEN as u64, "their starts");
        let woken: Vec<Instant> = threads
            .iter()
            .map(|thread| {
                let at = Instant::now();
                thread.thread().unpark();
                at
            })
            .collect();
        let ran: Vec<Instant> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let all: Duration = ran.iter().zip(&woken).map(|(ran, woken)| ran.duration_since(*woken)).sum();
        let waits = latency(&rt).since(&before);
        assert_eq!(waits.count(), WOKEN as u64, "{waits}");
        assert!(!waits.sum().is_zero() && waits.sum() <= all + all / 100, "{all:?} {waits:?}");
    });
}

/// Threads that wait since before the counting began are counted from their wake-ups on.
fn a_session_counts_its_own<R: Runtime>(rt: &R) {
    let threads = parked(rt, park);
    let starts = latency(rt).count();
    assert!(starts >= WOKEN as u64);
    set_level(Level::Off);
    assert_eq!(rt.stats().run_queue_latency, None);
    std::thread::sleep(Duration::from_millis(1));
    set_level(Level::Times);
    assert_eq!(latency(rt).count(), 0);
    let woken = Instant::now();
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() >= woken));
    let (all, waits) = (woken.elapsed(), latency(rt));
    assert_eq!(waits.count(), WOKEN as u64, "{waits}");
    assert!(waits.sum() <= (all + all / 100) * WOKEN as u32, "{all:?} {waits:?}");
}

#[test]
fn a_histogram_belongs_to_one_session() {
    traced("a_histogram_belongs_to_one_session", Level::Times, || {
        rungs().iter().for_each(a_session_counts_its_own);
        a_session_counts_its_own(&OneToOne::new().unwrap());
    });
}
