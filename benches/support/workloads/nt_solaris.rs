//! The experiments of `examples/nt_solaris.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, OneToOne, Runtime};

use crate::support::contender::{Contender, Workload};
use crate::support::harness::{Case, Run, Side};
use crate::support::library::{Attributes, Library, Std};
use crate::support::nt_solaris::bursts::{self, Bursts, burst};
use crate::support::nt_solaris::compute::{self, STEPS_PER_MS, compute, result_of, steps};
use crate::support::nt_solaris::search::{self, First};
use crate::support::nt_solaris::tsplib::{Instance, gr17};
use crate::support::nt_solaris::{create, locks};
use crate::support::peers::{May, ParkingLot};
use crate::support::pthread::Pthread;
use crate::support::pthread_shared::PthreadShared;
use crate::support::selvedge::{Private, Shared};

const ANY: Attributes = Attributes { stack_size: None, bound: false };

/// An operation is a thread, until it has ended.
#[derive(Clone, Copy)]
pub(crate) struct Creation {
    pub(crate) busy: u32,
}

impl Workload for Creation {
    fn threads<C: Contender>(self, threads: u64) -> Duration {
        let plan = create::Plan { threads: threads as u32, busy: self.busy, attributes: ANY };
        create::create::<C>(plan).expect("some threads").all.expect_exact()
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

impl Workload for Computing {
    fn threads<C: Contender>(self, millis: u64) -> Duration {
        let plan = compute::Plan { threads: self.threads, steps: millis * STEPS_PER_MS, attributes: ANY };
        compute::<C>(plan).expect("some threads").expect_exact()
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

impl Workload for Locks {
    fn threads<C: Contender>(self, entries: u64) -> Duration {
        locks::synchronize::<C>(self.plan(entries)).expect("some threads").expect_exact()
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

/// Those whose mutexes processes can share.
pub(crate) fn shared_locks(threads: u32) -> Vec<Case> {
    fn on<L: Library>(plan: locks::Plan) -> Duration {
        locks::synchronize::<L>(plan).expect("some threads").expect_exact()
    }
    let plan = move |entries| Locks { threads }.plan(entries);
    vec![
        Case::new("mxn", Side::Ours, move |effort| {
            Mxn::new().unwrap().run(|| effort.spend(|entries| on::<Shared>(plan(entries))))
        }),
        Case::new("onetoone", Side::Ours, move |effort| {
            OneToOne::new().unwrap().run(|| effort.spend(|entries| on::<Shared>(plan(entries))))
        }),
        Case::new("pthread", Side::Peer, move |effort| {
            effort.spend(|entries| on::<PthreadShared<false>>(plan(entries)))
        }),
        Case::new("pthread, robust", Side::Peer, move |effort| {
            effort.spend(|entries| on::<PthreadShared<true>>(plan(entries)))
        }),
    ]
}

/// What only libraries with threads can do: not written for tasks.
pub(crate) trait Scene: Copy + Send + Sync + 'static {
    fn on<L: Library>(self, operations: u64) -> Run;
}

/// All that have threads.
pub(crate) fn libraries(scene: impl Scene) -> Vec<Case> {
    vec![
        Case::new("mxn", Side::Ours, move |effort| {
            Mxn::new().unwrap().run(|| scene.on::<Private>(effort.operations()))
        }),
        Case::new("onetoone", Side::Ours, move |effort| {
            OneToOne::new().unwrap().run(|| scene.on::<Private>(effort.operations()))
        }),
        Case::new("std", Side::Peer, move |effort| scene.on::<Std>(effort.operations())),
        Case::new("parking_lot", Side::Peer, move |effort| scene.on::<ParkingLot>(effort.operations())),
        Case::new("pthread", Side::Peer, move |effort| scene.on::<Pthread>(effort.operations())),
        Case::new("may", Side::Peer, move |effort| {
            May::run(None, move || scene.on::<May>(effort.operations()))
        }),
    ]
}

/// An operation is a search.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub(crate) threads: u32,
}

impl Scene for Search {
    fn on<L: Library>(self, searches: u64) -> Run {
        let instance: Arc<Instance> = Arc::new(gr17());
        let plan = search::Plan { threads: self.threads, depth: 3, first: First::Greedy, attributes: ANY };
        let search = |_| {
            let found = search::search::<L>(&instance, plan).expect("some threads");
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
}

impl Scene for Bursty {
    fn on<L: Library>(self, bursts: u64) -> Run {
        let Self { threads, micros, read } = self;
        let (bursts, steps) = (bursts as u32, micros * STEPS_PER_MS / 1_000);
        let idle = Duration::from_millis(1);
        read(
            burst::<L>(bursts::Plan { threads, bursts, steps, idle, attributes: ANY }).expect("some threads"),
        )
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
