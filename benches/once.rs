//! What do a semaphore cost that has permits, and a `Once` that is done? And how large are they?

mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync::{LazyLock, Once, OnceLock, Semaphore};
use selvedge::thread;
use support::apart::Apart;
use support::contender::{Loop, OURS, called, some_threads};
use support::harness::{Case, Question, Unit, answer};

fn main() -> ExitCode {
    let mut semaphore = ours(take_and_put_back);
    semaphore.extend([
        peer("std's mutex", |n| times(n, std::sync::Mutex::new(()), |mutex| drop(mutex.lock()))),
        peer("parking_lot's mutex", |n| times(n, parking_lot::Mutex::new(()), |mutex| drop(mutex.lock()))),
        peer("tokio, try_acquire", |n| {
            times(n, tokio::sync::Semaphore::new(1), |semaphore| drop(semaphore.try_acquire()))
        }),
        peer("sem_t", |n| times(n, SemT::new(1), |semaphore| semaphore.wait().post())),
    ]);
    let mut done = ours(|n| {
        let once = Once::new();
        once.call_once(|| ());
        times(n, once, |once| once.call_once(|| unreachable!()))
    });
    done.extend([
        peer("std", |n| {
            let once = std::sync::Once::new();
            once.call_once(|| ());
            times(n, once, |once| once.call_once(|| unreachable!()))
        }),
        peer("parking_lot", |n| {
            let once = parking_lot::Once::new();
            once.call_once(|| ());
            times(n, once, |once| once.call_once(|| unreachable!()))
        }),
    ]);
    let mut first = ours(|n| times(n, (), |()| black_box(Once::new()).call_once(|| ())));
    first.extend([
        peer("std", |n| times(n, (), |()| black_box(std::sync::Once::new()).call_once(|| ()))),
        peer("parking_lot", |n| times(n, (), |()| black_box(parking_lot::Once::new()).call_once(|| ()))),
    ]);
    let mut cell = ours(|n| times(n, OnceLock::from(1), |cell| cell.get_or_init(|| 2) + cell.wait()));
    cell.push(peer("std", |n| {
        times(n, std::sync::OnceLock::from(1), |cell| cell.get_or_init(|| 2) + cell.wait())
    }));
    let mut lazy = ours(|n| times(n, LazyLock::new(|| 1), |lazy| **lazy));
    lazy.push(peer("std", |n| times(n, std::sync::LazyLock::new(|| 1), |lazy| **lazy)));
    let answers_ours = |n| answered(n, |body| drop(thread::spawn(body)));
    let mut answers = ours(answers_ours);
    answers.push(called("mxn, 1 slot", "mxn, 1 slot", Loop(answers_ours)));
    answers.push(peer("sem_t", answered_by_sem_t));

    let each = Unit::NanosEach;
    let verdict = answer(vec![
        Question::new("a permit taken and put back", each("a pair"), semaphore),
        Question::new("a signal and its answer", each("a round trip"), answers),
        Question::new("once: done", each("a look"), done),
        Question::new("once: the first call", each("a call"), first),
        Question::new("once lock: a value that is there, twice", each("a pair"), cell),
        Question::new("lazy lock: a value that is there", each("a look"), lazy),
    ]);
    if !std::env::args().any(|argument| argument == "--sample" || argument == "--list") {
        println!("sizes in bytes: ours, std's, parking_lot's or tokio's");
        let sizes = [
            ("Once", [size_of::<Once>(), size_of::<std::sync::Once>(), size_of::<parking_lot::Once>()]),
            ("OnceLock<u64>", [size_of::<OnceLock<u64>>(), size_of::<std::sync::OnceLock<u64>>(), 0]),
            ("Semaphore", [size_of::<Semaphore>(), 0, size_of::<tokio::sync::Semaphore>()]),
        ];
        sizes.iter().for_each(|(name, bytes)| println!("    {name:<14}{bytes:?}"));
    }
    verdict
}

/// Does `operation` with `thing`, so many times.
fn times<T, R>(n: u64, thing: T, operation: impl Fn(&T) -> R) -> Duration {
    let thing = Apart(thing);
    let start = Instant::now();
    for _ in 0..n {
        black_box(operation(black_box(&thing)));
    }
    start.elapsed()
}

fn take_and_put_back(n: u64) -> Duration {
    times(n, Semaphore::new(1), |semaphore| drop(semaphore.acquire()))
}

/// Sends a signal so many times, to a thread that answers each by another, and waits for the answer.
fn answered(n: u64, spawn: fn(Box<dyn FnOnce() + Send>)) -> Duration {
    let pair = Arc::new((Semaphore::new(0), Semaphore::new(0)));
    let theirs = Arc::clone(&pair);
    spawn(Box::new(move || {
        for _ in 0..n {
            theirs.0.acquire().forget();
            theirs.1.add_permits(1);
        }
    }));
    let start = Instant::now();
    for _ in 0..n {
        pair.0.add_permits(1);
        pair.1.acquire().forget();
    }
    start.elapsed()
}

fn answered_by_sem_t(n: u64) -> Duration {
    let pair = Arc::new((SemT::new(0), SemT::new(0)));
    let theirs = Arc::clone(&pair);
    let answers = std::thread::spawn(move || {
        (0..n).for_each(|_| {
            theirs.0.wait();
            theirs.1.post();
        });
    });
    let start = Instant::now();
    for _ in 0..n {
        pair.0.post();
        pair.1.wait();
    }
    let elapsed = start.elapsed();
    answers.join().unwrap();
    elapsed
}

/// The C library's semaphore.
struct SemT(Box<std::cell::UnsafeCell<libc::sem_t>>);

// SAFETY: it is made for threads to share.
unsafe impl Send for SemT {}
// SAFETY: it is made for threads to share.
unsafe impl Sync for SemT {}

impl SemT {
    fn new(permits: u32) -> Self {
        // SAFETY: of zeros, `sem_init` makes a semaphore.
        let semaphore = Self(Box::new(unsafe { std::mem::zeroed() }));
        // SAFETY: it is where it stays, and ours alone.
        assert_eq!(unsafe { libc::sem_init(semaphore.0.get(), 0, permits) }, 0);
        semaphore
    }

    fn wait(&self) -> &Self {
        // SAFETY: made by `sem_init`. (A signal may end the wait early.)
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
        self
    }

    fn post(&self) {
        // SAFETY: made by `sem_init`.
        assert_eq!(unsafe { libc::sem_post(self.0.get()) }, 0);
    }
}

/// On a thread of ours of each kind.
fn ours(work: fn(u64) -> Duration) -> Vec<Case> {
    some_threads(&OURS, Loop(work))
}

/// On a thread of std's.
fn peer(name: &'static str, work: fn(u64) -> Duration) -> Case {
    called(name, "std", Loop(work))
}
