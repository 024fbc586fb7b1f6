//! What does the trace cost? The same work with the trace off, with times, and with events, on one slot. The
//! last row is that of a thread that is not in the sample, while events are recorded.
//!
//! *Yield*: two threads let each other run; each switch is a stop and a start. *Yield, with work*: the same,
//! but each thread computes for about a microsecond before it yields. *Park*: two threads wake each other and
//! wait, so each switch is a wake-up, too. *Park, 1:1*: the same by kernel threads on one CPU.

mod support;

use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use selvedge::trace::{Level, set_level, set_sample};
use selvedge::{Mxn, OneToOne, Runtime, thread};
use support::affinity;
use support::harness::{Case, Question, Side, Unit, answer};

fn main() -> ExitCode {
    let one_cpu = || affinity::pin(affinity::allowed()[0]);
    let ask = |name: &str, what: &'static str, per: u64, cases| {
        Question::new(name, Unit::NanosEach(what), cases).per_operation(per).prepare(one_cpu)
    };
    answer(vec![
        ask("yield", "a yield", 2, green(yields)),
        ask("yield, with 1 us of work", "a yield", 2, green(yields_with_work)),
        ask("park", "a hand-off", 2, green(parks)),
        ask("park, 1:1", "a hand-off", 2, kernel(parks)),
    ])
}

/// The same work at each level, on green threads.
fn green(work: fn(u64) -> Duration) -> Vec<Case> {
    levels(move |operations| {
        Mxn::builder().concurrency(1).time_slice(None).build().expect("a runtime").run(|| work(operations))
    })
}

/// The same work at each level, on kernel threads.
fn kernel(work: fn(u64) -> Duration) -> Vec<Case> {
    levels(move |operations| OneToOne::new().expect("a runtime").run(|| work(operations)))
}

fn levels(run: impl Fn(u64) -> Duration + Copy + 'static) -> Vec<Case> {
    let (all, few) = (NonZeroU32::MIN, NonZeroU32::MAX);
    [
        ("off", Level::Off, all),
        ("times", Level::Times, all),
        ("events", Level::Events, all),
        ("events of others", Level::Events, few),
    ]
    .into_iter()
    .map(|(name, level, sample)| {
        Case::new(name, Side::Ours, move |effort| {
            effort.spend(|operations| {
                set_sample(sample);
                set_level(level);
                run(operations)
            })
        })
    })
    .collect()
}

fn yields(operations: u64) -> Duration {
    two(move || (0..operations).for_each(|_| thread::yield_now()))
}

fn yields_with_work(operations: u64) -> Duration {
    two(move || {
        for _ in 0..operations {
            black_box((0..1_200_u64).fold(black_box(1), |x: u64, n| black_box(x.wrapping_mul(31) + n)));
            thread::yield_now();
        }
    })
}

/// Runs `f` on two threads.
fn two(f: impl Fn() + Copy + Send + 'static) -> Duration {
    let start = Instant::now();
    let threads = [thread::spawn(f), thread::spawn(f)];
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    start.elapsed()
}

fn parks(operations: u64) -> Duration {
    let me = thread::current();
    let start = Instant::now();
    let other = thread::spawn(move || {
        for _ in 0..operations {
            thread::park();
            me.unpark();
        }
    });
    for _ in 0..operations {
        other.thread().unpark();
        thread::park();
    }
    other.join().expect("it does not panic");
    start.elapsed()
}
