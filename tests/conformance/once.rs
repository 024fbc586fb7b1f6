//! `Once` and `LazyLock`: what std's documentation promises, one by one, on every kind of thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge::sync::{LazyLock, Once, OnceLock};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};
use crate::waiting::until_waits;

both! {
    one_closure_runs_and_all_see_what_it_did,
    it_is_completed_when_the_closure_has_returned,
    callers_that_come_meanwhile_wait_for_the_end,
    a_closure_may_sleep_and_migrate,
    a_panic_poisons,
    a_panic_reaches_the_waiters,
    force_does_not_mind_a_panic,
    wait_ends_with_success,
    wait_panics_if_poisoned_and_force_does_not,
    timed_waits_take_their_time,
    calls_wait_for_others_at_most_so_long,
    waits_are_interrupted,
    recursion_is_told,
    a_lazy_value_is_made_once,
    a_lazy_value_stays_poisoned,
}

const LONG: Duration = Duration::from_secs(1000);

/// Runs `f`, which panics, and gives the message.
pub(crate) fn message<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).map(drop).expect_err("a panic");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
    }
}

/// Lets a closure run, until it is told to end.
fn running<R: Runtime>(rt: &R, once: &Arc<Once>, end: fn()) -> (thread::JoinHandle<()>, mpsc::Sender<()>) {
    let (begun, wait_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let once = Arc::clone(once);
    let thread = rt.spawn(move || {
        once.call_once(|| {
            begun.send(()).unwrap();
            // Dropped, it says so too.
            let _ = may_go_on.recv();
            end();
        });
    });
    wait_begun.recv().unwrap();
    (thread, go_on)
}

fn one_closure_runs_and_all_see_what_it_did<L: Leg>() {
    for _ in 0..20 {
        let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let seen = everywhere::<L, _>(3, move || {
            theirs.0.call_once(|| {
                // Relaxed, here and below: only the `Once` orders them.
                let before = theirs.1.load(Relaxed);
                theirs.1.store(before + 1, Relaxed);
            });
            theirs.1.load(Relaxed)
        });
        assert_eq!(seen, [1; 3 * KINDS]);
        assert!(shared.0.is_completed());
    }
}

fn it_is_completed_when_the_closure_has_returned<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    assert!(!once.is_completed());
    let (thread, go_on) = running(&rt, &once, || ());
    assert!(!once.is_completed());
    go_on.send(()).unwrap();
    thread.join().unwrap();
    assert!(once.is_completed());
    once.call_once(|| unreachable!());
    once.call_once_force(|_| unreachable!());
}

fn callers_that_come_meanwhile_wait_for_the_end<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    let (thread, go_on) = running(&rt, &once, || ());
    let others: Vec<_> = (0..6)
        .map(|n| {
            let once = Arc::clone(&once);
            let call = move || match n % 3 {
                0 => once.call_once(|| unreachable!()),
                1 => once.call_once_force(|_| unreachable!()),
                _ => once.wait(),
            };
            rt.spawn_with(thread::Builder::new().bound(n % 2 == 1), call).unwrap()
        })
        .collect();
    others.iter().for_each(|other| until_waits(&rt, other));
    assert!(others.iter().all(|other| !other.is_finished()));
    go_on.send(()).unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    thread.join().unwrap();
}

fn a_closure_may_sleep_and_migrate<L: Leg>() {
    let calls = Arc::new(AtomicUsize::new(0));
    let once = Arc::new(Once::new());
    let count = Arc::clone(&calls);
    everywhere::<L, _>(2, move || {
        once.call_once(|| {
            for _ in 0..20 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(2));
            if thread::spawn(|| 1).join().unwrap() == 1 {
                count.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(count.load(SeqCst), 1);
    });
}

fn a_panic_poisons<L: Leg>() {
    L::new().run(|| {
        let once = Once::new();
        assert_eq!(message(|| once.call_once(|| panic!("on purpose"))), "on purpose");
        assert!(!once.is_completed());
        // From now on all calls panic, and closures do not run.
        for _ in 0..2 {
            let said = message(|| once.call_once(|| unreachable!()));
            assert_eq!(said, "Once instance has previously been poisoned");
        }
        // Another panic leaves it as it is.
        assert_eq!(message(|| once.call_once_force(|_| panic!("again"))), "again");
        assert!(!once.is_completed());
        once.call_once_force(|state| assert!(state.is_poisoned()));
        assert!(once.is_completed());
        once.call_once(|| unreachable!());
        let fresh = Once::new();
        fresh.call_once_force(|state| assert!(!state.is_poisoned()));
        assert!(fresh.is_completed());
    });
}

fn a_panic_reaches_the_waiters<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    let (thread, go_on) = running(&rt, &once, || std::panic::resume_unwind(Box::new("on purpose")));
    let waiters: Vec<_> = (0..4)
        .map(|n| {
            let once = Arc::clone(&once);
            rt.spawn(move || {
                message(|| if n % 2 == 0 { once.call_once(|| unreachable!()) } else { once.wait() })
            })
        })
        .collect();
    drop(go_on);
    assert!(thread.join().is_err());
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), "Once instance has previously been poisoned");
    }
}

