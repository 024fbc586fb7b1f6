//! Spawning, and joining in all its forms.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge::{Runtime, thread};

use crate::legs::{Leg, settle};

both! {
    join_gives_the_value,
    join_gives_the_payload_of_a_panic,
    a_value_moves_through_unharmed,
    a_thread_spawns_threads,
    the_ambient_runtime_is_the_threads_own,
    spawn_on_and_spawn_with_are_spawn,
    a_thousand_threads,
    a_detached_thread_runs_on,
    the_value_of_a_detached_thread_is_dropped,
    what_a_closure_captured_is_gone_when_join_returns,
    join_timeout_gives_the_handle_back,
    join_until_in_the_past_only_looks,
    is_finished_tells_whether_join_would_wait,
    a_foreign_thread_joins,
    a_joiner_sees_what_the_thread_wrote,
    joining_oneself_panics,
    run_borrows_and_gives_panics_on,
    a_reference_is_a_runtime,
}

fn join_gives_the_value<L: Leg>() {
    fn serve<R: Runtime>(rt: &R) -> u32 {
        rt.spawn(|| 42).join().unwrap()
    }
    assert_eq!(serve(&L::new()), 42);
}

fn join_gives_the_payload_of_a_panic<L: Leg>() {
    let rt = L::new();
    let payload = rt.spawn(|| panic_any(7_u64)).join().unwrap_err();
    assert_eq!(*payload.downcast::<u64>().unwrap(), 7);
    let payload = rt.spawn(|| assert_eq!(1, 2, "as the test wants")).join().unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("as the test wants"));
    assert_eq!(rt.spawn(|| 1).join().unwrap(), 1, "the runtime goes on");
}

fn a_value_moves_through_unharmed<L: Leg>() {
    #[repr(align(128))]
    struct Aligned([u8; 1024]);
    let rt = L::new();
    let numbers: Vec<u64> = (0..10_000).collect();
    let (numbers, sum) = rt
        .spawn(move || {
            let sum = numbers.iter().sum::<u64>();
            (numbers, sum)
        })
        .join()
        .unwrap();
    assert_eq!((numbers.len(), sum), (10_000, 49_995_000));
    let value = rt.spawn(|| Aligned([5; 1024])).join().unwrap();
    assert!(value.0.iter().all(|&byte| byte == 5) && (&raw const value).is_aligned());
}

fn a_thread_spawns_threads<L: Leg>() {
    fn sum(n: u32) -> u32 {
        if n == 0 { 0 } else { n + thread::spawn(move || sum(n - 1)).join().unwrap() }
    }
    assert_eq!(L::new().run(|| sum(20)), 210);
}

fn the_ambient_runtime_is_the_threads_own<L: Leg>() {
    let rt = L::new();
    assert_eq!(rt.info().threads, 0);
    let inner = rt.run(|| thread::spawn(thread::park));
    // It belongs to this runtime, not to the process default.
    settle(&rt, 1);
    inner.thread().unpark();
    inner.join().unwrap();
}

fn spawn_on_and_spawn_with_are_spawn<L: Leg>() {
    let rt = L::new();
    assert_eq!(thread::spawn_on(&rt, || 1).join().unwrap(), 1);
    assert_eq!(rt.spawn_with(thread::Builder::new(), || 2).unwrap().join().unwrap(), 2);
    assert_eq!(thread::Builder::new().spawn_on(&rt, || 3).unwrap().join().unwrap(), 3);
}

