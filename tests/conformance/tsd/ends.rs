//! What becomes of values when their thread ends, or their key is dropped.

use std::cell::RefCell;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use selvedge::sync::{Barrier, Mutex};
use selvedge::thread::Builder;
use selvedge::tsd::Key;
use selvedge::{Runtime, thread};

use super::Counted;
use crate::legs::Leg;
use crate::subprocess::{again, assert_aborted, is_child};

both! {
    values_have_been_dropped_when_join_returns,
    values_have_been_dropped_when_the_runtime_is_gone,
    values_are_dropped_in_rounds_and_then_leaked,
    a_value_may_use_the_runtime_when_it_is_dropped,
    a_destructor_gets_what_a_thread_leaves,
    a_dropped_key_leaves_its_values_to_their_threads,
    a_value_that_panics_when_it_is_dropped_aborts,
    a_payload_that_panics_in_turn_aborts_too,
}

/// Scenarios that look at native thread-locals at the end of a thread.
mod natives {
    use super::*;

    both! {
        own locals:
        values_are_dropped_before_thread_locals,
        values_that_thread_locals_leave_are_dropped_too,
    }
}

/// Runs something when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce()>>);

impl OnDrop {
    fn new(f: impl FnOnce() + 'static) -> Self {
        Self(Some(Box::new(f)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.take().expect("dropped once")();
    }
}

/// A value that is dropped late: a thread that does not wait for that does not see it.
fn slow(ended: &Arc<AtomicUsize>) -> OnDrop {
    let ended = Arc::clone(ended);
    OnDrop::new(move || {
        thread::sleep(Duration::from_millis(5));
        ended.fetch_add(1, SeqCst);
    })
}

fn values_have_been_dropped_when_join_returns<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    let (rt, ended) = (L::new(), Arc::new(AtomicUsize::new(0)));
    for n in 1..=6 {
        let theirs = Arc::clone(&ended);
        rt.spawn_with(Builder::new().bound(n % 3 == 0), move || KEY.set(slow(&theirs)))
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(ended.load(SeqCst), n);
    }
    let theirs = Arc::clone(&ended);
    let handle = rt.spawn(move || KEY.set(slow(&theirs)));
    while !handle.is_finished() {
        thread::yield_now();
    }
    assert_eq!(ended.load(SeqCst), 7);
    let theirs = Arc::clone(&ended);
    let panicked = rt.spawn(move || {
        KEY.set(slow(&theirs));
        panic!("as the test wants");
    });
    assert!(panicked.join().is_err());
    assert_eq!(ended.load(SeqCst), 8);
}

fn values_have_been_dropped_when_the_runtime_is_gone<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    let (rt, ended) = (L::new(), Arc::new(AtomicUsize::new(0)));
    for n in 0..10 {
        let theirs = Arc::clone(&ended);
        drop(rt.spawn_with(Builder::new().bound(n % 3 == 0), move || KEY.set(slow(&theirs))).unwrap());
    }
    drop(rt);
    assert_eq!(ended.load(SeqCst), 10);
}

/// Puts itself back, as often as it is told.
struct Back {
    left: usize,
    count: Arc<AtomicUsize>,
}

static BACK: Key<Back> = Key::new();

impl Drop for Back {
    fn drop(&mut self) {
        self.count.fetch_add(1, SeqCst);
        assert!(BACK.with(|value| value.is_none()), "out of its key before it is dropped");
        if self.left > 0 {
            BACK.set(Back { left: self.left - 1, count: Arc::clone(&self.count) });
        }
    }
}

fn values_are_dropped_in_rounds_and_then_leaked<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        // As many rounds as POSIX asks for, and no more.
        for (left, drops) in [(0, 1), (3, 4), (100, 4)] {
            let count = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&count);
            let builder = Builder::new().bound(bound);
            rt.spawn_with(builder, move || BACK.set(Back { left, count: theirs })).unwrap().join().unwrap();
            assert_eq!(count.load(SeqCst), drops);
            // The thread that gets what this one has left finds nothing.
            for _ in 0..4 {
                let builder = Builder::new().bound(bound);
                assert!(rt.spawn_with(builder, || BACK.with(|back| back.is_none())).unwrap().join().unwrap());
            }
        }
    }
}

fn a_value_may_use_the_runtime_when_it_is_dropped<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    static OTHER: Key<Counted> = Key::new();
    let (rt, ended) = (L::new(), Arc::new(AtomicUsize::new(0)));
    let theirs = Arc::clone(&ended);
    rt.spawn(move || {
        let id = thread::current().id();
        KEY.set(OnDrop::new(move || {
            assert_eq!(thread::current().id(), id);
            thread::yield_now();
            thread::park_timeout(Duration::from_millis(1));
            let inner = Arc::clone(&theirs);
            thread::spawn(move || OTHER.set(Counted(inner))).join().unwrap();
            assert_eq!(theirs.load(SeqCst), 1);
            // In the next round.
            OTHER.set(Counted(theirs));
        }));
    })
    .join()
    .unwrap();
    assert_eq!(ended.load(SeqCst), 2);
}

