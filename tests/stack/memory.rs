//! What stacks cost, and that it comes back.

use std::ffi::CString;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::thread::{self, Builder, JoinHandle, ThreadState};
use selvedge::{Mxn, OneToOne, Runtime, mxn};

use crate::watchdog::Watchdog;
use crate::{child, dive};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("parked", || {
        const THREADS: usize = 20_000;
        // More LWPs would have mappings of their own.
        let rt = Mxn::builder().concurrency(2).max_lwps(4).build().unwrap();
        // The first ones pay for what all share.
        end(parked(&rt, 100));
        let (resident, mappings) = (resident(), lines_of("/proc/self/maps"));
        let threads = parked(&rt, THREADS);
        let each = (self::resident() - resident) / THREADS;
        let more = lines_of("/proc/self/maps") - mappings;
        println!("{each} bytes a thread, {more} mappings");
        // Two pages, the C library's vector of modules, the control block, the closure's cell; debug
        // builds have larger frames.
        let most = if cfg!(debug_assertions) { 3 * 4096 + 1500 } else { 2 * 4096 + 1500 };
        assert!(each <= most, "{each} bytes a thread");
        assert!(more < 200, "{more} mappings");
        end(threads);
    }),
    ("waves", || {
        const THREADS: usize = 2_000;
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        let wave = || end(parked(&rt, THREADS));
        (0..3).for_each(|_| wave());
        let ten = || {
            let before = resident();
            (0..10).for_each(|_| wave());
            resident().saturating_sub(before)
        };
        // Had nothing been used again, each ten would take two pages of each thread, ten times over. A thread
        // that is preempted touches more of its stack, and on a slow machine many are, so the first may grow.
        let grown: Vec<usize> = (0..5).map(|_| ten()).take_while(|&grown| grown >= THREADS * 4096).collect();
        assert!(grown.len() < 5, "grown by {grown:?} bytes, each in ten waves of {THREADS}");
    }),
    ("glob", || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let look = || {
            // The C library copies the part before the last slash. It uses the stack for that if it considers
            // the part small enough.
            let pattern = CString::new(format!("/{}*", "a/".repeat(14_000))).unwrap();
            // SAFETY: plain data, for which zero is valid.
            let mut found: libc::glob_t = unsafe { std::mem::zeroed() };
            // SAFETY: a C string, and a place for the result.
            let code = unsafe { libc::glob(pattern.as_ptr(), 0, None, &raw mut found) };
            // SAFETY: filled in above.
            unsafe { libc::globfree(&raw mut found) };
            code
        };
        let code = rt.spawn_with(Builder::new().stack_size(32 << 10), look).unwrap().join().unwrap();
        assert!(code == libc::GLOB_NOMATCH || code == libc::GLOB_ABORTED, "{code}");
    }),
    ("trimmed", || {
        const THREADS: usize = 40_000;
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        end(parked(&rt, 100));
        let before = resident();
        let threads = parked(&rt, THREADS);
        let peak = resident() - before;
        end(threads);
        // The bound keeps 16,384 of them warm; control blocks stay.
        let limit = Instant::now() + Duration::from_secs(40);
        while resident() - before > peak / 10 * 6 {
            assert!(Instant::now() < limit, "{} of {peak} bytes are still there", resident() - before);
            std::thread::sleep(Duration::from_millis(10));
        }
        // And all can be had again.
        end(parked(&rt, THREADS));
    }),
    ("ended", || {
        const THREADS: usize = 40_000;
        let before = resident();
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        let threads = parked(&rt, THREADS);
        let peak = resident() - before;
        end(threads);
        drop(rt);
        let left = (resident() - before) * 100 / peak;
        println!("{left} % of {peak} bytes are left");
        // As above, but at once: the end of the runtime waits for it.
        assert!(left < 60, "{left} % of {peak} bytes are left");
        assert!(mxn::trim_stacks(0) > 16_000);
        let left = (resident() - before) * 100 / peak;
        println!("{left} % are left without warm stacks");
        assert!(left < 25, "{left} % of {peak} bytes are left without warm stacks");
        assert_eq!(mxn::trim_stacks(0), 0);
        // And all can be had again.
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        end(parked(&rt, THREADS));
    }),
    ("huge", || {
        const SIZE: usize = 8 << 30;
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let thread = rt.spawn_with(Builder::new().stack_size(SIZE), || {
            let here = 0_u8;
            let far = (&raw const here).cast_mut().wrapping_sub(SIZE - (1 << 20));
            // SAFETY: within the thread's stack, far below its frames.
            unsafe { far.write_volatile(1) };
            thread::park();
        });
        let thread = thread.unwrap();
        while !matches!(rt.threads()[0].state(), ThreadState::Waiting { .. }) {
            thread::yield_now();
        }
        let stack = rt.threads()[0].stack().expect("it lives");
        assert!(stack.size() >= SIZE && stack.high_water() >= SIZE - (1 << 20), "{stack:?}");
        thread.thread().unpark();
        thread.join().unwrap();
    }),
];

