//! Threads that std starts, as green threads: their handles, names, parking, thread-locals.

use std::cell::RefCell;
use std::os::unix::thread::JoinHandleExt;
use std::panic;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use libc::pthread_t;
use selvedge::thread::{ThreadState, WaitReason};
use selvedge::{LwpState, Mxn, OneToOne, Runtime, ThreadRegister};

use crate::child;
use crate::watchdog::Watchdog;

/// Runs `body` in a green thread of runtimes that take std's threads.
pub(crate) fn green(what: &str, body: fn()) {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall] {
        for slots in [1, 3] {
            let _watchdog = Watchdog::start(format!("{what}, {rung}, {slots} slots"));
            let builder = Mxn::builder().thread_register(rung).concurrency(slots).green_std_threads(true);
            match builder.build() {
                Ok(rt) => rt.run(body),
                Err(error) => eprintln!("skipped: {rung}: {error}"),
            }
        }
    }
}

fn is_green<T>(handle: &JoinHandle<T>) -> bool {
    handle.as_pthread_t() & 1 == 1
}

/// Returns the number of kernel threads of this process.
fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn std_handles_names_and_panics() {
    green("std's handles, names and panics", || {
        let named = Builder::new().name("a name of more than 15 bytes".into()).spawn(|| {
            let me = thread::current();
            assert_eq!(me.name(), Some("a name of more than 15 bytes"));
            assert_eq!(selvedge::thread::current().name(), Some("a name of more "));
            me.id()
        });
        let named = named.unwrap();
        assert!(is_green(&named));
        let id = named.thread().id();
        assert_eq!(named.join().unwrap(), id);

        let panicking = thread::spawn(|| -> u8 { panic::resume_unwind(Box::new("its payload")) });
        assert_eq!(*panicking.join().unwrap_err().downcast::<&str>().unwrap(), "its payload");

        let values: Vec<_> = (0..100_u64).map(|n| thread::spawn(move || n * n)).collect();
        assert!(values.into_iter().zip(0_u64..).all(|(it, n)| it.join().unwrap() == n * n));

        let parked = thread::spawn(thread::park);
        assert!(!parked.is_finished());
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn std_scopes_borrow() {
    green("std's scopes borrow", || {
        let mut sums = [0_u64; 8];
        let numbers: Vec<u64> = (0..1_000).collect();
        thread::scope(|scope| {
            for sum in &mut sums {
                let numbers = &numbers;
                scope.spawn(move || {
                    thread::yield_now();
                    *sum = numbers.iter().sum();
                });
            }
        });
        assert_eq!(sums, [499_500; 8]);
        let outcome = panic::catch_unwind(|| thread::scope(|scope| _ = scope.spawn(|| panic!("expected"))));
        assert!(outcome.is_err());
    });
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Still the thread that it was.
        assert_eq!(own_id() & 1, 1);
        thread::sleep(Duration::from_micros(10));
        ALIVE.fetch_sub(1, SeqCst);
    }
}

thread_local! {
    static VALUES: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
}

/// Each thread has its own values, across waits that move it, and they are gone when `join` returns.
#[test]
fn std_thread_locals_belong_to_the_thread() {
    green("std's thread-locals belong to the thread", || {
        let threads: Vec<_> = (1..=50)
            .map(|count| {
                thread::spawn(move || {
                    for _ in 0..count {
                        VALUES.with_borrow_mut(|values| values.push(Counted::new()));
                        thread::sleep(Duration::from_micros(50));
                    }
                    VALUES.with_borrow(Vec::len)
                })
            })
            .collect();
        assert!(threads.into_iter().zip(1..).all(|(it, count)| it.join().unwrap() == count));
        assert_eq!(ALIVE.load(SeqCst), 0);
    });
}

/// A thousand threads of std wait at a barrier, and no kernel thread waits with them.
#[test]
fn a_thousand_std_threads_need_no_kernel_threads() {
    const COUNT: usize = 1_000;
    let _watchdog = Watchdog::start("a thousand std threads need no kernel threads");
    let rt = Mxn::builder().concurrency(2).green_std_threads(true).build().unwrap();
    let barrier = Arc::new(Barrier::new(COUNT + 1));
    let threads = rt.run(|| {
        let start = |number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                number
            })
        };
        (0..COUNT).map(start).collect::<Vec<_>>()
    });
    let waits = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Futex, .. });
    while rt.threads().iter().filter(|it| waits(it.state())).count() < COUNT {
        thread::sleep(Duration::from_millis(5));
    }
    let stats = rt.stats();
    assert_eq!(stats.count(LwpState::InKernel), 0, "{stats}");
    barrier.wait();
    // This thread, which is none of the runtime's, joins them.
    assert_eq!(threads.into_iter().map(|it| it.join().unwrap()).sum::<usize>(), COUNT * (COUNT - 1) / 2);
}

#[test]
fn detached_threads_run_on_and_the_runtime_waits_for_them() {
    let _watchdog = Watchdog::start("detached threads run on");
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = Mxn::builder().green_std_threads(true).build().unwrap();
    let count = Arc::clone(&ended);
    rt.run(move || {
        for _ in 0..20 {
            let count = Arc::clone(&count);
            drop(thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                count.fetch_add(1, SeqCst);
            }));
        }
    });
    drop(rt);
    assert_eq!(ended.load(SeqCst), 20);
}

