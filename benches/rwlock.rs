//! What does a read-write lock cost that nobody else wants? And one that many want, of whom one in ten writes?

mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::{Mxn, OneToOne, Runtime};

use support::apart::Apart;
use support::contender::Contender;
use support::harness::{Case, Effort, Question, Side, Unit, answer};
use support::library::Std;
use support::peers::{May, ParkingLot};
use support::selvedge::Private;

fn main() -> ExitCode {
    let each = |name: &str, unit, cases| Question::new(name, Unit::NanosEach(unit), cases);
    let mut questions = vec![
        each("read + unlock", "a pair", alone(Access::Read)),
        each("write + unlock", "a pair", alone(Access::Write)),
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

read_write!(selvedge::sync::RwLock<u64>);
read_write!(std::sync::RwLock<u64>, unwrap);
read_write!(parking_lot::RwLock<u64>);
read_write!(may::sync::RwLock<u64>, unwrap);

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// So many pairs by one thread.
fn pairs<L: ReadWrite>(access: Access, pairs: u64) -> Duration {
    let lock = Apart(L::new());
    let start = Instant::now();
    match access {
        Access::Read => (0..pairs).for_each(|_| black_box(&lock).read(|value| _ = black_box(value))),
        Access::Write => (0..pairs).for_each(|_| black_box(&lock).write(|value| _ = black_box(value))),
    }
    start.elapsed()
}

/// So many accesses by all threads together, each after some work without the lock.
fn crowd<C: Contender, L: ReadWrite>(threads: u64, accesses: u64) -> Duration {
    let lock = Arc::new(L::new());
    let each = accesses.div_ceil(threads);
    let start = Instant::now();
    let started: Vec<C::Thread> = (0..threads)
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

/// Some 50 ns of work.
fn busy(seed: u64) -> u64 {
    (0..12).fold(seed | 1, |x, _| black_box(x ^ (x << 13) ^ (x >> 7)))
}

fn alone(access: Access) -> Vec<Case> {
    cases(
        move |effort| effort.spend(|n| pairs::<selvedge::sync::RwLock<u64>>(access, n)),
        move |effort| effort.spend(|n| pairs::<std::sync::RwLock<u64>>(access, n)),
        move |effort| effort.spend(|n| pairs::<parking_lot::RwLock<u64>>(access, n)),
        move |effort| effort.spend(|n| pairs::<may::sync::RwLock<u64>>(access, n)),
    )
}

fn mixed(threads: u64) -> Vec<Case> {
    cases(
        move |effort| effort.spend(|n| crowd::<Private, selvedge::sync::RwLock<u64>>(threads, n)),
        move |effort| effort.spend(|n| crowd::<Std, std::sync::RwLock<u64>>(threads, n)),
        move |effort| effort.spend(|n| crowd::<ParkingLot, parking_lot::RwLock<u64>>(threads, n)),
        move |effort| effort.spend(|n| crowd::<May, may::sync::RwLock<u64>>(threads, n)),
    )
}

/// The contenders, each of whom is asked on a thread of its own kind.
fn cases<A, B, C, D>(ours: A, std: B, parking_lot: C, may: D) -> Vec<Case>
where
    A: Fn(Effort) -> support::harness::Run + Copy + Send + Sync + 'static,
    B: Fn(Effort) -> support::harness::Run + Copy + Send + Sync + 'static,
    C: Fn(Effort) -> support::harness::Run + Copy + Send + Sync + 'static,
    D: Fn(Effort) -> support::harness::Run + Copy + Send + Sync + 'static,
{
    vec![
        Case::new("mxn", Side::Ours, move |effort| Mxn::new().unwrap().run(|| ours(effort))),
        Case::new("onetoone", Side::Ours, move |effort| OneToOne::new().unwrap().run(|| ours(effort))),
        Case::new("std", Side::Peer, std),
        Case::new("parking_lot", Side::Peer, parking_lot),
        Case::new("may", Side::Peer, move |effort| May::run(None, move || may(effort))),
    ]
}