/// So many threads of `rt`, all parked.
fn parked(rt: &Mxn, threads: usize) -> Vec<JoinHandle<()>> {
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let here = Arc::clone(&here);
            rt.spawn(move || {
                here.fetch_add(1, Ordering::Relaxed);
                drop(here);
                thread::park();
            })
        })
        .collect();
    while Arc::strong_count(&here) > 1 {
        std::thread::yield_now();
    }
    assert_eq!(here.load(Ordering::Relaxed), threads);
    handles
}

fn end(threads: Vec<JoinHandle<()>>) {
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn lines_of(file: &str) -> usize {
    fs::read_to_string(file).unwrap().lines().count()
}

#[test]
fn a_parked_thread_costs_two_pages() {
    child::run("parked", &[]).expect_success();
}

/// The library asks for the size of the stack, and uses at most a quarter.
#[test]
fn the_c_library_keeps_to_a_small_stack() {
    child::run("glob", &[]).expect_success();
}

#[test]
fn waves_of_threads_use_the_same_memory() {
    child::run("waves", &[]).expect_success();
}

#[test]
fn memory_of_many_ended_threads_comes_back() {
    child::run("trimmed", &[]).expect_success();
}

#[test]
fn memory_comes_back_when_the_runtime_ends() {
    child::run("ended", &[]).expect_success();
}

#[test]
fn a_stack_may_have_gigabytes() {
    child::run("huge", &[]).expect_success();
}

/// Its context is laid out where it first runs, so it had no stack until then.
#[test]
fn a_thread_that_has_not_run_yet_has_its_stack() {
    let _watchdog = Watchdog::start("a_thread_that_has_not_run_yet_has_its_stack");
    let rt = Arc::new(Mxn::builder().concurrency(1).build().unwrap());
    let theirs = Arc::clone(&rt);
    // A green thread, so the other one waits for its slot.
    let looks = rt.spawn(move || {
        let new = thread::spawn(thread::park);
        let infos = theirs.threads();
        drop(theirs);
        new.thread().unpark();
        let info = infos.into_iter().find(|info| info.id() == new.thread().id()).unwrap();
        assert!(info.stack().is_some_and(|stack| stack.size() > 0), "{info:?}");
        new.join().unwrap();
    });
    looks.join().unwrap();
}

/// The promised size can be used, whatever the runtime; sizes in between are rounded up.
#[test]
fn a_stack_is_as_large_as_promised() {
    let _watchdog = Watchdog::start("a_stack_is_as_large_as_promised");
    fn check<R: Runtime>(rt: &R) {
        // For the frames above the dive, its last ones, and the C library's share of a kernel thread's stack.
        const REST: usize = 24 << 10;
        for size in [64 << 10, 96 << 10, 100 << 10, 1 << 20, 8 << 20] {
            for bound in [false, true] {
                let builder = Builder::new().stack_size(size).bound(bound);
                let sum = rt.spawn_with(builder, move || black_box(dive(size - REST)));
                sum.unwrap().join().unwrap();
            }
        }
    }
    check(&Mxn::builder().concurrency(2).build().unwrap());
    check(&OneToOne::new().unwrap());
}
