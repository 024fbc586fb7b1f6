//! What does a read-write lock cost without contention? And one that many want, if one in ten writes?

mod support;

use std::hint::black_box;
use std::marker::PhantomData;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync;

use support::apart::Apart;
use support::contender::{Contender, Loop, OURS, Scene, called, some_threads};
use support::harness::{Case, Effort, Question, Run, Unit, answer};

fn main() -> ExitCode {
    let each = |name: &str, unit, cases| Question::new(name, Unit::NanosEach(unit), cases);
    let mut questions = vec![
        each("read + unlock", "a pair", alone::<true>()),
        each("write + unlock", "a pair", alone::<false>()),
    ];
    for threads in [2, 4, 8, 32] {
        let name = format!("1 write : 9 reads, {threads} threads");
        questions.push(each(&name, "an access", mixed(threads)));
    }
    answer(questions)
}

/// A lock of one writer or many readers, over a number.
trait ReadWrite: Send + Sync + 'static {
    fn new() -> Self;
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R;
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// The methods are those of std, with poison or without.
macro_rules! read_write {
    ($lock:ty $(, $unwrap:ident)?) => {
        impl ReadWrite for $lock {
            fn new() -> Self {
                Self::new(0)
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
                f(&self.read()$(.$unwrap())?)
            }

            #[inline]
            fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut self.write()$(.$unwrap())?)
            }
        }
    };
}

read_write!(sync::RwLock<u64>);
read_write!(std::sync::RwLock<u64>, unwrap);
read_write!(parking_lot::RwLock<u64>);
read_write!(may::sync::RwLock<u64>, unwrap);

/// So many pairs by one thread, reading or writing.
fn pairs<L: ReadWrite, const READ: bool>(pairs: u64) -> Duration {
    let lock = Apart(L::new());
    let start = Instant::now();
    if READ {
        (0..pairs).for_each(|_| black_box(&lock).read(|value| _ = black_box(value)));
    } else {
        (0..pairs).for_each(|_| black_box(&lock).write(|value| _ = black_box(value)));
    }
    start.elapsed()
}

/// Accesses by so many threads together, each after some work without the lock. An operation is an access.
struct Crowd<L> {
    threads: u64,
    lock: PhantomData<L>,
}

impl<L> Clone for Crowd<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Crowd<L> {}

impl<L: ReadWrite> Scene for Crowd<L> {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|accesses| self.meet::<C>(accesses))
    }
}

impl<L: ReadWrite> Crowd<L> {
    fn of(threads: u64) -> Self {
        Self { threads, lock: PhantomData }
    }

    fn meet<C: Contender>(self, accesses: u64) -> Duration {
        let lock = Arc::new(L::new());
        let each = accesses.div_ceil(self.threads);
        let start = Instant::now();
        let started: Vec<C::Thread> = (0..self.threads)
            .map(|thread| {
                let lock = Arc::clone(&lock);
                C::start(move || {
                    for turn in 0..each {
                        if (turn + thread) % 10 == 0 {
                            lock.write(|value| *value = busy(*value));
                        } else {
                            lock.read(|value| _ = black_box(busy(*value)));
                        }
                        black_box(busy(turn));
                    }
                })
            })
            .collect();
        started.into_iter().for_each(C::join);
        start.elapsed()
    }
}

/// Some 50 ns of work.
fn busy(seed: u64) -> u64 {
    (0..12).fold(seed | 1, |x, _| black_box(x ^ (x << 13) ^ (x >> 7)))
}

fn alone<const READ: bool>() -> Vec<Case> {
    let mut cases = some_threads(&OURS, Loop(pairs::<sync::RwLock<u64>, READ>));
    cases.extend([
        called("std", "std", Loop(pairs::<std::sync::RwLock<u64>, READ>)),
        called("parking_lot", "parking_lot", Loop(pairs::<parking_lot::RwLock<u64>, READ>)),
        called("may", "may", Loop(pairs::<may::sync::RwLock<u64>, READ>)),
    ]);
    cases
}

fn mixed(threads: u64) -> Vec<Case> {
    let mut cases = some_threads(&OURS, Crowd::<sync::RwLock<u64>>::of(threads));
    cases.extend([
        called("std", "std", Crowd::<std::sync::RwLock<u64>>::of(threads)),
        called("parking_lot", "parking_lot", Crowd::<parking_lot::RwLock<u64>>::of(threads)),
        called("may", "may", Crowd::<may::sync::RwLock<u64>>::of(threads)),
    ]);
    cases
}
