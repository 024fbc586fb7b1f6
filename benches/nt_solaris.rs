//! What are the two kinds of threads good for?
//!
//! The experiments of `examples/nt_solaris.rs` but the first, which asks for a number and not for a time: creation, alone and among others that
//! leave no CPU idle; computing without synchronisation, and with much of it, by mutexes of the process and by such as processes
//! can share; branch and bound over gr17; bursts of computing that are shorter than the idle time, as long, and longer.

mod support;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, OneToOne, Runtime};

use support::contender::{Contender, Workload, some};
use support::harness::{Case, Question, Run, Side, Unit, answer};
use support::library::{Attributes, Library, Std};
use support::load::Load;
use support::nt_solaris::bursts::{self, Bursts, burst};
use support::nt_solaris::compute::{self, STEPS_PER_MS, compute, result_of, steps};
use support::nt_solaris::search::{self, First};
use support::nt_solaris::tsplib::{Instance, read};
use support::nt_solaris::{create, locks};
use support::peers::{May, ParkingLot};
use support::pthread::Pthread;
use support::pthread_shared::PthreadShared;
use support::selvedge::{Private, Shared};

/// All that make threads.
const CONTENDERS: [&str; 9] = [
    "mxn",
    "mxn, 1 slot",
    "onetoone",
    "std",
    "parking_lot",
    "pthread",
    "may",
    "tokio",
    "tokio, current thread",
];
/// Those that share the CPUs with what does not yield: may's workers would never come back to the creator.
const PREEMPTIVE: [&str; 5] = ["mxn", "mxn, 1 slot", "onetoone", "std", "pthread"];

const ANY: Attributes = Attributes { stack_size: None, bound: false };

fn main() -> ExitCode {
    let cpus = support::affinity::allowed().len() as u32;
    let mut questions = Vec::new();
    let creation = |name: &str, cases| {
        Question::new(format!("creation, {name}"), Unit::NanosEach("a thread"), cases).first(100)
    };
    let busy = 2 * cpus;
    questions.extend([
        creation("alone", some(&CONTENDERS, Creation { busy: 0 })),
        creation("beside a load", some(&CONTENDERS, Creation { busy: 0 }))
            .prepare(|| std::mem::forget(Load::half().expect("a shell"))),
        creation(&format!("beside {busy} threads that compute"), some(&PREEMPTIVE, Creation { busy })),
    ]);
    questions.extend([1, 2, 3, 4, 8, 16, 32, 64, 128].map(|threads| {
        let cases = some(&CONTENDERS, Computing { threads });
        Question::new(format!("computing, {threads} threads"), Unit::MillisInAll, cases).fixed(TASK)
    }));
    for threads in [1, 2, 4, 8, 32, 128] {
        let unit = || Unit::NanosEach("an entry");
        let (local, shared) = (some(&CONTENDERS, Locks { threads }), shared_locks(threads));
        questions.extend([
            Question::new(format!("locks, {threads} threads, local mutex"), unit(), local)
                .per_operation(threads.into()),
            Question::new(format!("locks, {threads} threads, process-shared mutex"), unit(), shared)
                .per_operation(threads.into()),
        ]);
    }
    questions.extend([1, 2, 4, 8, 16].map(|threads| {
        let cases = libraries(Search { threads });
        Question::new(format!("search, {threads} threads"), Unit::MillisInAll, cases).fixed(1)
    }));
    for micros in [250, 1_000, 4_000] {
        for threads in [2, 8, 32, 128] {
            let about = format!("{micros} us, 1000 us idle, {threads} threads");
            let cases = |read| libraries(Bursty { threads, micros, read });
            let (all, each) = (cases(elapsed), cases(turn_around));
            questions.extend([
                Question::new(format!("bursts of {about}"), Unit::MillisInAll, all).fixed(BURSTS),
                Question::new(format!("turn-around, {about}"), Unit::NanosEach("a burst"), each)
                    .fixed(BURSTS),
            ]);
        }
    }
    answer(questions)
}

fn elapsed(bursts: Bursts) -> Run {
    Run::took(bursts.all.due, bursts.all.expect_exact())
}

fn turn_around(bursts: Bursts) -> Run {
    Run::took(bursts.all.due, bursts.turn_around)
}

/// Of computing, in ms.
const TASK: u64 = 20;

/// Of each thread.
const BURSTS: u64 = 20;

/// An operation is a thread, until it has ended.
#[derive(Clone, Copy)]
struct Creation {
    busy: u32,
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
struct Computing {
    threads: u32,
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
struct Locks {
    threads: u32,
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
fn shared_locks(threads: u32) -> Vec<Case> {
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
trait Scene: Copy + Send + Sync + 'static {
    fn on<L: Library>(self, operations: u64) -> Run;
}

fn libraries(scene: impl Scene) -> Vec<Case> {
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
struct Search {
    threads: u32,
}

impl Scene for Search {
    fn on<L: Library>(self, searches: u64) -> Run {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/gr17.tsp");
        let instance: Arc<Instance> = Arc::new(read(&file).expect("it comes with the crate"));
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
struct Bursty {
    threads: u32,
    /// Of computing; idle, it is a millisecond.
    micros: u64,
    read: fn(Bursts) -> Run,
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
