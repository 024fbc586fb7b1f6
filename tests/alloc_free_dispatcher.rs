//! The dispatcher never allocates: a preempted thread may hold the allocator's lock, and no other LWP
//! could run it then.
//!
//! The global allocator of this program ends the process if it is called where a dispatcher runs.

#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::{Mxn, Runtime, mxn, thread};
use watchdog::Watchdog;

struct Strict;

#[global_allocator]
static HEAP: Strict = Strict;

/// Calls by green threads: if there were none, the test would show nothing.
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn check() {
    if mxn::in_dispatcher() {
        let text = b"the dispatcher called the allocator\n";
        // SAFETY: the text lives; nothing here may allocate.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(start, layout, size) }
    }
}

/// Spawns, switches, waits and sleeps in all the ways there are.
fn work() {
    const SIZE: usize = 16;
    let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Barrier::new(SIZE)));
    for _ in 0..4 {
        let start = |index: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (list, changed, barrier) = &*shared;
                for round in 0..50 {
                    thread::yield_now();
                    list.lock().push(vec![index; round + 1]);
                    changed.notify_all();
                    if round % 10 == 0 {
                        barrier.wait();
                        thread::sleep(Duration::from_micros(50));
                        thread::park_timeout(Duration::from_micros(50));
                        let mut list = list.lock();
                        changed.wait_for(&mut list, Duration::from_micros(100));
                        list.truncate(8);
                    }
                    if round % 16 == 0 {
                        thread::blocking(|| unseen::sleep(Duration::from_micros(200)));
                    }
                    // A handle that is dropped: its thread frees everything by itself.
                    drop(thread::spawn(move || vec![round; 10]));
                }
            })
        };
        let threads: Vec<_> = (0..SIZE).map(start).collect();
        for thread in threads {
            thread.join().expect("a thread");
        }
    }
}

fn watch_over(builder: mxn::Builder, name: &str) {
    let _watchdog = Watchdog::start(name);
    let runtime = builder.concurrency(3).build().expect("the runtime starts");
    let before = CALLS.load(Ordering::Relaxed);
    runtime.run(work);
    assert!(CALLS.load(Ordering::Relaxed) > before + 1000, "the allocator was hardly called");
}

#[test]
fn the_dispatcher_never_allocates() {
    watch_over(Mxn::builder(), "the_dispatcher_never_allocates");
}

#[test]
fn nor_where_every_switch_migrates() {
    watch_over(Mxn::builder().migrate_always(true), "nor_where_every_switch_migrates");
}

#[test]
fn nor_where_threads_are_pinned() {
    // SAFETY: `work` keeps nothing in a thread-local.
    watch_over(unsafe { Mxn::builder().pinned() }, "nor_where_threads_are_pinned");
}

/// How often a signal found a dispatcher, and something else.
static FOUND: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

extern "C" fn look(_: libc::c_int) {
    FOUND[usize::from(!mxn::in_dispatcher())].fetch_add(1, Ordering::Relaxed);
}

/// The check can fail: asked in a signal handler, it tells an idle LWP from other kernel threads.
#[test]
fn the_check_knows_a_dispatcher() {
    let _watchdog = Watchdog::start("the_check_knows_a_dispatcher");
    assert!(!mxn::in_dispatcher());
    // SAFETY: all zeros is an action without flags and mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = look as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler only reads a thread-local and counts.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) }, 0);
    let runtime = Mxn::builder().concurrency(2).build().expect("the runtime starts");
    assert!(!runtime.run(mxn::in_dispatcher), "a green thread is no dispatcher");
    // SAFETY: no preconditions.
    let me = unsafe { libc::gettid() };
    let process = std::process::id();
    while FOUND[0].load(Ordering::Relaxed) == 0 {
        for task in std::fs::read_dir("/proc/self/task").expect("proc").flatten() {
            let task: i32 = task.file_name().to_string_lossy().parse().expect("a number");
            if task != me {
                // SAFETY: a signal with a handler that may run anywhere.
                unsafe { libc::syscall(libc::SYS_tgkill, process, task, libc::SIGUSR2) };
            }
        }
        std::thread::yield_now();
    }
    // SAFETY: no preconditions.
    unsafe { libc::raise(libc::SIGUSR2) };
    assert!(FOUND[1].load(Ordering::Relaxed) > 0, "this thread is no dispatcher");
}
