//! The experiments of `examples/nt_solaris.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::contender::{Contender, Scene, Workload, called};
use crate::support::harness::{Case, Effort, Run, Side};
use crate::support::kernel_object::KernelObject;
use crate::support::library::{Attributes, Library};
use crate::support::nt_solaris::bursts::{self, Bursts, burst};
use crate::support::nt_solaris::compute::{self, STEPS_PER_MS, compute, result_of, steps};
use crate::support::nt_solaris::search::{self, First};
use crate::support::nt_solaris::tsplib::{Instance, gr17};
use crate::support::nt_solaris::{create, locks, most};
use crate::support::pthread_shared::PthreadShared;
use crate::support::selvedge::Shared;

const ANY: Attributes = Attributes { stack_size: None, bound: false };
const BOUND: Attributes = Attributes { stack_size: None, bound: true };

/// A workload whose threads may be bound.
pub(crate) trait Timed: Copy + Send + Sync + 'static {
    /// Does so many operations on threads of this kind. Returns the time that they took.
    fn time<C: Contender>(self, attributes: Attributes, operations: u64) -> Duration;
}

/// The same work by threads that own a kernel thread each.
#[derive(Clone, Copy)]
pub(crate) struct ByBound<W>(W);

impl<W: Timed> Scene for ByBound<W> {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|operations| self.0.time::<C>(BOUND, operations))
    }
}

/// M:N with bound threads.
pub(crate) fn bound(workload: impl Timed) -> Case {
    called("mxn, bound", "mxn", ByBound(workload))
}

/// An operation is a thread, until it has ended.
#[derive(Clone, Copy)]
pub(crate) struct Creation {
    pub(crate) busy: u32,
}

impl Timed for Creation {
    fn time<C: Contender>(self, attributes: Attributes, threads: u64) -> Duration {
        let plan = create::Plan { threads: threads as u32, busy: self.busy, attributes };
        create::create::<C>(plan).expect("some threads").all.expect_exact()
    }
}

impl Workload for Creation {
    fn threads<C: Contender>(self, threads: u64) -> Duration {
        self.time::<C>(ANY, threads)
    }

    async fn tasks(self, tasks: u64) -> Duration {
        assert_eq!(self.busy, 0, "tasks that do not yield stop all others");
        let ran = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let spawn = |_| {
            let ran = Arc::clone(&ran);
            // Relaxed: the joins order it.
            tokio::spawn(async move { ran.fetch_add(1, Ordering::Relaxed) })
        };
        for task in (0..tasks).map(spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let elapsed = start.elapsed();
        assert_eq!(ran.load(Ordering::Relaxed), tasks);
        elapsed
    }
}

/// An operation is a millisecond of each thread.
#[derive(Clone, Copy)]
pub(crate) struct Computing {
    pub(crate) threads: u32,
}

impl Timed for Computing {
    fn time<C: Contender>(self, attributes: Attributes, millis: u64) -> Duration {
        let plan = compute::Plan { threads: self.threads, steps: millis * STEPS_PER_MS, attributes };
        compute::<C>(plan).expect("some threads").expect_exact()
    }
}

impl Workload for Computing {
    fn threads<C: Contender>(self, millis: u64) -> Duration {
        self.time::<C>(ANY, millis)
    }

    async fn tasks(self, millis: u64) -> Duration {
        let start = Instant::now();
        let count = millis * STEPS_PER_MS;
        let spawn = |_| tokio::spawn(async move { steps(count) });
        for task in (0..self.threads).map(spawn).collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), result_of(count));
        }
        start.elapsed()
    }
}

/// An operation is an entry of each thread.
#[derive(Clone, Copy)]
pub(crate) struct Locks {
    pub(crate) threads: u32,
}

/// Steps without the lock, and with it.
const OUTSIDE: u32 = 200;
const INSIDE: u32 = 40;

impl Locks {
    fn plan(self, entries: u64) -> locks::Plan {
        let threads = self.threads;
        locks::Plan { threads, entries: entries as u32, outside: OUTSIDE, inside: INSIDE, attributes: ANY }
    }
}

impl Timed for Locks {
    fn time<C: Contender>(self, attributes: Attributes, entries: u64) -> Duration {
        time::<C>(locks::Plan { attributes, ..self.plan(entries) })
    }
}

impl Workload for Locks {
    fn threads<C: Contender>(self, entries: u64) -> Duration {
        self.time::<C>(ANY, entries)
    }

    async fn tasks(self, entries: u64) -> Duration {
        let entered = Arc::new(tokio::sync::Mutex::new(0));
        let start = Instant::now();
        let spawn = |_| {
            let entered = Arc::clone(&entered);
            tokio::spawn(async move {
                for _ in 0..entries {
                    steps(OUTSIDE.into());
                    let mut entered = entered.lock().await;
                    steps(INSIDE.into());
                    *entered += 1;
                }
            })
        };
        for task in (0..self.threads).map(spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let elapsed = start.elapsed();
        assert_eq!(*entered.lock().await, entries * u64::from(self.threads));
        elapsed
    }
}

/// The same by mutexes that processes can share, of whichever library.
#[derive(Clone, Copy)]
struct SharedLocks {
    locks: Locks,
    time: fn(locks::Plan) -> Duration,
}

impl Scene for SharedLocks {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|entries| (self.time)(self.locks.plan(entries)))
    }
}

