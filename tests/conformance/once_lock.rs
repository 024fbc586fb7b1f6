//! `OnceLock`: what std's documentation promises, one by one, on every kind of thread.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use selvedge::sync::OnceLock;
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};
use crate::once::message;
use crate::waiting::until_waits;

both! {
    one_of_many_sets_it,
    one_of_many_makes_it,
    a_thread_that_fails_leaves_it_to_the_next,
    a_panic_leaves_it_empty,
    set_waits_for_the_thread_that_makes_it,
    all_waiters_get_it,
    timed_waits_take_their_time,
    waits_are_interrupted,
    recursion_is_told,
}

const LONG: Duration = Duration::from_secs(1000);

fn one_of_many_sets_it<L: Leg>() {
    for _ in 0..10 {
        let shared = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let ours = everywhere::<L, _>(2, move || {
            let me = theirs.1.fetch_add(1, SeqCst);
            let set = theirs.0.set(vec![me]);
            // It holds a value now, ours or not; and a value that was refused comes back.
            let value = theirs.0.get().expect("a value");
            match set {
                Ok(()) => assert_eq!(value, &[me]),
                Err(refused) => assert!(refused == [me] && value != &[me]),
            }
            value.clone()
        });
        assert!(ours.iter().all(|value| value == shared.0.get().unwrap()));
    }
}

fn one_of_many_makes_it<L: Leg>() {
    for _ in 0..10 {
        let shared = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        everywhere::<L, _>(2, move || {
            let value = theirs.0.get_or_init(|| {
                thread::yield_now();
                theirs.1.fetch_add(1, SeqCst);
                "made".to_string()
            });
            assert_eq!(value, "made");
        });
        assert_eq!(shared.1.load(SeqCst), 1);
    }
}

fn a_thread_that_fails_leaves_it_to_the_next<L: Leg>() {
    const FAILURES: usize = 5;
    let shared = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
    let theirs = Arc::clone(&shared);
    let results = everywhere::<L, _>(2, move || {
        let result = theirs.0.get_or_try_init(|| {
            thread::yield_now();
            let turn = theirs.1.fetch_add(1, SeqCst);
            if turn < FAILURES { Err(turn) } else { Ok(turn) }
        });
        result.copied()
    });
    assert_eq!(shared.1.load(SeqCst), FAILURES + 1);
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), FAILURES, "each gets its own error");
    assert!(results.iter().flatten().all(|&value| value == FAILURES));
    assert_eq!(shared.0.get_or_try_init(|| Err("not called")), Ok(&FAILURES));
}

fn a_panic_leaves_it_empty<L: Leg>() {
    L::new().run(|| {
        let cell: OnceLock<u32> = OnceLock::new();
        assert_eq!(message(|| cell.get_or_init(|| panic!("on purpose"))), "on purpose");
        assert_eq!(cell.get(), None);
        let tried = message(|| cell.get_or_try_init(|| -> Result<u32, ()> { panic!("again") }));
        assert_eq!(tried, "again");
        // Nothing is poisoned.
        assert_eq!(cell.set(3), Ok(()));
        assert_eq!(cell.get_or_init(|| 4), &3);
    });
}

fn set_waits_for_the_thread_that_makes_it<L: Leg>() {
    let rt = L::new();
    let cell = Arc::new(OnceLock::new());
    let (begun, wait_begun) = std::sync::mpsc::channel();
    let (looked, wait_looked) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&cell);
    let maker = rt.spawn(move || {
        *theirs.get_or_init(|| {
            begun.send(()).unwrap();
            wait_looked.recv().unwrap();
            1
        })
    });
    wait_begun.recv().unwrap();
    assert_eq!(cell.get(), None, "a look does not wait");
    let theirs = Arc::clone(&cell);
    let setter = rt.spawn(move || theirs.set(2));
    until_waits(&rt, &setter);
    looked.send(()).unwrap();
    assert_eq!(setter.join().unwrap(), Err(2));
    assert_eq!(cell.get(), Some(&1));
    assert_eq!(maker.join().unwrap(), 1);
}

