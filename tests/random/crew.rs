//! The threads that the scripts run on, one of each kind.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use selvedge::channel::{self, Sender};
use selvedge::thread::{Builder, Thread};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use crate::engine::{Call, Length, Manner, Ret, Spec, Step, play};
use crate::random;
use crate::watchdog::Watchdog;

/// The number of workers: two green threads, a bound one, a 1:1 thread, and two foreign threads.
pub(crate) const WORKERS: usize = 6;

/// The number of workers that play the scripts: all except the last, which releases the others.
pub(crate) const PLAYERS: usize = WORKERS - 1;

type Job = Box<dyn FnOnce() -> Ret + Send>;

/// Threads that take jobs. If one of them hangs, all are abandoned.
pub(crate) struct Crew {
    jobs: Vec<Sender<Job>>,
    threads: Vec<Thread>,
    reports: mpsc::Receiver<(usize, Ret)>,
}

impl Crew {
    fn new() -> Self {
        // Leaked, because dropping a runtime waits for its threads, and one may hang.
        let green = Box::leak(Box::new(Mxn::builder().concurrency(2).build().expect("an M:N runtime")));
        let kernel = Box::leak(Box::new(OneToOne::new().expect("a 1:1 runtime")));
        let (report, reports) = mpsc::channel();
        let (mut jobs, mut threads) = (Vec::new(), Vec::new());
        for me in 0..WORKERS {
            let (job, inbox) = channel::unbounded::<Job>();
            let (hello, is_there) = mpsc::channel();
            let report = report.clone();
            let work = move || {
                hello.send(thread::current()).expect("the coordinator waits");
                for job in inbox {
                    let ret = catch_unwind(AssertUnwindSafe(job)).unwrap_or(Ret::Panicked);
                    _ = report.send((me, ret));
                }
            };
            match me {
                0 | 1 => drop(green.spawn(work)),
                2 => drop(Builder::new().bound(true).spawn_on(green, work).expect("a bound thread")),
                3 => drop(kernel.spawn(work)),
                _ => drop(std::thread::spawn(work)),
            }
            threads.push(is_there.recv().expect("the worker starts"));
            jobs.push(job);
        }
        Self { jobs, threads, reports }
    }

    pub(crate) fn threads(&self) -> Vec<Thread> {
        self.threads.clone()
    }

    pub(crate) fn call(&self, thread: usize, job: Job) {
        assert!(self.jobs[thread].send(job).is_ok(), "the worker is there");
    }

    /// Returns the next return of a call, if one comes within this time.
    pub(crate) fn report(&self, time: Duration) -> Option<(usize, Ret)> {
        self.reports.recv_timeout(time).ok()
    }

    /// Clears the tokens and interrupts that the last script left in the threads.
    pub(crate) fn reset(&self) {
        for worker in 0..WORKERS {
            let job = || {
                thread::park_timeout(Duration::ZERO);
                _ = thread::take_interrupt();
                Ret::Done
            };
            self.call(worker, Box::new(job));
        }
        for _ in 0..WORKERS {
            self.reports.recv().expect("idle workers answer");
        }
    }
}

/// The time within which a thread that must wake does so, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// The same while a failure shrinks. If it is too short there, only the smallest script changes.
const LESS_PATIENCE: Duration = Duration::from_secs(2);

/// Returns the ways in which calls wait, with their frequencies.
pub(crate) fn manners() -> impl Strategy<Value = Manner> {
    let wait = prop_oneof![
        2 => Just(Length::Try),
        3 => Just(Length::Brief),
        2 => Just(Length::Long),
        4 => Just(Length::Endless),
    ];
    (wait, any::<bool>()).prop_map(|(wait, interruptible)| Manner { wait, interruptible })
}

fn steps<Op: Clone + std::fmt::Debug>(
    ops: impl Strategy<Value = Op>,
) -> impl Strategy<Value = Vec<Step<Op>>> {
    let call = prop_oneof![
        8 => (0..PLAYERS, ops).prop_map(|(thread, op)| Call::Op(thread, op)),
        1 => (0..PLAYERS).prop_map(Call::Interrupt),
    ];
    let step = (call, prop::bool::weighted(0.6), prop::bool::weighted(0.2))
        .prop_map(|(call, settles, pauses)| Step { call, settles, pauses });
    prop::collection::vec(step, 0..24)
}

/// Plays random scripts of `ops` on random values of `specs`.
pub(crate) fn check<S: Spec>(cases: u32, specs: impl Strategy<Value = S>, ops: impl Strategy<Value = S::Op>) {
    let _dog = Watchdog::start(format!("random scripts of {}", std::any::type_name::<S>()));
    let state = RefCell::new((None, PATIENCE));
    random::check(cases, &(specs, steps(ops)), |(spec, steps)| {
        let (crew, patience) = &mut *state.borrow_mut();
        let played = play(crew.get_or_insert_with(Crew::new), &spec, &steps, *patience);
        if let Err(why) = played {
            // The crew's threads may hang or own a lock.
            std::mem::forget(crew.take());
            *patience = LESS_PATIENCE;
            panic!("{why}");
        }
    });
}