/// The contenders with mutexes that processes can share. No threads that are pinned: a waiter takes its
/// LWP along, and the lock's owner may need that.
pub(crate) fn shared_locks(threads: u32) -> Vec<Case> {
    let case = |name, who: &str, time| called(name, who, SharedLocks { locks: Locks { threads }, time });
    vec![
        case("mxn, shared", "mxn", time::<Shared>),
        case("mxn, by syscall, shared", "mxn, register by syscall", time::<Shared>),
        case("onetoone, shared", "onetoone", time::<Shared>),
        case("pthread, shared", "pthread", time::<PthreadShared<false>>),
        case("kernel object", "std", time::<KernelObject>).on(Side::Peer),
        case("pthread, robust", "pthread", time::<PthreadShared<true>>),
    ]
}

fn time<L: Library>(plan: locks::Plan) -> Duration {
    locks::synchronize::<L>(plan).expect("some threads").expect_exact()
}

/// As many threads as there can be, or so many as an operation each.
#[derive(Clone, Copy)]
pub(crate) struct Most {
    attributes: Attributes,
}

impl Most {
    /// The figures besides the number of threads. The time: milliseconds of all, microseconds of each. The
    /// memory that they have touched, with page tables: megabytes of all, kibibytes of each. The kernel's
    /// stacks: kibibytes of each.
    pub(crate) const FURTHER: usize = 5;

    /// Threads of the library's usual kind.
    pub(crate) const UNBOUND: Self = Self { attributes: ANY };

    /// Threads that own a kernel thread each.
    pub(crate) const BOUND: Self = Self { attributes: BOUND };
}

impl Scene for Most {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let plan = most::Plan { most: effort.operations() as u32, attributes: self.attributes };
        let most = most::most::<C>(plan, |_| ());
        assert_eq!(most.ran, most.made, "not every thread that was made has run");
        let each = 1.0 / f64::from(most.made.max(1));
        let (time, memory) = (most.making.as_secs_f64(), most.memory.memory(false) as f64);
        let kernel = most.memory.kernel_stacks as f64;
        let more =
            [1e3 * time, 1e6 * time * each, memory / 1e6, memory * each / 1024.0, kernel * each / 1024.0];
        let seen = format!("{} threads: {}\n", most.made, most.stop);
        Run { more: more.into(), seen, ..Run::part(most.made.into(), effort.operations()) }
    }
}

/// An operation is a search.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub(crate) threads: u32,
    pub(crate) attributes: Attributes,
}

impl Search {
    /// By so many threads of the library's usual kind.
    pub(crate) fn by(threads: u32) -> Self {
        Self { threads, attributes: ANY }
    }

    /// The same by threads that own a kernel thread each.
    pub(crate) fn bound(self) -> Self {
        Self { attributes: BOUND, ..self }
    }
}

impl Scene for Search {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let searches = effort.operations();
        let instance: Arc<Instance> = Arc::new(gr17());
        let Self { threads, attributes } = self;
        let plan = search::Plan { threads, depth: 3, first: First::Greedy, attributes };
        let search = |_| {
            let found = search::search::<C>(&instance, plan).expect("some threads");
            assert_eq!((found.length, found.searched), (2085, found.branches));
            found.elapsed
        };
        Run::took(searches, (0..searches).map(search).sum())
    }
}

/// An operation is a burst of each thread.
#[derive(Clone, Copy)]
pub(crate) struct Bursty {
    pub(crate) threads: u32,
    /// Of computing; idle, it is a millisecond.
    pub(crate) micros: u64,
    pub(crate) read: fn(Bursts) -> Run,
    pub(crate) attributes: Attributes,
}

impl Bursty {
    /// So many threads of the library's usual kind.
    pub(crate) fn by(threads: u32, micros: u64, read: fn(Bursts) -> Run) -> Self {
        Self { threads, micros, read, attributes: ANY }
    }

    /// The same with threads that own a kernel thread each.
    pub(crate) fn bound(self) -> Self {
        Self { attributes: BOUND, ..self }
    }
}

impl Scene for Bursty {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let Self { threads, micros, read, attributes } = self;
        let (bursts, steps) = (effort.operations() as u32, micros * STEPS_PER_MS / 1_000);
        let idle = Duration::from_millis(1);
        let plan = bursts::Plan { threads, bursts, steps, idle, attributes };
        read(burst::<C>(plan).expect("some threads"))
    }
}

/// The time of all bursts.
pub(crate) fn elapsed(bursts: Bursts) -> Run {
    Run::took(bursts.all.due, bursts.all.expect_exact())
}

/// The turn-arounds of all bursts.
pub(crate) fn turn_around(bursts: Bursts) -> Run {
    Run::took(bursts.all.due, bursts.turn_around)
}
