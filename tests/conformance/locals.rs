//! Thread-locals at the end of a thread: when their destructors run, what they may do, and what happens
//! if one panics.

use std::cell::RefCell;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_aborted, is_child};

both! {
    own locals:
    destructors_have_run_when_join_returns,
    destructors_have_run_when_is_finished_says_so,
    destructors_have_run_when_a_timed_join_returns,
    destructors_have_run_when_the_runtime_is_gone,
    a_destructor_may_use_the_runtime,
    a_value_is_dropped_before_the_destructors_run_if_the_thread_is_not_joined,
    a_value_is_dropped_once_if_the_handle_goes_while_destructors_run,
    a_destructor_that_panics_aborts,
    a_value_that_panics_when_it_is_dropped_unwanted_aborts,
    a_payload_that_panics_in_turn_aborts_too,
}

/// Runs something when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.take().expect("dropped once")();
    }
}

thread_local! {
    static FIRST: RefCell<Vec<OnDrop>> = const { RefCell::new(Vec::new()) };
    static SECOND: RefCell<Vec<OnDrop>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` in the running thread's destructors.
fn at_end(f: impl FnOnce() + 'static) {
    FIRST.with_borrow_mut(|list| list.push(OnDrop(Some(Box::new(f)))));
}

/// Counts, late: if `join` did not wait for it, it would be seen.
fn slow_count(ended: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let ended = Arc::clone(ended);
    move || {
        at_end(move || {
            thread::sleep(Duration::from_millis(10));
            ended.fetch_add(1, SeqCst);
        });
    }
}

fn destructors_have_run_when_join_returns<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicUsize::new(0));
    for n in 1..=5 {
        rt.spawn(slow_count(&ended)).join().unwrap();
        assert_eq!(ended.load(SeqCst), n);
    }
    rt.spawn_with(thread::Builder::new().bound(true), slow_count(&ended)).unwrap().join().unwrap();
    assert_eq!(ended.load(SeqCst), 6);
    rt.run(slow_count(&ended));
    assert_eq!(ended.load(SeqCst), 7);
}

fn destructors_have_run_when_is_finished_says_so<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let handle = rt.spawn(slow_count(&ended));
    while !handle.is_finished() {
        thread::yield_now();
    }
    assert_eq!(ended.load(SeqCst), 1);
}

fn destructors_have_run_when_a_timed_join_returns<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let (told, tell) = (thread::current(), Arc::new(AtomicUsize::new(0)));
    let theirs = Arc::clone(&tell);
    let hold = Arc::clone(&ended);
    let handle = rt.spawn(move || {
        at_end(move || {
            theirs.store(1, SeqCst);
            told.unpark();
            while theirs.load(SeqCst) != 2 {
                thread::park();
            }
            hold.fetch_add(1, SeqCst);
        });
    });
    while tell.load(SeqCst) != 1 {
        thread::park();
    }
    // The closure has returned; its destructor has not.
    let start = Instant::now();
    let handle = handle.join_timeout(Duration::from_millis(10)).expect_err("a destructor still runs");
    assert!(start.elapsed() >= Duration::from_millis(10) && !handle.is_finished());
    tell.store(2, SeqCst);
    handle.thread().unpark();
    handle.join().unwrap();
    assert_eq!(ended.load(SeqCst), 1);
}

fn destructors_have_run_when_the_runtime_is_gone<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        drop(rt.spawn(slow_count(&ended)));
    }
    drop(rt);
    assert_eq!(ended.load(SeqCst), 10);
}

fn a_destructor_may_use_the_runtime<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&ended);
    rt.spawn(move || {
        let id = thread::current().id();
        at_end(move || {
            assert_eq!(thread::current().id(), id);
            thread::yield_now();
            thread::park_timeout(Duration::from_millis(1));
            let inner = Arc::clone(&theirs);
            let count = move || inner.fetch_add(1, SeqCst);
            // Windows runs destructors with a lock held that each thread takes when it starts.
            if cfg!(windows) {
                count()
            } else {
                thread::spawn(count).join().unwrap()
            };
            // A destructor may make a thread-local that has one.
            SECOND.with_borrow_mut(|list| {
                list.push(OnDrop(Some(Box::new(move || {
                    theirs.fetch_add(10, SeqCst);
                }))));
            });
        });
    })
    .join()
    .unwrap();
    assert_eq!(ended.load(SeqCst), 11);
}

fn a_value_is_dropped_before_the_destructors_run_if_the_thread_is_not_joined<L: Leg>() {
    use std::sync::Mutex;
    struct Says(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let rt = L::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (value, local) = (Says("value", Arc::clone(&order)), Says("local", Arc::clone(&order)));
    let handle = rt.spawn(move || {
        thread::park();
        at_end(move || drop(local));
        value
    });
    let of = handle.thread().clone();
    drop(handle);
    of.unpark();
    drop(rt);
    assert_eq!(*order.lock().unwrap(), ["value", "local"]);
}

fn a_value_is_dropped_once_if_the_handle_goes_while_destructors_run<L: Leg>() {
    struct Value(Arc<AtomicUsize>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            let ended = Arc::clone(&self.0);
            // There are thread-locals where it is dropped, and they are destroyed.
            SECOND.with_borrow_mut(|list| {
                list.push(OnDrop(Some(Box::new(move || {
                    ended.fetch_add(10, SeqCst);
                }))));
            });
        }
    }
    // In the thread's room, and on the heap.
    fn go<L: Leg, T: Send + 'static>(with: T) {
        let rt = L::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let (send, receive) = std::sync::mpsc::channel::<thread::JoinHandle<(Value, T)>>();
        let value = Value(Arc::clone(&dropped));
        let handle = rt.spawn(move || {
            let mine = thread::blocking(|| receive.recv().unwrap());
            at_end(move || drop(mine));
            (value, with)
        });
        send.send(handle).unwrap();
        drop(rt);
        assert_eq!(dropped.load(SeqCst), 11);
    }
    go::<L, _>(());
    go::<L, _>([0_u8; 1000]);
}

fn a_destructor_that_panics_aborts<L: Leg>() {
    if is_child() {
        let rt = L::new();
        rt.spawn(|| at_end(|| panic!("as the test wants"))).join().unwrap();
        unreachable!("the process is gone");
    }
    assert_aborted(&again(), "thread local panicked on drop, aborting");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as the test wants");
    }
}

fn a_value_that_panics_when_it_is_dropped_unwanted_aborts<L: Leg>() {
    if is_child() {
        let rt = L::new();
        let handle = rt.spawn(|| {
            thread::park();
            Bomb
        });
        let of = handle.thread().clone();
        drop(handle);
        of.unpark();
        drop(rt);
        unreachable!("the process is gone");
    }
    assert_aborted(&again(), "thread result panicked on drop, aborting");
}

/// Panics when it is dropped, with a payload that does the same.
struct TwoBombs;

impl Drop for TwoBombs {
    fn drop(&mut self) {
        panic_any(Bomb);
    }
}

/// A scope would wait forever for a thread that unwinds from there.
fn a_payload_that_panics_in_turn_aborts_too<L: Leg>() {
    if is_child() {
        L::new().run(|| {
            thread::scope(|s| {
                let handle = s.spawn(|| {
                    thread::park();
                    TwoBombs
                });
                let of = handle.thread().clone();
                drop(handle);
                of.unpark();
            });
        });
        unreachable!("the process is gone");
    }
    assert_aborted(&again(), "thread result panicked on drop, aborting");
}