fn force_does_not_mind_a_panic<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    let (thread, go_on) = running(&rt, &once, || std::panic::resume_unwind(Box::new("on purpose")));
    let ran = Arc::new(AtomicUsize::new(0));
    let others: Vec<_> = (0..4)
        .map(|_| {
            let (once, ran) = (Arc::clone(&once), Arc::clone(&ran));
            rt.spawn(move || {
                once.call_once_force(|state| {
                    assert!(state.is_poisoned());
                    ran.fetch_add(1, SeqCst);
                });
            })
        })
        .collect();
    go_on.send(()).unwrap();
    assert!(thread.join().is_err());
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(ran.load(SeqCst), 1);
}

fn wait_ends_with_success<L: Leg>() {
    let once = Arc::new(Once::new());
    let (waits, done) = (Arc::clone(&once), Arc::new(AtomicUsize::new(0)));
    let theirs = Arc::clone(&done);
    let coming = Arc::new(AtomicUsize::new(0));
    let come = Arc::clone(&coming);
    // No call has begun when they come.
    let caller = std::thread::spawn(move || {
        while come.load(SeqCst) < 2 * KINDS {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2));
        once.call_once(|| theirs.store(1, Relaxed));
    });
    let seen = everywhere::<L, _>(2, move || {
        coming.fetch_add(1, SeqCst);
        waits.wait();
        done.load(Relaxed)
    });
    assert_eq!(seen, [1; 2 * KINDS]);
    caller.join().unwrap();
}

fn wait_panics_if_poisoned_and_force_does_not<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    let theirs = Arc::clone(&once);
    let forced = rt.spawn(move || theirs.wait_force());
    message(|| once.call_once(|| panic!("on purpose")));
    let poisoned = "Once instance has previously been poisoned";
    assert_eq!(message(|| once.wait()), poisoned);
    assert_eq!(message(|| once.wait_for(LONG)), poisoned);
    assert_eq!(message(|| once.wait_until(Instant::now() + LONG)), poisoned);
    assert_eq!(message(|| once.wait_with(Wait::forever().interruptible())), poisoned);
    until_waits(&rt, &forced);
    assert!(!forced.is_finished());
    once.call_once_force(|_| ());
    forced.join().unwrap();
    once.wait();
}

fn timed_waits_take_their_time<L: Leg>() {
    const WAIT: Duration = Duration::from_millis(3);
    let once = Arc::new(Once::new());
    let theirs = Arc::clone(&once);
    let took = everywhere::<L, _>(1, move || {
        let start = Instant::now();
        assert!(!theirs.wait_for(WAIT));
        assert!(!theirs.wait_until(Instant::now() + WAIT));
        assert_eq!(theirs.wait_with(Wait::timeout(WAIT).interruptible()), Err(WaitError::TimedOut));
        let until = Wait::until(Instant::now() + WAIT).interruptible();
        assert_eq!(theirs.wait_with(until), Err(WaitError::TimedOut));
        start.elapsed() >= 4 * WAIT
    });
    assert_eq!(took, [true; KINDS]);
    once.call_once(|| ());
    assert!(once.wait_for(Duration::ZERO) && once.wait_until(Instant::now()));
    assert!(once.wait_with(Wait::timeout(Duration::ZERO).interruptible()).is_ok());
    assert!(once.wait_with(Wait::forever().interruptible()).is_ok());
}

