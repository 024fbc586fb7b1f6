//! What is done once, in the forms that end early: by a deadline, or an interrupt.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, LazyLock, Once, OnceLock};
use selvedge::thread::JoinHandle;
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::once::message;
use crate::waiting::until_waits;

both! {
    a_caller_that_does_not_wait_long_is_told,
    an_interrupted_waiter_is_told,
    the_first_to_come_does_it,
    a_failure_is_told_in_all_forms,
}

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(3);

/// Where closures stand until they may go on.
struct Gate {
    begun: Barrier,
    go_on: Once,
}

impl Gate {
    fn pass(&self) {
        self.begun.wait();
        self.go_on.wait();
    }
}

/// One of each. Other threads run the closures, which wait at the gate.
struct Slow {
    gate: Arc<Gate>,
    once: Once,
    cell: OnceLock<u32>,
    lazy: LazyLock<u32, Box<dyn FnOnce() -> u32 + Send>>,
}

impl Slow {
    fn start<R: Runtime>(rt: &R) -> (Arc<Self>, [JoinHandle<()>; 3]) {
        let gate = Arc::new(Gate { begun: Barrier::new(4), go_on: Once::new() });
        let lazys = Arc::clone(&gate);
        let make = move || {
            lazys.pass();
            7_u32
        };
        let lazy = LazyLock::new(Box::new(make) as Box<_>);
        let slow = Arc::new(Self { gate, once: Once::new(), cell: OnceLock::new(), lazy });
        let run: [fn(&Self); 3] = [
            |slow| slow.once.call_once(|| slow.gate.pass()),
            |slow| {
                slow.cell.get_or_init(|| {
                    slow.gate.pass();
                    7
                });
            },
            |slow| assert_eq!(*slow.lazy, 7),
        ];
        let threads = run.map(|run| {
            let slow = Arc::clone(&slow);
            rt.spawn(move || run(&slow))
        });
        slow.gate.begun.wait();
        (slow, threads)
    }

