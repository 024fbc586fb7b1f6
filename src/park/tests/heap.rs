//! The allocator of the unit tests. It notices a thread that allocates while it holds a queue lock, and can
//! do what a test wants at a thread's next allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::park::queue_lock::ranks;

struct Noticing;

#[global_allocator]
static HEAP: Noticing = Noticing;

std::thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static FOUND: Cell<u32> = const { Cell::new(0) };
    static NEXT: Cell<Option<fn()>> = const { Cell::new(None) };
}

fn notice() {
    // A model's threads are never watched.
    if WATCHED.get() && ranks::any() {
        FOUND.set(FOUND.get() + 1);
    }
    if let Some(at_next) = NEXT.take() {
        at_next();
    }
}

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Noticing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        notice();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        notice();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        notice();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(start, layout, size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

/// Runs `f`, which must not allocate while it holds a queue lock: an allocator may use locks of this crate.
#[track_caller]
pub(crate) fn allocates_without_locks<R>(f: impl FnOnce() -> R) -> R {
    let (result, found) = allocations_with_locks(f);
    assert_eq!(found, 0, "allocations while a queue lock was held");
    result
}

/// Runs `f`, and counts its allocations while it holds a queue lock.
pub(crate) fn allocations_with_locks<R>(f: impl FnOnce() -> R) -> (R, u32) {
    FOUND.set(0);
    WATCHED.set(true);
    let result = f();
    WATCHED.set(false);
    (result, FOUND.get())
}

/// Has the running thread call `f` before its next allocation.
pub(crate) fn at_next_allocation(f: fn()) {
    NEXT.set(Some(f));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "while a queue lock was held")]
fn an_allocation_with_a_lock_held_is_noticed() {
    use crate::park::queue_lock::{QueueLock, Rank};
    let lock = QueueLock::new(Rank::Pool, ());
    allocates_without_locks(|| lock.with(|()| drop(std::hint::black_box(Box::new(1)))));
}
