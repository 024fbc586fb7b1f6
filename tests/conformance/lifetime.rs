//! Runtimes as values: several at once, their end, and which outlives which.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use selvedge::{OneToOne, Runtime, thread};

use crate::legs::{Leg, passed_on, settle};
use crate::waiting::until_waits;

both! {
    a_dropped_runtime_has_waited_for_its_threads,
    threads_may_spawn_while_their_runtime_goes,
    a_runtime_without_threads_goes_at_once,
    a_runtime_dropped_by_its_own_thread_lets_go,
    a_runtime_may_go_inside_another,
    a_handle_outlives_its_runtime,
    runtimes_do_not_mix_their_threads,
    runtimes_come_and_go,
    threads_of_two_runtimes_wake_each_other,
    a_panic_leaves_a_runtime_that_works,
}

fn a_dropped_runtime_has_waited_for_its_threads<L: Leg>() {
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = L::new();
    for n in 0..20_u64 {
        let ended = Arc::clone(&ended);
        drop(rt.spawn(move || {
            thread::sleep(Duration::from_millis(n % 5));
            ended.fetch_add(1, SeqCst);
        }));
    }
    drop(rt);
    assert_eq!(ended.load(SeqCst), 20);
}

fn threads_may_spawn_while_their_runtime_goes<L: Leg>() {
    fn chain(left: usize, ended: Arc<AtomicUsize>) {
        ended.fetch_add(1, SeqCst);
        if left > 0 {
            thread::sleep(Duration::from_millis(1));
            drop(thread::spawn(move || chain(left - 1, ended)));
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = L::new();
    let theirs = Arc::clone(&ended);
    drop(rt.spawn(move || chain(20, theirs)));
    drop(rt);
    assert_eq!(ended.load(SeqCst), 21);
}

fn a_runtime_without_threads_goes_at_once<L: Leg>() {
    drop(L::new());
    let rt = L::new();
    rt.run(|| ());
    drop(rt);
}

fn a_runtime_dropped_by_its_own_thread_lets_go<L: Leg>() {
    let rt = Arc::new(L::new());
    let theirs = Arc::clone(&rt);
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let dropper = rt.spawn(move || {
        thread::blocking(|| wait.recv()).unwrap();
        let last = Arc::into_inner(theirs).expect("the other share is gone");
        drop(last);
        // The runtime goes on for those that it still has.
        let inner = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            tell.send(11).unwrap();
        });
        inner.join().unwrap();
    });
    drop(rt);
    go.send(()).unwrap();
    dropper.join().unwrap();
    assert_eq!(told.recv().unwrap(), 11);
}

fn a_runtime_may_go_inside_another<L: Leg>() {
    let ended = AtomicUsize::new(0);
    L::new().run(passed_on(|| {
        let inner = L::new();
        let theirs = &ended;
        inner.run(|| theirs.fetch_add(1, SeqCst));
        drop(inner.spawn(|| thread::sleep(Duration::from_millis(3))));
        drop(inner);
    }));
    assert_eq!(ended.into_inner(), 1);
}

fn a_handle_outlives_its_runtime<L: Leg>() {
    let rt = L::new();
    let (value, panic) = (rt.spawn(|| 5), rt.spawn(|| std::panic::panic_any(6_u8)));
    drop(rt);
    assert!(value.is_finished() && panic.is_finished());
    assert_eq!(value.join().unwrap(), 5);
    assert!(panic.join().unwrap_err().is::<u8>());
}

fn runtimes_do_not_mix_their_threads<L: Leg>() {
    let (one, other) = (L::new(), L::new());
    let parked: Vec<_> = (0..3).map(|_| one.run(|| thread::spawn(thread::park))).collect();
    settle(&one, 3);
    assert_eq!(other.info().threads, 0);
    for handle in parked {
        handle.thread().unpark();
        handle.join().unwrap();
    }
}

fn runtimes_come_and_go<L: Leg>() {
    for n in 0..30 {
        assert_eq!(L::new().run(|| thread::spawn(move || n).join().unwrap()), n);
    }
}

fn threads_of_two_runtimes_wake_each_other<L: Leg>() {
    fn visit<A: Runtime, B: Runtime>(one: &A, other: &B) {
        let sum = one.run(|| {
            let theirs = other.spawn(|| {
                thread::park();
                20
            });
            until_waits(other, &theirs);
            theirs.thread().unpark();
            theirs.join().unwrap() + other.run(|| one.spawn(|| 1).join().unwrap())
        });
        assert_eq!(sum, 21);
    }
    let (one, other) = (L::new(), OneToOne::new().unwrap());
    visit(&one, &other);
    visit(&other, &one);
    visit(&one, &L::new());
}

fn a_panic_leaves_a_runtime_that_works<L: Leg>() {
    let rt = L::new();
    for _ in 0..20 {
        drop(rt.spawn(|| panic!("as the test wants")));
    }
    assert_eq!(rt.run(|| 1), 1);
}
