//! What C libraries keep for a thread. Values of pthread keys are destroyed after thread-locals of Rust, but
//! before any thread may think that this one is gone.

use std::ffi::c_void;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};

both! {
    own locals:
    keys_are_destroyed_when_join_returns,
    keys_are_destroyed_when_the_runtime_is_gone,
    a_runtime_that_is_gone_leaves_no_kernel_thread,
    a_destructor_of_a_key_may_end_its_own_threads_runtime,
    a_destructor_of_a_key_may_give_its_own_threads_handle_up,
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

/// What a destructor of a pthread key calls.
pub(crate) type Last = Box<dyn FnOnce() + Send>;

unsafe extern "C" fn call(last: *mut c_void) {
    // SAFETY: `call_last` made it from a box, and a value is destroyed once.
    let last = unsafe { Box::from_raw(last.cast::<Last>()) };
    last();
}

/// Has `last` called when the running thread ends, by a destructor of a pthread key.
pub(crate) fn call_last(last: Last) {
    let mut key = 0;
    // SAFETY: a valid place, and a destructor that fits what is stored.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(call)) }, 0);
    let last = Box::into_raw(Box::new(last));
    // SAFETY: the key was made above, and is never deleted.
    assert_eq!(unsafe { libc::pthread_setspecific(key, last.cast()) }, 0);
}

/// The thread itself is still on its way out then. It must not wait for itself.
fn a_destructor_of_a_key_may_end_its_own_threads_runtime<L: Leg>() {
    for builder in [thread::Builder::new(), bound()] {
        let (give, takes) = mpsc::channel::<L::Rt>();
        let (tell, told) = mpsc::channel();
        let rt = L::new();
        let body = move || {
            let rt = takes.recv().unwrap();
            call_last(Box::new(move || {
                drop(rt);
                tell.send(()).unwrap();
            }));
        };
        drop(rt.spawn_with(builder, body).unwrap());
        give.send(rt).unwrap();
        told.recv().expect("the runtime was dropped");
    }
}

fn a_destructor_of_a_key_may_give_its_own_threads_handle_up<L: Leg>() {
    let rt = L::new();
    for builder in [thread::Builder::new(), bound()] {
        let (give, takes) = mpsc::channel::<thread::JoinHandle<()>>();
        let (tell, told) = mpsc::channel();
        let body = move || {
            let handle = takes.recv().unwrap();
            call_last(Box::new(move || {
                drop(handle);
                tell.send(()).unwrap();
            }));
        };
        give.send(rt.spawn_with(builder, body).unwrap()).unwrap();
        told.recv().expect("the handle was dropped");
    }
}