/// Kernel threads of this crate stay kernel threads, and so do threads of other runtimes.
#[test]
fn runtimes_start_their_own_kernel_threads() {
    green("runtimes start their own kernel threads", || {
        use selvedge::os::unix::thread::JoinHandleExt as _;
        let bound =
            selvedge::thread::Builder::new().bound(true).spawn(|| thread::spawn(thread::park)).unwrap();
        assert_eq!(bound.as_pthread_t().unwrap() & 1, 0);
        let of_bound = bound.join().unwrap();
        assert!(is_green(&of_bound), "a bound thread belongs to the runtime");
        of_bound.thread().unpark();
        of_bound.join().unwrap();

        let rt = OneToOne::new().unwrap();
        let of_kernel = rt.run(|| thread::spawn(thread::park));
        assert!(!is_green(&of_kernel));
        of_kernel.thread().unpark();
        of_kernel.join().unwrap();

        let other = Mxn::builder().concurrency(1).green_std_threads(false).build().unwrap();
        let of_other = other.run(|| thread::spawn(thread::park));
        assert!(!is_green(&of_other));
        of_other.thread().unpark();
        of_other.join().unwrap();
    });
}

pub(crate) fn own_id() -> pthread_t {
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() }
}

/// A program that knows nothing of Selvedge, but that its user wants green threads.
pub(crate) fn plain_program() {
    let before = kernel_threads();
    let barrier = Arc::new(Barrier::new(1_001));
    let threads: Vec<_> = (0..1_000)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                let inner = thread::spawn(move || number);
                inner.join().unwrap()
            })
        })
        .collect();
    let (green, now) = (threads.iter().filter(|it| is_green(it)).count(), kernel_threads());
    barrier.wait();
    assert_eq!(threads.into_iter().map(|it| it.join().unwrap()).sum::<usize>(), 499_500);
    println!("{green} green threads, {} more kernel threads", now - before);
}

#[test]
fn the_variable_makes_std_threads_green() {
    let _watchdog = Watchdog::start("the variable makes std threads green");
    let run = |variables: &[(&str, &str)]| {
        let ended = child::run("plain_program", variables);
        ended.expect_success();
        let line = ended.said.lines().find(|line| line.contains("green threads,")).expect("it tells");
        let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    };
    let (green, kernel) = run(&[("SELVEDGE_STD_THREADS", "green")]);
    assert_eq!(green, 1_000);
    // LWPs that were needed while others slept in the C library's allocator.
    assert!(kernel < 300, "{kernel} kernel threads");
    for variables in [
        &[("SELVEDGE_STD_THREADS", "kernel")][..],
        &[][..],
        &[("SELVEDGE_STD_THREADS", "green"), ("SELVEDGE_RUNTIME", "onetoone")][..],
    ] {
        let (green, kernel) = run(variables);
        assert_eq!((green, kernel), (0, 1_000), "{variables:?}");
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let _watchdog = Watchdog::start("a wrong variable is named");
    let cases = [
        ("SELVEDGE_STD_THREADS", "yes", ["`yes`", "SELVEDGE_STD_THREADS", "green or kernel"]),
        ("SELVEDGE_CONCURRENCY", "0", ["`0`", "SELVEDGE_CONCURRENCY", "from 1 to"]),
    ];
    for (variable, value, words) in cases {
        let ended = child::run("plain_program", &[("SELVEDGE_STD_THREADS", "green"), (variable, value)]);
        // The harness cannot start a thread for the role.
        for word in words.into_iter().chain(["failed to spawn thread", "Invalid argument"]) {
            assert!(ended.said.contains(word), "no {word:?} in:\n{}", ended.said);
        }
    }
}

pub(crate) fn overflows() {
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 100]);
        if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[7] }
    }
    let _ = Builder::new().name("a deep one".into()).spawn(|| deeper(0)).unwrap().join();
}

#[test]
fn an_overflow_of_a_std_thread_names_it() {
    let _watchdog = Watchdog::start("an overflow of a std thread names it");
    let ended = child::run("overflows", &[("SELVEDGE_STD_THREADS", "green")]);
    ended.expect_abort(&["thread 'a deep one'", "overflowed its stack of 2 MiB"]);
}

/// A fork of a green thread of std goes on as the one thread of the child, which can start others.
pub(crate) fn std_forks() {
    let parent = thread::spawn(|| {
        let other = thread::spawn(|| thread::sleep(Duration::from_millis(50)));
        // SAFETY: the child uses what a child may use.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = own_id();
            let started = thread::spawn(|| 7);
            let fine = own & 1 == 1 && !is_green(&started) && started.join().unwrap() == 7;
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = -1;
        // SAFETY: the child that was started.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        other.join().unwrap();
    });
    assert!(is_green(&parent));
    parent.join().unwrap();
}

#[test]
fn a_std_thread_forks() {
    let _watchdog = Watchdog::start("a std thread forks");
    child::run("std_forks", &[("SELVEDGE_STD_THREADS", "green")]).expect_success();
}