fn a_destructor_gets_what_a_thread_leaves<L: Leg>() {
    let (rt, sum) = (L::new(), Arc::new(AtomicUsize::new(0)));
    let key = Arc::new(Key::with_destructor(|(n, sum): (usize, Arc<AtomicUsize>)| {
        sum.fetch_add(n, SeqCst);
    }));
    for n in 1..=10 {
        let (key, sum) = (Arc::clone(&key), Arc::clone(&sum));
        let body = move || {
            key.set((1000, Arc::clone(&sum)));
            key.set((n, sum));
        };
        rt.spawn_with(Builder::new().bound(n % 2 == 0), body).unwrap().join().unwrap();
    }
    assert_eq!(sum.load(SeqCst), 55);
}

fn a_dropped_key_leaves_its_values_to_their_threads<L: Leg>() {
    let (rt, dropped, wrong) = (L::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let key = Arc::new(Key::with_destructor({
        fn gone(_: (Counted, Arc<AtomicBool>)) {
            panic!("the key is gone");
        }
        gone
    }));
    let barrier = Arc::new(Barrier::new(5));
    let handles: Vec<_> = (0..4)
        .map(|n| {
            let (key, barrier) = (Arc::clone(&key), Arc::clone(&barrier));
            let value = (Counted(Arc::clone(&dropped)), Arc::clone(&wrong));
            rt.spawn_with(Builder::new().bound(n == 0), move || {
                key.set(value);
                drop(key);
                barrier.wait();
                barrier.wait();
            })
            .unwrap()
        })
        .collect();
    barrier.wait();
    drop(key);
    assert_eq!(dropped.load(SeqCst), 0, "a value was dropped by another thread");
    barrier.wait();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(dropped.load(SeqCst), 4);
}

fn a_value_that_panics_when_it_is_dropped_aborts<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    if is_child() {
        let body = || KEY.set(OnDrop::new(|| panic!("as the test wants")));
        L::new().spawn(body).join().unwrap();
        unreachable!("the process is gone");
    }
    assert_aborted(&again(), "thread-specific value panicked on drop, aborting");
}

fn a_payload_that_panics_in_turn_aborts_too<L: Leg>() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as the test wants");
        }
    }
    static KEY: Key<OnDrop> = Key::new();
    if is_child() {
        let body = || KEY.set(OnDrop::new(|| panic_any(Bomb)));
        L::new().spawn(body).join().unwrap();
        unreachable!("the process is gone");
    }
    assert_aborted(&again(), "thread-specific value panicked on drop, aborting");
}

thread_local! {
    static NATIVE: RefCell<Vec<OnDrop>> = const { RefCell::new(Vec::new()) };
}

type Order = Arc<Mutex<Vec<&'static str>>>;

fn says(order: &Order, what: &'static str) -> impl FnOnce() + 'static {
    let order = Arc::clone(order);
    move || order.lock().push(what)
}

fn values_are_dropped_before_thread_locals<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    for bound in [false, true] {
        let order = Order::default();
        let theirs = Arc::clone(&order);
        let body = move || {
            let (value, native, late) =
                (says(&theirs, "value"), says(&theirs, "native"), says(&theirs, "late"));
            NATIVE.with_borrow_mut(|list| list.push(OnDrop::new(native)));
            KEY.set(OnDrop::new(move || {
                // It is there.
                NATIVE.with_borrow_mut(|list| list.push(OnDrop::new(late)));
                value();
            }));
        };
        let rt = L::new();
        rt.spawn_with(Builder::new().bound(bound), body).unwrap().join().unwrap();
        assert_eq!(*order.lock(), ["value", "native", "late"]);
    }
}

fn values_that_thread_locals_leave_are_dropped_too<L: Leg>() {
    static KEY: Key<OnDrop> = Key::new();
    for bound in [false, true] {
        let order = Order::default();
        let theirs = Arc::clone(&order);
        let body = move || {
            let (first, native, second) =
                (says(&theirs, "first"), says(&theirs, "native"), says(&theirs, "second"));
            KEY.set(OnDrop::new(first));
            NATIVE.with_borrow_mut(|list| {
                list.push(OnDrop::new(move || {
                    native();
                    KEY.set(OnDrop::new(second));
                }));
            });
        };
        let rt = L::new();
        rt.spawn_with(Builder::new().bound(bound), body).unwrap().join().unwrap();
        assert_eq!(*order.lock(), ["first", "native", "second"]);
    }
}