fn calls_wait_for_others_at_most_so_long<L: Leg>() {
    const WAIT: Duration = Duration::from_millis(3);
    let rt = L::new();
    let once = Arc::new(Once::new());
    let cell = Arc::new(OnceLock::new());
    let (thread, go_on) = running(&rt, &once, || ());
    let (fills, waits) = (Arc::clone(&cell), Arc::clone(&once));
    let (begun, wait_begun) = mpsc::channel();
    let maker = rt.spawn(move || {
        let value = fills.get_or_init(|| {
            begun.send(()).unwrap();
            waits.wait();
            7
        });
        assert_eq!(*value, 7);
    });
    wait_begun.recv().unwrap();
    let theirs = (Arc::clone(&once), Arc::clone(&cell));
    let took = everywhere::<L, _>(1, move || {
        let start = Instant::now();
        assert!(!theirs.0.call_once_for(|| unreachable!(), WAIT));
        assert!(!theirs.0.call_once_until(|| unreachable!(), Instant::now() + WAIT));
        assert_eq!(theirs.1.get_or_init_for(|| unreachable!(), WAIT), None);
        assert_eq!(theirs.1.get_or_init_until(|| unreachable!(), Instant::now() + WAIT), None);
        start.elapsed() >= 4 * WAIT
    });
    assert_eq!(took, [true; KINDS]);
    let waits = Arc::clone(&once);
    let in_time = rt.spawn(move || waits.call_once_for(|| unreachable!(), LONG));
    go_on.send(()).unwrap();
    assert!(in_time.join().unwrap());
    thread.join().unwrap();
    maker.join().unwrap();
    assert_eq!(cell.get_or_init_until(|| unreachable!(), Instant::now()), Some(&7));
    assert!(once.call_once_for(|| unreachable!(), Duration::ZERO));
    // The thread that runs the closure has all the time.
    let slow = || thread::sleep(WAIT);
    assert!(Once::new().call_once_for(slow, Duration::ZERO));
    assert!(Once::new().call_once_until(slow, Instant::now()));
    assert_eq!(OnceLock::new().get_or_init_for(slow, Duration::ZERO), Some(&()));
    assert_eq!(LazyLock::force_until(&LazyLock::new(slow), Instant::now()), Some(&()));
}

#[test]
fn a_lazy_value_that_another_makes_is_waited_for_so_long() {
    static GO_ON: Once = Once::new();
    static BEGUN: Once = Once::new();
    static LAZY: LazyLock<u32> = LazyLock::new(|| {
        BEGUN.call_once(|| ());
        GO_ON.wait();
        5
    });
    let maker = std::thread::spawn(|| *LAZY);
    BEGUN.wait();
    assert_eq!(LazyLock::force_for(&LAZY, Duration::from_millis(2)), None);
    assert_eq!(LazyLock::force_until(&LAZY, Instant::now()), None);
    GO_ON.call_once(|| ());
    assert_eq!(LazyLock::force_for(&LAZY, LONG), Some(&5));
    assert_eq!(maker.join().unwrap(), 5);
}

fn waits_are_interrupted<L: Leg>() {
    let rt = L::new();
    let once = Arc::new(Once::new());
    for round in 0..8 {
        let theirs = Arc::clone(&once);
        let wait = move || {
            let wait = match round % 3 {
                0 => Wait::forever(),
                1 => Wait::timeout(LONG),
                _ => Wait::until(Instant::now() + LONG),
            };
            let told = theirs.wait_with(wait.interruptible());
            told == Err(WaitError::Interrupted) && !thread::take_interrupt()
        };
        let waiter = rt.spawn_with(thread::Builder::new().bound(round % 2 == 1), wait).unwrap();
        if round % 4 < 2 {
            until_waits(&rt, &waiter);
        }
        waiter.thread().interrupt();
        assert!(waiter.join().unwrap());
    }
    // Calls do not notice.
    let (thread, go_on) = running(&rt, &once, || ());
    let theirs = Arc::clone(&once);
    let calls = rt.spawn(move || {
        theirs.call_once(|| unreachable!());
        thread::take_interrupt()
    });
    calls.thread().interrupt();
    go_on.send(()).unwrap();
    assert!(calls.join().unwrap());
    thread.join().unwrap();
}

