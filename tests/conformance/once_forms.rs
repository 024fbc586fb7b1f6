//! What is done once, in the forms that end early: by a deadline, or an interrupt.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Interrupted, LazyLock, Once, OnceLock};
use selvedge::thread::JoinHandle;
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::once::message;

both! {
    who_does_not_wait_long_is_told,
    who_is_interrupted_is_told,
    who_comes_first_does_it,
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

/// One of each, whose closures are at the gate, run by other threads.
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

/// Waits, or would do it, at most for so long; whether it is done. One without a deadline has all the time.
type Form = fn(&Slow, Duration) -> Result<bool, Interrupted>;

/// Asked for nothing that is not done already by somebody else.
fn never<T>() -> T {
    unreachable!("somebody else does it")
}

fn at(time: Duration) -> Instant {
    Instant::now() + time
}

const TIMED: [(&str, Form); 6] = [
    ("call_once_force_for", |slow, time| Ok(slow.once.call_once_force_for(|_| never(), time))),
    ("call_once_force_until", |slow, time| Ok(slow.once.call_once_force_until(|_| never(), at(time)))),
    ("wait_force_for", |slow, time| Ok(slow.once.wait_force_for(time))),
    ("wait_force_until", |slow, time| Ok(slow.once.wait_force_until(at(time)))),
    ("get_or_try_init_for", |slow, time| {
        Ok(slow.cell.get_or_try_init_for(never::<Result<_, ()>>, time).unwrap() == Some(&7))
    }),
    ("get_or_try_init_until", |slow, time| {
        Ok(slow.cell.get_or_try_init_until(never::<Result<_, ()>>, at(time)).unwrap() == Some(&7))
    }),
];

const TIMED_INTERRUPTIBLE: [(&str, Form); 12] = [
    ("call_once_interruptible_for", |slow, time| slow.once.call_once_interruptible_for(never, time)),
    ("call_once_interruptible_until", |slow, time| slow.once.call_once_interruptible_until(never, at(time))),
    ("call_once_force_interruptible_for", |slow, time| {
        slow.once.call_once_force_interruptible_for(|_| never(), time)
    }),
    ("call_once_force_interruptible_until", |slow, time| {
        slow.once.call_once_force_interruptible_until(|_| never(), at(time))
    }),
    ("wait_force_interruptible_for", |slow, time| slow.once.wait_force_interruptible_for(time)),
    ("wait_force_interruptible_until", |slow, time| slow.once.wait_force_interruptible_until(at(time))),
    ("get_or_init_interruptible_for", |slow, time| {
        slow.cell.get_or_init_interruptible_for(never, time).map(|value| value == Some(&7))
    }),
    ("get_or_init_interruptible_until", |slow, time| {
        slow.cell.get_or_init_interruptible_until(never, at(time)).map(|value| value == Some(&7))
    }),
    ("get_or_try_init_interruptible_for", |slow, time| {
        let made = slow.cell.get_or_try_init_interruptible_for(never::<Result<_, ()>>, time)?;
        Ok(made.unwrap() == Some(&7))
    }),
    ("get_or_try_init_interruptible_until", |slow, time| {
        let made = slow.cell.get_or_try_init_interruptible_until(never::<Result<_, ()>>, at(time))?;
        Ok(made.unwrap() == Some(&7))
    }),
    ("force_interruptible_for", |slow, time| {
        LazyLock::force_interruptible_for(&slow.lazy, time).map(|value| value == Some(&7))
    }),
    ("force_interruptible_until", |slow, time| {
        LazyLock::force_interruptible_until(&slow.lazy, at(time)).map(|value| value == Some(&7))
    }),
];

const INTERRUPTIBLE: [(&str, Form); 6] = [
    ("call_once_interruptible", |slow, _| slow.once.call_once_interruptible(never).map(|()| true)),
    ("call_once_force_interruptible", |slow, _| {
        slow.once.call_once_force_interruptible(|_| never()).map(|()| true)
    }),
    ("wait_force_interruptible", |slow, _| slow.once.wait_force_interruptible().map(|()| true)),
    ("get_or_init_interruptible", |slow, _| {
        slow.cell.get_or_init_interruptible(never).map(|value| *value == 7)
    }),
    ("get_or_try_init_interruptible", |slow, _| {
        let made = slow.cell.get_or_try_init_interruptible(never::<Result<_, ()>>)?;
        Ok(made == Ok(&7))
    }),
    ("force_interruptible", |slow, _| LazyLock::force_interruptible(&slow.lazy).map(|value| *value == 7)),
];

fn who_does_not_wait_long_is_told<L: Leg>() {
    let rt = L::new();
    let (slow, threads) = Slow::start(&rt);
    rt.run(|| {
        for (what, form) in TIMED.into_iter().chain(TIMED_INTERRUPTIBLE) {
            let start = Instant::now();
            assert_eq!(form(&slow, SHORT), Ok(false), "{what}");
            assert!(start.elapsed() >= SHORT, "{what}: {:?}", start.elapsed());
        }
    });
    let waiters = TIMED.into_iter().chain(TIMED_INTERRUPTIBLE).chain(INTERRUPTIBLE).map(|(what, form)| {
        let slow = Arc::clone(&slow);
        (what, rt.spawn(move || form(&slow, LONG)))
    });
    let waiters: Vec<_> = waiters.collect();
    slow.end(threads);
    for (what, waiter) in waiters {
        assert_eq!(waiter.join().unwrap(), Ok(true), "{what}");
    }
    rt.run(|| {
        for (what, form) in TIMED.into_iter().chain(TIMED_INTERRUPTIBLE).chain(INTERRUPTIBLE) {
            assert_eq!(form(&slow, Duration::ZERO), Ok(true), "{what}: done");
        }
    });
}

fn who_is_interrupted_is_told<L: Leg>() {
    let rt = L::new();
    let (slow, threads) = Slow::start(&rt);
    for (what, form) in TIMED_INTERRUPTIBLE.into_iter().chain(INTERRUPTIBLE) {
        for round in 0..4 {
            let theirs = Arc::clone(&slow);
            let wait = move || (form(&theirs, LONG).is_err(), thread::interrupted());
            let waiter = rt.spawn_with(thread::Builder::new().bound(round % 2 == 1), wait).unwrap();
            if round < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            waiter.thread().interrupt();
            assert_eq!(waiter.join().unwrap(), (true, false), "{what}");
        }
    }
    slow.end(threads);
    rt.run(|| {
        for (what, form) in TIMED_INTERRUPTIBLE.into_iter().chain(INTERRUPTIBLE) {
            thread::current().interrupt();
            assert!(form(&slow, LONG).is_err(), "{what}: although it is done");
            assert!(!thread::interrupted(), "{what}");
        }
        for (what, form) in TIMED {
            thread::current().interrupt();
            assert_eq!(
                (form(&slow, LONG), thread::interrupted()),
                (Ok(true), true),
                "{what}: takes no notice"
            );
        }
    });
}

fn who_comes_first_does_it<L: Leg>() {
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
        assert!(thread::interrupted());
        assert!(Once::new().call_once_force_until(slow, Instant::now()));
        assert!(thread::interrupted());
        assert_eq!(Once::new().call_once_force_interruptible(slow), Ok(()));
        assert!(thread::interrupted());
        assert_eq!(Once::new().call_once_force_interruptible_for(slow, Duration::ZERO), Ok(true));
        assert!(thread::interrupted());
        assert_eq!(Once::new().call_once_force_interruptible_until(slow, Instant::now()), Ok(true));
        assert!(thread::interrupted());
        assert_eq!(Once::new().call_once_interruptible(count), Ok(()));
        assert_eq!(Once::new().call_once_interruptible_for(count, Duration::ZERO), Ok(true));
        assert_eq!(Once::new().call_once_interruptible_until(count, Instant::now()), Ok(true));
        assert_eq!(OnceLock::new().get_or_init_interruptible(count), Ok(&()));
        assert_eq!(OnceLock::new().get_or_init_interruptible_for(count, Duration::ZERO), Ok(Some(&())));
        assert_eq!(OnceLock::new().get_or_init_interruptible_until(count, Instant::now()), Ok(Some(&())));
        assert_eq!(LazyLock::force_interruptible(&LazyLock::new(count)), Ok(&()));
        assert_eq!(LazyLock::force_interruptible_for(&LazyLock::new(count), Duration::ZERO), Ok(Some(&())));
        assert_eq!(done.load(SeqCst), 13);
    });
}

