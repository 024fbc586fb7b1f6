//! The contenders, and how a workload runs on each.
//!
//! A [`Scene`] is written once, generic over the library of the threads that play it. A [`Workload`] is a
//! scene that tells how long it took, and is written once more for tokio's tasks. [`threads`] and [`all`]
//! give them to every contender. A contender's runtime is started with its defaults (one worker for each
//! CPU) unless its name says otherwise, and a scene begins on a thread of that runtime.

use std::time::Duration;

use tokio::runtime::Builder as Tokio;

use super::harness::{Case, Effort, Run, Side};
use super::library::Std;
use super::ours;
use super::parking::Parking;
use super::peers::{May, ParkingLot};
use super::pthread::Pthread;
use super::sockets::Network;
use super::unmodified;

/// What the benches ask of a library beyond what the papers' programs do.
pub(crate) trait Contender: Parking + Network {
    /// Starts a thread with all defaults, as a program does that does not care.
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread;
}

impl Contender for Std {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        std::thread::spawn(body)
    }
}

/// Something that threads can be asked for.
pub(crate) trait Scene: Copy + Send + Sync + 'static {
    /// Makes this effort with threads of `C`, called on one of them.
    fn play<C: Contender>(self, effort: Effort) -> Run;
}

/// Something to be timed.
pub(crate) trait Workload: Copy + Send + Sync + 'static {
    /// Does `operations` on the threads of `C`, called on one of them. Gives the time that they took.
    fn threads<C: Contender>(self, operations: u64) -> Duration;

    /// The same on tokio's tasks, called in one of them.
    fn tasks(self, operations: u64) -> impl Future<Output = Duration> + Send;

    /// Gives tokio's runtime what tasks need besides each other: timers and sockets come on demand.
    fn equip(self, _tokio: &mut Tokio) {}
}

impl<W: Workload> Scene for W {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|operations| self.threads::<C>(operations))
    }
}

/// A loop that needs nothing of a library but a thread to run on.
#[derive(Clone, Copy)]
pub(crate) struct Loop(pub(crate) fn(u64) -> Duration);

impl Scene for Loop {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(self.0)
    }
}

/// Those of [`all`] that use all CPUs; the last has no threads.
const PARALLEL: [&str; 9] = [
    "mxn",
    "mxn, register by syscall",
    "mxn, pinned",
    "onetoone",
    "std",
    "parking_lot",
    "pthread",
    "may",
    "tokio",
];

/// Ours on all CPUs, the M:N runtime on each rung of the ladder.
pub(crate) const OURS: [&str; 4] = ["mxn", "mxn, register by syscall", "mxn, pinned", "onetoone"];

/// Those with kernel threads.
pub(crate) const KERNEL: [&str; 4] = ["onetoone", "std", "parking_lot", "pthread"];

/// Every contender, with this workload.
pub(crate) fn all(workload: impl Workload) -> Vec<Case> {
    let mut cases = threads(workload);
    cases.extend(tokio(move |n| workload.tasks(n), move |tokio| workload.equip(tokio)));
    cases
}

/// Every contender that has threads, with this scene.
pub(crate) fn threads(scene: impl Scene) -> Vec<Case> {
    let mut cases = ours::all(scene);
    cases.extend(unmodified::case(scene));
    cases.extend([
        kernel::<Std>("std", scene),
        kernel::<ParkingLot>("parking_lot", scene),
        kernel::<Pthread>("pthread", scene),
        may("may", None, scene),
        may("may, 1 worker", Some(1), scene),
    ]);
    cases
}

/// Those that use all CPUs: ours in each way to keep the thread register.
pub(crate) fn parallel(workload: impl Workload) -> Vec<Case> {
    pick(&PARALLEL, all(workload))
}

/// The same, but tokio.
pub(crate) fn parallel_threads(scene: impl Scene) -> Vec<Case> {
    pick(&PARALLEL[..PARALLEL.len() - 1], threads(scene))
}

/// The names of some contenders, and that of what programs have that know nothing of Selvedge, in builds that
/// have it.
pub(crate) fn and_unmodified(names: &[&'static str]) -> Vec<&'static str> {
    let unmodified = cfg!(feature = "interpose").then_some(unmodified::NAME);
    names.iter().copied().chain(unmodified).collect()
}

/// Some of the contenders, by name, in the order of the names.
pub(crate) fn some(names: &[&str], workload: impl Workload) -> Vec<Case> {
    let mut cases = all(workload);
    cases.extend(ours::cooperative(workload));
    pick(names, cases)
}

/// The same of those that have threads.
pub(crate) fn some_threads(names: &[&str], scene: impl Scene) -> Vec<Case> {
    pick(names, threads(scene))
}

/// One that has threads, by another name.
pub(crate) fn called(new: &'static str, name: &str, scene: impl Scene) -> Case {
    some_threads(&[name], scene).remove(0).named(new)
}

/// All of the cases but those of this name.
pub(crate) fn without(name: &str, mut cases: Vec<Case>) -> Vec<Case> {
    cases.retain(|case| case.name != name);
    cases
}

/// Those of the cases that have these names, in the order of the names.
pub(crate) fn pick(names: &[&str], mut cases: Vec<Case>) -> Vec<Case> {
    let mut take = |name: &&str| {
        let found = cases.iter().position(|case| case.name == *name);
        cases.swap_remove(found.unwrap_or_else(|| panic!("no contender is called {name}")))
    };
    names.iter().map(&mut take).collect()
}

/// tokio's runtimes with these tasks, and with what those need.
pub(crate) fn tokio<F>(
    tasks: impl Fn(u64) -> F + Copy + Send + Sync + 'static,
    equip: impl Fn(&mut Tokio) + Copy + 'static,
) -> [Case; 2]
where
    F: Future<Output = Duration> + Send + 'static,
{
    let start = move |mut builder: Tokio| {
        equip(&mut builder);
        builder.build().unwrap()
    };
    [
        Case::new("tokio", Side::Peer, move |effort| {
            let runtime = start(Tokio::new_multi_thread());
            runtime.block_on(async { tokio::spawn(effort.spend_async(tasks)).await.unwrap() })
        }),
        Case::new("tokio, current thread", Side::Peer, move |effort| {
            start(Tokio::new_current_thread()).block_on(effort.spend_async(tasks))
        }),
    ]
}

/// Kernel threads begin beside the main thread. While the process has a single thread, the C library's mutex
/// needs no atomic instruction, which no program with threads will see.
fn kernel<C: Contender>(name: &'static str, scene: impl Scene) -> Case {
    Case::new(name, Side::Peer, move |effort| {
        std::thread::scope(|scope| scope.spawn(|| scene.play::<C>(effort)).join().unwrap())
    })
}

fn may(name: &'static str, workers: Option<usize>, scene: impl Scene) -> Case {
    Case::new(name, Side::Peer, move |effort| May::run(workers, move || scene.play::<May>(effort)))
}