fn recursion_is_told<L: Leg>() {
    let told = everywhere::<L, _>(1, || {
        let once = Once::new();
        let within = |again: fn(&Once)| message(|| once.call_once_force(|_| again(&once)));
        let told = [
            within(|once| once.call_once(|| ())),
            within(|once| once.call_once_force(|_| ())),
            within(Once::wait),
            within(Once::wait_force),
            within(|once| assert!(once.wait_for(LONG))),
        ];
        // It panics, and so is as after a panic; no thread waits for it.
        assert!(!once.is_completed());
        once.call_once_force(|state| assert!(state.is_poisoned()));
        told
    });
    for said in told.iter().flatten() {
        assert_eq!(said, "reentrant init: the closure of this Once waits for its own end");
    }
}

fn a_lazy_value_is_made_once<L: Leg>() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let lazy = Arc::new(LazyLock::new(move || {
        thread::yield_now();
        count.fetch_add(1, SeqCst);
        vec![1, 2, 3]
    }));
    assert_eq!(format!("{:?}", *lazy), "LazyLock(<uninit>)");
    assert!(LazyLock::get(&lazy).is_none());
    assert_eq!(made.load(SeqCst), 0, "it was not wanted");
    let theirs = Arc::clone(&lazy);
    let seen = everywhere::<L, _>(2, move || {
        let forced: *const Vec<i32> = LazyLock::force(&theirs);
        assert!(std::ptr::eq(forced, &**theirs));
        theirs.len()
    });
    assert_eq!(seen, [3; 2 * KINDS]);
    assert_eq!(made.load(SeqCst), 1);
    assert_eq!(format!("{:?}", *lazy), "LazyLock([1, 2, 3])");
}

fn a_lazy_value_stays_poisoned<L: Leg>() {
    L::new().run(|| {
        let lazy: LazyLock<u32> = LazyLock::new(|| panic!("on purpose"));
        assert_eq!(message(|| *lazy), "on purpose");
        for _ in 0..2 {
            assert_eq!(message(|| *lazy), "LazyLock instance has previously been poisoned");
        }
        assert!(LazyLock::get(&lazy).is_none());
        let said = message(|| LazyLock::into_inner(lazy));
        assert_eq!(said, "LazyLock instance has previously been poisoned");
    });
}

#[test]
fn lazy_values_are_got_and_changed() {
    let mut lazy = LazyLock::new(|| 1);
    assert_eq!(LazyLock::get_mut(&mut lazy), None);
    *LazyLock::force_mut(&mut lazy) += 1;
    *LazyLock::get_mut(&mut lazy).unwrap() += 1;
    assert_eq!((LazyLock::get(&lazy), *lazy), (Some(&3), 3));
    *lazy += 1;
    assert_eq!(LazyLock::into_inner(lazy).ok(), Some(4));
    let mut unmade = LazyLock::new(|| vec![1]);
    unmade.push(2);
    assert_eq!(*unmade, [1, 2]);
    let mut made: LazyLock<String> = LazyLock::from("made".to_string());
    assert_eq!(LazyLock::get(&made).map(String::as_str), Some("made"));
    made.push('!');
    assert_eq!(LazyLock::into_inner(made).ok().unwrap(), "made!");
    drop(LazyLock::<String>::from("dropped".to_string()));
    let mut failed: LazyLock<u32> = LazyLock::new(|| panic!("on purpose"));
    assert_eq!(message(|| *failed += 1), "on purpose");
    assert_eq!(message(|| *failed += 1), "LazyLock instance has previously been poisoned");
    assert_eq!(*LazyLock::<String>::default(), "");
    let Err(closure) = LazyLock::into_inner(LazyLock::new(|| 5)) else { panic!("it was not wanted") };
    assert_eq!(closure(), 5);
    static RECURSIVE: LazyLock<u32> = LazyLock::new(|| *RECURSIVE + 1);
    let said = message(|| *RECURSIVE);
    assert_eq!(said, "reentrant init: the closure of this LazyLock waits for its own end");
}

#[test]
fn it_says_what_it_is() {
    assert_eq!(format!("{:?}", Once::default()), "Once { .. }");
    Once::new().call_once_force(|state| assert_eq!(format!("{state:?}"), "OnceState { poisoned: false }"));
}