fn a_failure_is_told_in_all_forms<L: Leg>() {
    L::new().run(|| {
        // That of a closure.
        let cell = OnceLock::<u32>::new();
        assert_eq!(cell.get_or_try_init_for(|| Err("no"), Duration::ZERO), Err("no"));
        assert_eq!(cell.get_or_try_init_until(|| Err("no"), Instant::now()), Err("no"));
        assert_eq!(cell.get_or_try_init_interruptible(|| Err("no")), Ok(Err("no")));
        assert_eq!(cell.get_or_try_init_interruptible_for(|| Err("no"), Duration::ZERO), Ok(Err("no")));
        assert_eq!(cell.get_or_try_init_interruptible_until(|| Err("no"), Instant::now()), Ok(Err("no")));
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_or_try_init_for(|| Ok::<_, ()>(3), Duration::ZERO), Ok(Some(&3)));

        // A panic.
        let once = Once::new();
        assert_eq!(message(|| once.call_once_interruptible(|| panic!("on purpose"))), "on purpose");
        let poisoned = "Once instance has previously been poisoned";
        assert_eq!(message(|| once.call_once_interruptible(|| ())), poisoned);
        assert_eq!(message(|| once.call_once_interruptible_for(|| (), LONG)), poisoned);
        assert!(!once.wait_force_for(SHORT), "a panic is not the end");
        assert_eq!(once.wait_force_interruptible_for(SHORT), Ok(false));
        let mut told = false;
        assert_eq!(once.call_once_force_interruptible(|state| told = state.is_poisoned()), Ok(()));
        assert!(told && once.is_completed());
        let lazy: LazyLock<u32> = LazyLock::new(|| panic!("on purpose"));
        assert_eq!(message(|| LazyLock::force_interruptible(&lazy)), "on purpose");
        assert_eq!(
            message(|| LazyLock::force_interruptible_for(&lazy, LONG)),
            "LazyLock instance has previously been poisoned"
        );

        // Of a closure that waits for its own end.
        let once = Once::new();
        let said = message(|| once.call_once(|| once.call_once_interruptible(|| ()).unwrap()));
        assert_eq!(said, "reentrant init: the closure of this Once waits for its own end");
    });
}