fn all_waiters_get_it<L: Leg>() {
    let cell = Arc::new(OnceLock::new());
    let theirs = Arc::clone(&cell);
    let coming = Arc::new(AtomicUsize::new(0));
    let come = Arc::clone(&coming);
    let setter = std::thread::spawn(move || {
        while come.load(SeqCst) < 2 * KINDS {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2));
        // Failures do not end the waits.
        assert_eq!(cell.get_or_try_init(|| Err("not yet")), Err("not yet"));
        std::thread::sleep(Duration::from_millis(1));
        cell.set(7).unwrap();
    });
    let seen = everywhere::<L, _>(2, move || {
        coming.fetch_add(1, SeqCst);
        let waited = *theirs.wait();
        let again = [
            theirs.wait_for(LONG).copied(),
            theirs.wait_until(Instant::now()).copied(),
            theirs.wait_with(Wait::forever().interruptible()).ok().copied(),
        ];
        assert_eq!(again, [Some(7); 3]);
        waited
    });
    assert_eq!(seen, [7; 2 * KINDS]);
    setter.join().unwrap();
}

fn timed_waits_take_their_time<L: Leg>() {
    const WAIT: Duration = Duration::from_millis(3);
    let cell: Arc<OnceLock<u32>> = Arc::default();
    let took = everywhere::<L, _>(1, move || {
        let start = Instant::now();
        assert_eq!(cell.wait_for(WAIT), None);
        assert_eq!(cell.wait_until(Instant::now() + WAIT), None);
        assert_eq!(cell.wait_with(Wait::timeout(WAIT).interruptible()), Err(WaitError::TimedOut));
        let until = Wait::until(Instant::now() + WAIT).interruptible();
        assert_eq!(cell.wait_with(until), Err(WaitError::TimedOut));
        start.elapsed() >= 4 * WAIT
    });
    assert_eq!(took, [true; KINDS]);
}

fn waits_are_interrupted<L: Leg>() {
    let rt = L::new();
    let cell: Arc<OnceLock<u32>> = Arc::default();
    for round in 0..8 {
        let theirs = Arc::clone(&cell);
        let wait = move || {
            let wait = match round % 3 {
                0 => Wait::forever(),
                1 => Wait::timeout(LONG),
                _ => Wait::until(Instant::now() + LONG),
            };
            theirs.wait_with(wait.interruptible()) == Err(WaitError::Interrupted)
        };
        let waiter = rt.spawn_with(thread::Builder::new().bound(round % 2 == 1), wait).unwrap();
        if round % 4 < 2 {
            until_waits(&rt, &waiter);
        }
        waiter.thread().interrupt();
        assert!(waiter.join().unwrap());
    }
    cell.set(1).unwrap();
    thread::current().interrupt();
    let wait = Wait::forever().interruptible();
    assert_eq!(cell.wait_with(wait), Err(WaitError::Interrupted), "whether or not there is a value");
    assert_eq!(cell.wait_with(wait), Ok(&1));
}

fn recursion_is_told<L: Leg>() {
    let told = everywhere::<L, _>(1, || {
        let cell = OnceLock::new();
        let within = |again: fn(&OnceLock<u32>)| {
            message(|| {
                cell.get_or_init(|| {
                    again(&cell);
                    1
                });
            })
        };
        let told = [
            within(|cell| assert_eq!(cell.get_or_init(|| 2), &0)),
            within(|cell| assert_eq!(cell.get_or_try_init(|| Err(())), Ok(&0))),
            within(|cell| cell.set(2).unwrap()),
            within(|cell| assert_eq!(cell.wait(), &0)),
            within(|cell| assert_eq!(cell.wait_for(LONG), None)),
        ];
        assert_eq!(cell.get_or_init(|| cell.get().copied().unwrap_or(5)), &5, "a look is no wait");
        told
    });
    for said in told.iter().flatten() {
        assert_eq!(said, "reentrant init: the closure of this OnceLock waits for its own end");
    }
}

#[test]
fn cells_are_values() {
    let mut cell = OnceLock::new();
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_mut(), None);
    assert_eq!(cell.set(1), Ok(()));
    *cell.get_mut().unwrap() += 1;
    assert_eq!(cell.get(), Some(&2));
    assert_eq!(cell, OnceLock::from(2));
    assert_ne!(cell, OnceLock::from(3));
    assert_ne!(cell, OnceLock::new());
    let copy = cell.clone();
    assert_eq!(cell.take(), Some(2));
    assert_eq!(cell, OnceLock::new());
    assert_eq!((cell.take(), copy.get()), (None, Some(&2)));
    assert_eq!((cell.clone().into_inner(), copy.into_inner()), (None, Some(2)));
    assert_eq!(OnceLock::<u32>::default().get(), None);
}

#[test]
fn cells_say_what_is_in_them() {
    assert_eq!(format!("{:?}", OnceLock::<u32>::new()), "OnceLock(<uninit>)");
    assert_eq!(format!("{:?}", OnceLock::from(5)), "OnceLock(5)");
}
