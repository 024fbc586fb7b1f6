//! What C libraries keep for a thread. Values of pthread keys are destroyed after thread-locals of Rust, but
//! before any thread may think that this one is gone.

use std::ffi::c_void;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};

both! {
    own locals:
    keys_are_destroyed_when_join_returns,
    keys_are_destroyed_when_the_runtime_is_gone,
    a_runtime_that_is_gone_leaves_no_kernel_thread,
}

/// Counts one more when it is destroyed, but late: a thread that does not wait for that does not see it.
struct Late {
    counter: Arc<AtomicUsize>,
    by: Duration,
}

unsafe extern "C" fn count(value: *mut c_void) {
    // SAFETY: `set` made it from a box, and a value is destroyed once.
    let late = unsafe { Box::from_raw(value.cast::<Late>()) };
    std::thread::sleep(late.by);
    late.counter.fetch_add(1, SeqCst);
}

/// A pthread key for values that count.
#[derive(Clone, Copy)]
struct Key(libc::pthread_key_t);

impl Key {
    fn new() -> Self {
        let mut key = 0;
        // SAFETY: a valid place, and a destructor that fits what `set` stores.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(count)) }, 0);
        Self(key)
    }

    fn set(self, late: Late) {
        let value = Box::into_raw(Box::new(late));
        // SAFETY: the key was made by `new`, and is never deleted.
        assert_eq!(unsafe { libc::pthread_setspecific(self.0, value.cast()) }, 0);
    }
}

fn bound() -> thread::Builder {
    thread::Builder::new().bound(true)
}

fn keys_are_destroyed_when_join_returns<L: Leg>() {
    let (rt, key, ended) = (L::new(), Key::new(), Arc::new(AtomicUsize::new(0)));
    for n in 1..=6 {
        let theirs = Late { counter: Arc::clone(&ended), by: Duration::from_millis(5) };
        let builder = if n % 2 == 0 { bound() } else { thread::Builder::new() };
        rt.spawn_with(builder, move || key.set(theirs)).unwrap().join().unwrap();
        assert_eq!(ended.load(SeqCst), n);
    }
}

fn keys_are_destroyed_when_the_runtime_is_gone<L: Leg>() {
    let (rt, key, ended) = (L::new(), Key::new(), Arc::new(AtomicUsize::new(0)));
    // The first to go are the slowest.
    for millis in (1..=5).rev() {
        for builder in [thread::Builder::new(), bound()] {
            let theirs = Late { counter: Arc::clone(&ended), by: Duration::from_millis(10 * millis) };
            drop(rt.spawn_with(builder, move || key.set(theirs)).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(rt);
    assert_eq!(ended.load(SeqCst), 10);
}

fn kernel_threads() -> usize {
    fs::read_dir("/proc/self/task").expect("a Linux kernel").count()
}

fn a_runtime_that_is_gone_leaves_no_kernel_thread<L: Leg>() {
    if !is_child() {
        return assert_passed(&again());
    }
    let before = kernel_threads();
    for _ in 0..5 {
        let rt = L::new();
        let joined = rt.spawn_with(bound(), thread::yield_now).unwrap();
        for _ in 0..5 {
            drop(rt.spawn_with(bound(), thread::yield_now).unwrap());
            drop(rt.spawn(thread::yield_now));
        }
        joined.join().unwrap();
    }
    // A kernel thread that has been joined may be listed for a moment more (also `before`, of the runtime
    // that was tried); the watchdog ends a wait that would not. Each runtime would leave one at least.
    while kernel_threads() > before {
        std::thread::yield_now();
    }
}
