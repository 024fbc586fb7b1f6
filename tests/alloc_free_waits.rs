//! A thread that waits for a lock allocates nothing, the first time either: the lock may be the allocator's.
//!
//! A program on jemalloc once ended at its start. The first thread that waited for a lock counted the CPUs,
//! which takes memory, and the lock was one of jemalloc's.

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use selvedge::sync::Mutex;
use selvedge::thread::{self, ThreadState};
use selvedge::{Mxn, OneToOne, Runtime};
use watchdog::Watchdog;

struct Strict;

#[global_allocator]
static HEAP: Strict = Strict;

thread_local! {
    /// The thread must not call the allocator.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

fn check() {
    if WAITS.get() {
        let text = b"a thread that waits called the allocator\n";
        // SAFETY: the text lives; nothing here may allocate.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
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
}

fn wait_for_the_first_time(rt: &impl Runtime) {
    static LOCK: Mutex<()> = Mutex::new(());
    let held = LOCK.lock();
    let waiter = rt.spawn(|| {
        WAITS.set(true);
        let held = LOCK.lock();
        WAITS.set(false);
        drop(held);
    });
    let waits = |state| matches!(state, ThreadState::Waiting { .. });
    while !rt.threads().iter().any(|thread| waits(thread.state())) {
        thread::yield_now();
    }
    drop(held);
    waiter.join().unwrap();
}

#[test]
fn a_first_wait_for_a_lock_takes_no_memory() {
    let _watchdog = Watchdog::start("a first wait for a lock takes no memory");
    for role in ["mxn", "onetoone"] {
        child::run(role, &[]).expect_success();
    }
}

/// Not a test: each runtime in a process of its own, because what is asked of the system is asked once.
#[test]
#[ignore = "run by the other test"]
fn child() {
    child::play(&[
        ("mxn", || wait_for_the_first_time(&Mxn::builder().concurrency(2).build().unwrap())),
        ("onetoone", || wait_for_the_first_time(&OneToOne::new().unwrap())),
    ]);
}