    /// The closures end.
    fn end(&self, threads: [JoinHandle<()>; 3]) {
        self.gate.go_on.call_once(|| ());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Waits, or would do it, at most for so long; whether it is done.
type Timed = fn(&Slow, Duration) -> bool;

/// Waits, or would do it, as the argument says.
type With = fn(&Slow, Wait) -> Result<bool, WaitError>;

/// Called only if another thread has not done it already.
fn never<T>() -> T {
    unreachable!("another thread does it")
}

fn at(time: Duration) -> Instant {
    Instant::now() + time
}

const TIMED: [(&str, Timed); 6] = [
    ("call_once_force_for", |slow, time| slow.once.call_once_force_for(|_| never(), time)),
    ("call_once_force_until", |slow, time| slow.once.call_once_force_until(|_| never(), at(time))),
    ("wait_force_for", |slow, time| slow.once.wait_force_for(time)),
    ("wait_force_until", |slow, time| slow.once.wait_force_until(at(time))),
    ("get_or_try_init_for", |slow, time| {
        slow.cell.get_or_try_init_for(never::<Result<_, ()>>, time).unwrap() == Some(&7)
    }),
    ("get_or_try_init_until", |slow, time| {
        slow.cell.get_or_try_init_until(never::<Result<_, ()>>, at(time)).unwrap() == Some(&7)
    }),
];

const WITH: [(&str, With); 6] = [
    ("call_once_with", |slow, wait| slow.once.call_once_with(wait, never).map(|()| true)),
    ("call_once_force_with", |slow, wait| slow.once.call_once_force_with(wait, |_| never()).map(|()| true)),
    ("wait_force_with", |slow, wait| slow.once.wait_force_with(wait).map(|()| true)),
    ("get_or_init_with", |slow, wait| slow.cell.get_or_init_with(wait, never).map(|value| *value == 7)),
    ("get_or_try_init_with", |slow, wait| {
        Ok(slow.cell.get_or_try_init_with(wait, never::<Result<_, ()>>)? == Ok(&7))
    }),
    ("force_with", |slow, wait| LazyLock::force_with(&slow.lazy, wait).map(|value| *value == 7)),
];

/// The ways to limit a wait, if at all.
const LIMITS: [fn(Duration) -> Wait; 3] = [Wait::timeout, |time| Wait::until(at(time)), |_| Wait::forever()];

/// Each form with each way to limit it.
fn limited() -> impl Iterator<Item = (&'static str, With, fn(Duration) -> Wait)> {
    WITH.into_iter().flat_map(|(what, form)| LIMITS.map(|limit| (what, form, limit)))
}

fn a_caller_that_does_not_wait_long_is_told<L: Leg>() {
    let rt = L::new();
    let (slow, threads) = Slow::start(&rt);
    rt.run(|| {
        for (what, form) in TIMED {
            let start = Instant::now();
            assert!(!form(&slow, SHORT), "{what}");
            assert!(start.elapsed() >= SHORT, "{what}: {:?}", start.elapsed());
        }
        for (what, form, limit) in limited().filter(|(.., limit)| limit(SHORT) != Wait::forever()) {
            let start = Instant::now();
            assert_eq!(form(&slow, limit(SHORT).interruptible()), Err(WaitError::TimedOut), "{what}");
            assert!(start.elapsed() >= SHORT, "{what}: {:?}", start.elapsed());
        }
    });
    let timed = TIMED.map(|(what, form)| {
        let slow = Arc::clone(&slow);
        (what, rt.spawn(move || Ok(form(&slow, LONG))))
    });
    let with = limited().map(|(what, form, limit)| {
        let slow = Arc::clone(&slow);
        (what, rt.spawn(move || form(&slow, limit(LONG).interruptible())))
    });
    let waiters: Vec<_> = timed.into_iter().chain(with).collect();
    slow.end(threads);
    for (what, waiter) in waiters {
        assert_eq!(waiter.join().unwrap(), Ok(true), "{what}");
    }
    rt.run(|| {
        for (what, form) in TIMED {
            assert!(form(&slow, Duration::ZERO), "{what}: done");
        }
        for (what, form, limit) in limited() {
            assert_eq!(form(&slow, limit(Duration::ZERO).interruptible()), Ok(true), "{what}: done");
        }
    });
}

fn an_interrupted_waiter_is_told<L: Leg>() {
    let rt = L::new();
    let (slow, threads) = Slow::start(&rt);
    for (what, form, limit) in limited() {
        for round in 0..4 {
            let theirs = Arc::clone(&slow);
            let wait = move || (form(&theirs, limit(LONG).interruptible()), thread::take_interrupt());
            let waiter = rt.spawn_with(thread::Builder::new().bound(round % 2 == 1), wait).unwrap();
            if round < 2 {
                until_waits(&rt, &waiter);
            }
            waiter.thread().interrupt();
            assert_eq!(waiter.join().unwrap(), (Err(WaitError::Interrupted), false), "{what}");
        }
    }
    slow.end(threads);
    rt.run(|| {
        for (what, form, limit) in limited() {
            thread::current().interrupt();
            let told = form(&slow, limit(LONG).interruptible());
            assert_eq!(told, Err(WaitError::Interrupted), "{what}: although it is done");
            assert!(!thread::take_interrupt(), "{what}");
            thread::current().interrupt();
            let told = (form(&slow, limit(LONG)), thread::take_interrupt());
            assert_eq!(told, (Ok(true), true), "{what}: takes no notice");
        }
        for (what, form) in TIMED {
            thread::current().interrupt();
            assert_eq!(
                (form(&slow, LONG), thread::take_interrupt()),
                (true, true),
                "{what}: takes no notice"
            );
        }
    });
}

fn the_first_to_come_does_it<L: Leg>() {
    L::new().run(|| {
        let done = AtomicUsize::new(0);
        let count = || {
            done.fetch_add(1, SeqCst);
        };
        // Its own closure may take its time, and is not interrupted.
        let slow = |_: &_| {
            thread::sleep(SHORT);
            thread::current().interrupt();
            count();
        };
        assert!(Once::new().call_once_force_for(slow, Duration::ZERO));
        assert!(thread::take_interrupt());
        assert!(Once::new().call_once_force_until(slow, Instant::now()));
        assert!(thread::take_interrupt());
        for limit in LIMITS {
            let wait = limit(Duration::ZERO).interruptible();
            assert_eq!(Once::new().call_once_force_with(wait, slow), Ok(()));
            assert!(thread::take_interrupt());
            assert_eq!(Once::new().call_once_with(wait, count), Ok(()));
            assert_eq!(OnceLock::new().get_or_init_with(wait, count), Ok(&()));
            assert_eq!(LazyLock::force_with(&LazyLock::new(count), wait), Ok(&()));
        }
        assert_eq!(done.load(SeqCst), 2 + 3 * 4);
    });
}

fn a_failure_is_told_in_all_forms<L: Leg>() {
    L::new().run(|| {
        // That of a closure.
        let cell = OnceLock::<u32>::new();
        assert_eq!(cell.get_or_try_init_for(|| Err("no"), Duration::ZERO), Err("no"));
        assert_eq!(cell.get_or_try_init_until(|| Err("no"), Instant::now()), Err("no"));
        for limit in LIMITS {
            let wait = limit(Duration::ZERO).interruptible();
            assert_eq!(cell.get_or_try_init_with(wait, || Err("no")), Ok(Err("no")));
        }
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_or_try_init_for(|| Ok::<_, ()>(3), Duration::ZERO), Ok(Some(&3)));

        // A panic.
        let (once, endless) = (Once::new(), Wait::forever().interruptible());
        let long = Wait::timeout(LONG).interruptible();
        assert_eq!(message(|| once.call_once_with(endless, || panic!("on purpose"))), "on purpose");
        let poisoned = "Once instance has previously been poisoned";
        assert_eq!(message(|| once.call_once_with(endless, || ())), poisoned);
        assert_eq!(message(|| once.call_once_with(long, || ())), poisoned);
        assert!(!once.wait_force_for(SHORT), "a panic is not the end");
        let short = Wait::timeout(SHORT).interruptible();
        assert_eq!(once.wait_force_with(short), Err(WaitError::TimedOut));
        let mut told = false;
        assert_eq!(once.call_once_force_with(endless, |state| told = state.is_poisoned()), Ok(()));
        assert!(told && once.is_completed());
        let lazy: LazyLock<u32> = LazyLock::new(|| panic!("on purpose"));
        assert_eq!(message(|| LazyLock::force_with(&lazy, endless)), "on purpose");
        assert_eq!(
            message(|| LazyLock::force_with(&lazy, long)),
            "LazyLock instance has previously been poisoned"
        );

        // Of a closure that waits for its own end.
        let once = Once::new();
        let said = message(|| once.call_once(|| once.call_once_with(endless, || ()).unwrap()));
        assert_eq!(said, "reentrant init: the closure of this Once waits for its own end");
    });
}
