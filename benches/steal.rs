//! What becomes of work that only one thread hands out?
//!
//! *One producer*: a thread starts a thousand children and joins them. Each computes for a while, some a
//! hundred times longer than others. All begin where the producer runs: the other CPUs must come and take
//! them. The figure is the time of all. It cannot be less than that of one child after the other, which is
//! measured too, divided by the number of CPUs.
//!
//! *Fork and join*: Fibonacci's numbers by a thread for each left branch, down to the leaves. Nearly all that
//! there is to do is to start and join. The branches are as unequal as can be.

mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::contender::{Contender, Loop, Workload, all, called};
use support::harness::{Question, Side, Unit, answer};

/// Children of one producer.
const CHILDREN: u64 = 1_000;
/// What the least of them computes; some microseconds.
const STEPS: u64 = 1_000;
/// Which of Fibonacci's numbers: so many branches, and that many of them exist at once at most.
const FORKS: u32 = 15;

fn main() -> ExitCode {
    let unit = Unit::NanosEach("a child");
    let mut producer = all(Producer);
    producer.push(called("one after the other", "std", Loop(one_after_the_other)).on(Side::Floor));
    answer(vec![
        Question::new(format!("one producer, {CHILDREN} children"), unit, producer)
            .per_operation(CHILDREN)
            .first(2),
        Question::new(format!("fork and join, fib({FORKS})"), unit, all(Forks))
            .per_operation(forks(FORKS))
            .first(2),
    ])
}

/// How long a child computes: a few of them for long.
fn steps(child: u64) -> u64 {
    let hash = child.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    STEPS * if hash.is_multiple_of(32) { 100 } else { 1 + hash % 4 }
}

/// Marsaglia's xorshift, so many times.
fn compute(seed: u64, steps: u64) -> u64 {
    let step = |x: u64, _| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        x ^ (x << 17)
    };
    (0..black_box(steps)).fold(seed | 1, step)
}

/// Everything that the children of one round do, without children.
fn one_after_the_other(rounds: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        black_box((0..CHILDREN).fold(0, |sum: u64, child| sum.wrapping_add(compute(child, steps(child)))));
    }
    start.elapsed()
}

/// An operation is one round of all children.
#[derive(Clone, Copy)]
struct Producer;

impl Workload for Producer {
    fn threads<C: Contender>(self, rounds: u64) -> Duration {
        let sum: Arc<AtomicU64> = Arc::default();
        let start = Instant::now();
        for _ in 0..rounds {
            let child = |child| {
                let sum = Arc::clone(&sum);
                C::start(move || {
                    sum.fetch_add(compute(child, steps(child)), Ordering::Relaxed);
                })
            };
            let children: Vec<_> = (0..CHILDREN).map(child).collect();
            children.into_iter().for_each(C::join);
        }
        let elapsed = start.elapsed();
        check(rounds, sum.load(Ordering::Relaxed));
        elapsed
    }

    async fn tasks(self, rounds: u64) -> Duration {
        let mut sum: u64 = 0;
        let start = Instant::now();
        for _ in 0..rounds {
            let child = |child| tokio::spawn(async move { compute(child, steps(child)) });
            let children: Vec<_> = (0..CHILDREN).map(child).collect();
            for child in children {
                sum = sum.wrapping_add(child.await.unwrap());
            }
        }
        let elapsed = start.elapsed();
        check(rounds, sum);
        elapsed
    }
}

fn check(rounds: u64, sum: u64) {
    let once = (0..CHILDREN).fold(0, |sum: u64, child| sum.wrapping_add(compute(child, steps(child))));
    assert_eq!(sum, once.wrapping_mul(rounds), "a child was lost");
}

/// An operation is one number.
#[derive(Clone, Copy)]
struct Forks;

/// The number itself.
fn fibonacci(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How many children that takes: one for each sum.
fn forks(n: u32) -> u64 {
    fibonacci(n + 1) - 1
}

impl Workload for Forks {
    fn threads<C: Contender>(self, rounds: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..rounds {
            assert_eq!(fork::<C>(black_box(FORKS)), fibonacci(FORKS));
        }
        start.elapsed()
    }

    async fn tasks(self, rounds: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..rounds {
            assert_eq!(fork_task(black_box(FORKS)).await, fibonacci(FORKS));
        }
        start.elapsed()
    }
}

/// A child for one term, the caller for the other.
fn fork<C: Contender>(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let left: Arc<AtomicU64> = Arc::default();
    let child = {
        let left = Arc::clone(&left);
        // Relaxed: the join orders it.
        C::start(move || left.store(fork::<C>(n - 1), Ordering::Relaxed))
    };
    let right = fork::<C>(n - 2);
    C::join(child);
    left.load(Ordering::Relaxed) + right
}

fn fork_task(n: u32) -> std::pin::Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n.into();
        }
        let child = tokio::spawn(fork_task(n - 1));
        let right = fork_task(n - 2).await;
        child.await.unwrap() + right
    })
}