fn a_thousand_threads<L: Leg>() {
    let rt = L::new();
    let sum: usize = rt.run(|| {
        let numbered = |n: usize| {
            thread::spawn(move || {
                thread::yield_now();
                n
            })
        };
        let handles: Vec<_> = (0..1000).map(numbered).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert_eq!(sum, 499_500);
}

fn a_detached_thread_runs_on<L: Leg>() {
    let rt = L::new();
    let (tell, told) = mpsc::channel();
    drop(rt.spawn(move || {
        thread::sleep(Duration::from_millis(5));
        tell.send(7).unwrap();
    }));
    assert_eq!(told.recv().unwrap(), 7);
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn the_value_of_a_detached_thread_is_dropped<L: Leg>() {
    let rt = L::new();
    let drops = Arc::new(AtomicUsize::new(0));
    for handle_first in [true, false] {
        let value = Counted(Arc::clone(&drops));
        let handle = rt.spawn(move || {
            thread::park();
            value
        });
        let of = handle.thread().clone();
        if handle_first {
            drop(handle);
            of.unpark();
        } else {
            of.unpark();
            while !handle.is_finished() {
                thread::yield_now();
            }
            drop(handle);
        }
    }
    drop(rt);
    assert_eq!(drops.load(SeqCst), 2);
}

fn what_a_closure_captured_is_gone_when_join_returns<L: Leg>() {
    let rt = L::new();
    for panics in [false, true] {
        let drops = Arc::new(AtomicUsize::new(0));
        let captured = Counted(Arc::clone(&drops));
        let result = rt
            .spawn(move || {
                let _captured = &captured;
                assert!(!panics, "as the test wants");
            })
            .join();
        assert_eq!((result.is_err(), drops.load(SeqCst)), (panics, 1));
    }
}

fn join_timeout_gives_the_handle_back<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn(|| {
        thread::park();
        9
    });
    let start = Instant::now();
    let handle = handle.join_timeout(Duration::from_millis(10)).expect_err("it is parked");
    assert!(start.elapsed() >= Duration::from_millis(10));
    // The same from a thread of the runtime.
    let handle = rt.run(move || handle.join_timeout(Duration::from_millis(10))).expect_err("it is parked");
    handle.thread().unpark();
    let result = handle.join_timeout(Duration::from_secs(100)).expect("it has been unparked");
    assert_eq!(result.unwrap(), 9);
}

fn join_until_in_the_past_only_looks<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn(thread::park);
    let past = Instant::now();
    let handle = handle.join_until(past).expect_err("it is parked");
    handle.thread().unpark();
    while !handle.is_finished() {
        thread::yield_now();
    }
    assert!(handle.join_until(past).is_ok(), "a thread that has ended is joined, whatever the deadline");
}

fn is_finished_tells_whether_join_would_wait<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn(thread::park);
    assert!(!handle.is_finished());
    handle.thread().unpark();
    while !handle.is_finished() {
        std::thread::yield_now();
    }
    handle.join().unwrap();
}

fn a_foreign_thread_joins<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn(|| {
        thread::park();
        3
    });
    let of = handle.thread().clone();
    let joiner = std::thread::spawn(move || handle.join().unwrap());
    std::thread::sleep(Duration::from_millis(5));
    of.unpark();
    assert_eq!(joiner.join().unwrap(), 3);
}

fn a_joiner_sees_what_the_thread_wrote<L: Leg>() {
    L::new().run(|| {
        for n in 0..500_usize {
            // Relaxed, so that only the join orders the two.
            let seen = Arc::new(AtomicUsize::new(usize::MAX));
            let theirs = Arc::clone(&seen);
            thread::spawn(move || theirs.store(n, Relaxed)).join().unwrap();
            assert_eq!(seen.load(Relaxed), n);
        }
    });
}

fn joining_oneself_panics<L: Leg>() {
    let rt = L::new();
    let (give, take) = mpsc::channel::<thread::JoinHandle<()>>();
    let (tell, told) = mpsc::channel();
    let handle = rt.spawn(move || {
        let me = thread::blocking(|| take.recv()).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| me.join()));
        tell.send(outcome.is_err()).unwrap();
    });
    give.send(handle).unwrap();
    assert!(told.recv().unwrap());
}

fn run_borrows_and_gives_panics_on<L: Leg>() {
    let rt = L::new();
    let mut words = vec!["warp"];
    let length = rt.run(|| {
        words.push("weft");
        words.len()
    });
    assert_eq!((length, words.len()), (2, 2));
    let payload = catch_unwind(AssertUnwindSafe(|| rt.run(|| panic_any(5_u8)))).unwrap_err();
    assert_eq!(*payload.downcast::<u8>().unwrap(), 5);
}

fn a_reference_is_a_runtime<L: Leg>() {
    fn by_value<R: Runtime>(rt: R) -> (&'static str, u8) {
        (R::NAME, rt.run(|| 1))
    }
    let rt = L::new();
    assert_eq!(by_value(&rt), (<L::Rt as Runtime>::NAME, 1));
    assert_eq!(rt.info().model, <L::Rt as Runtime>::NAME);
}
