//! An open workload: short threads arrive and end all the time, beside long ones that always compute.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::contender::{Contender, Scene};
use crate::support::harness::{Effort, Run};
use crate::support::library::Lock;

/// The time of a step of computing, on an otherwise idle CPU.
const STEP: Duration = Duration::from_micros(10);
/// The time before the measurement, in ms.
const WARM: u64 = 200;

/// `long` threads that always compute, and `short` threads at a time that do not. When a short thread ends,
/// it starts the next. The measurement takes as many ms as the effort has operations, and goes on until a
/// short thread has ended.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) long: u64,
    pub(crate) short: u64,
    /// The least and the most that a short thread computes, in ms.
    length: (u64, u64),
    read: fn(&Figures) -> Run,
}

struct Figures {
    /// Steps of the long thread that did the fewest.
    least: u64,
    /// Steps that each thread would have done with equal shares.
    fair: u64,
    /// The median time of the short threads, from their start to their end.
    median: Duration,
}

struct State<C: Contender> {
    workload: Open,
    rounds: u64,
    steps: AtomicU64,
    over: AtomicBool,
    alive: AtomicU64,
    random: AtomicU64,
    took: C::Mutex<Vec<Duration>>,
}

impl Open {
    /// Measures by how much the least served long thread falls behind its fair share.
    pub(crate) fn behind(long: u64, short: u64, length: (u64, u64)) -> Self {
        let read = |figures: &Figures| Run::part(figures.fair.saturating_sub(figures.least), figures.fair);
        Self { long, short, length, read }
    }

    /// Measures the median time of the short threads.
    pub(crate) fn latency(long: u64, short: u64, length: (u64, u64)) -> Self {
        Self { read: |figures| Run::took(1, figures.median), ..Self::behind(long, short, length) }
    }
}

fn compute(rounds: u64) {
    black_box((0..rounds).fold(1_u64, |x, round| black_box(x.wrapping_mul(31) ^ round)));
}

fn calibrated() -> u64 {
    let took = (0..50).map(|_| {
        let start = Instant::now();
        compute(10_000);
        start.elapsed()
    });
    let fastest = took.min().expect("some").as_nanos().max(1);
    (10_000 * STEP.as_nanos() / fastest).max(1) as u64
}

impl<C: Contender> State<C> {
    fn step(&self) {
        compute(self.rounds);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn start_short(self: &Arc<Self>) {
        let (state, born) = (Arc::clone(self), Instant::now());
        let (least, most) = self.workload.length;
        let random = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let steps = (least + (random.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % (most - least + 1)) * 100;
        drop(C::start(move || {
            for _ in 0..steps {
                state.step();
            }
            state.took.lock().push(born.elapsed());
            if state.is_over() {
                state.alive.fetch_sub(1, Ordering::Relaxed);
            } else {
                state.start_short();
            }
        }));
    }
}

impl Scene for Open {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let state = Arc::new(State::<C> {
            workload: self,
            rounds: calibrated(),
            steps: AtomicU64::new(0),
            over: AtomicBool::new(false),
            alive: AtomicU64::new(self.short),
            random: AtomicU64::new(1),
            took: C::Mutex::new(Vec::new()),
        });
        let own: Vec<Arc<AtomicU64>> = (0..self.long).map(|_| Arc::default()).collect();
        let long = own.iter().map(|own| {
            let (state, own) = (Arc::clone(&state), Arc::clone(own));
            C::start(move || {
                while !state.is_over() {
                    state.step();
                    own.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let long: Vec<C::Thread> = long.collect();
        (0..self.short).for_each(|_| state.start_short());
        C::sleep(Duration::from_millis(WARM));
        let look = || own.iter().map(|own| own.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let (before, steps) = (look(), state.steps.load(Ordering::Relaxed));
        state.took.lock().clear();
        C::sleep(Duration::from_millis(effort.operations()));
        while state.took.lock().is_empty() {
            C::sleep(Duration::from_millis(1));
        }
        let done = state.steps.load(Ordering::Relaxed) - steps;
        let least = look().iter().zip(&before).map(|(after, before)| after - before).min().expect("some");
        state.over.store(true, Ordering::Relaxed);
        let mut took = std::mem::take(&mut *state.took.lock());
        long.into_iter().for_each(C::join);
        while state.alive.load(Ordering::Relaxed) > 0 {
            C::sleep(Duration::from_millis(1));
        }
        took.sort_unstable();
        (self.read)(&Figures { least, fair: done / (self.long + self.short), median: took[took.len() / 2] })
    }
}
