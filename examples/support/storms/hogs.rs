//! Threads that never give their CPU up, and one that wants a turn now and then.
//!
//! The hogs compute what they can check, in some of the ways that programs do. The one beside them sleeps for
//! 10 ms, yields, and begins again. It should get nearly as many turns as if it were alone. Each yield lets a
//! hog run that does not come back by itself.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::support::latency::Latencies;
use crate::support::library::{Attributes, Lock};
use crate::support::parking::Parking;

/// How long the one sleeps before each turn: a hundred make a second.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// What hogs do between two looks at whether it is over; `false`: it came out wrong.
type Work = Box<dyn FnMut() -> bool + Send>;

/// What a hog does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Arithmetic,
    Malloc,
    Lock,
    Formatting,
}

/// By name.
pub(crate) const KINDS: [(&str, Kind); 4] = [
    ("arithmetic", Kind::Arithmetic),
    ("malloc", Kind::Malloc),
    ("lock", Kind::Lock),
    ("formatting", Kind::Formatting),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).expect("all kinds are in the table").0
    }

    /// A hog of this kind; each number's does something else.
    fn work(self, number: u32) -> Work {
        match self {
            Self::Arithmetic => arithmetic(number),
            Self::Malloc => malloc(number),
            Self::Lock => Box::new(lock),
            Self::Formatting => formatting(number),
        }
    }
}

/// Which threads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) hogs: u32,
    /// Hogs that must have begun before the one does; the others may have to wait for them.
    pub(crate) running: u32,
    pub(crate) time: Duration,
}

/// What they got.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// How long each turn of the one took.
    pub(crate) turns: Latencies,
    /// What all hogs together have done.
    pub(crate) hog_turns: u64,
    /// How much of it was wrong.
    pub(crate) wrong: u64,
}

/// Lets them run on the calling thread's runtime.
///
/// # Errors
/// A thread cannot be started. All threads started before have ended.
pub(crate) fn run<L: Parking>(plan: Plan) -> io::Result<Turns> {
    let pen = Arc::new(Pen::default());
    let mut threads = Vec::new();
    for number in 0..plan.hogs {
        let theirs = Arc::clone(&pen);
        match L::spawn(Attributes::default(), move || theirs.wallow(plan.kind.work(number))) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                pen.over.store(true, Ordering::Relaxed);
                threads.into_iter().for_each(L::join);
                return Err(error);
            }
        }
    }
    while pen.begun.load(Ordering::Relaxed) < plan.running {
        L::yield_now();
    }
    let turns = Arc::new(L::Mutex::new(Latencies::default()));
    let one = {
        let turns = Arc::clone(&turns);
        L::spawn(Attributes::default(), move || *turns.lock() = take_turns::<L>(plan.time))
    };
    let one = one.map(L::join);
    pen.over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(L::join);
    one?;
    let turns = std::mem::take(&mut *turns.lock());
    let [hog_turns, wrong] = [&pen.turns, &pen.wrong].map(|counter| counter.load(Ordering::Relaxed));
    Ok(Turns { turns, hog_turns, wrong })
}

/// The one's life.
fn take_turns<L: Parking>(time: Duration) -> Latencies {
    let end = Instant::now() + time;
    let mut turns = Latencies::default();
    loop {
        let turn = Instant::now();
        if turn >= end {
            return turns;
        }
        L::sleep(PAUSE);
        L::yield_now();
        turns.record(turn.elapsed());
    }
}

/// Where the hogs are.
#[derive(Debug, Default)]
struct Pen {
    begun: AtomicU32,
    over: AtomicBool,
    turns: AtomicU64,
    wrong: AtomicU64,
}

impl Pen {
    /// A hog's life. (All Relaxed: numbers, which joins order for their reader.)
    fn wallow(&self, mut work: Work) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let (mut turns, mut wrong) = (0, 0);
        while !self.over.load(Ordering::Relaxed) {
            wrong += u64::from(!work());
            turns += 1;
        }
        self.turns.fetch_add(turns, Ordering::Relaxed);
        self.wrong.fetch_add(wrong, Ordering::Relaxed);
    }
}

/// Marsaglia's xorshift, so many times.
fn scramble(seed: u64, steps: u32) -> u64 {
    (0..steps).fold(seed, |x, _| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        x ^ (x << 17)
    })
}

fn arithmetic(number: u32) -> Work {
    let seed = u64::from(number) + 1;
    let expected = scramble(seed, 10_000);
    Box::new(move || scramble(black_box(seed), 10_000) == expected)
}

fn malloc(number: u32) -> Work {
    let mine = number as u8;
    Box::new(move || {
        let mut blocks: Vec<Vec<u8>> = (1..40_usize).map(|n| vec![mine; n * n]).collect();
        for (n, block) in blocks.iter_mut().enumerate() {
            let size = if n % 3 == 0 { 8 } else { 2 * block.len() };
            block.resize(size, mine);
            block.shrink_to_fit();
        }
        blocks.iter().flatten().all(|&byte| byte == mine)
    })
}

/// All hogs take the same lock of std: one that loses its CPU while it has it keeps the others waiting in
/// the kernel.
fn lock() -> bool {
    static BOTH: Mutex<(u64, u64)> = Mutex::new((0, 0));
    let mut both = BOTH.lock().unwrap_or_else(PoisonError::into_inner);
    let equal = both.0 == both.1;
    both.0 += 1;
    black_box(scramble(both.0, 300));
    both.1 += 1;
    equal
}

fn formatting(number: u32) -> Work {
    fn text(n: u32) -> String {
        (0..20).fold(String::new(), |mut text, i| {
            let (real, odd) = (f64::from(n + i) / 8.0, i % 2 == 1);
            // A String takes everything.
            let _ = writeln!(text, "{real:>8.3}|{:#x}|{:?}|{odd}", n * i, (n, "warp"));
            text
        })
    }
    let expected = text(number);
    Box::new(move || text(black_box(number)) == expected)
}
