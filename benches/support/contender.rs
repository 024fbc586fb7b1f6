//! Who competes, and how a workload runs on each.
//!
//! A workload is written twice: for threads, generic over the library, and for tokio's tasks. [`all`] gives it to every
//! contender. A contender's runtime is started with its defaults (one worker for each CPU) unless its name says
//! otherwise, and the workload's main thread is a thread of that runtime.

use std::time::Duration;

use tokio::runtime::Builder as Tokio;

use super::harness::{Case, Run, Side};
use super::library::Std;
use super::ours;
use super::parking::Parking;
use super::peers::{May, ParkingLot};
use super::pthread::Pthread;

/// What the benches ask of a library beyond what the papers' programs do.
pub(crate) trait Contender: Parking {
    /// Starts a thread with all defaults, as a program does that does not care.
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread;
}

impl Contender for Std {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        std::thread::spawn(body)
    }
}

/// Something whose speed is asked for.
pub(crate) trait Workload: Copy + Send + Sync + 'static {
    /// Does `operations` on the threads of `C`, called on one of them. Gives the time that they took.
    fn threads<C: Contender>(self, operations: u64) -> Duration;

    /// The same on tokio's tasks, called in one of them.
    fn tasks(self, operations: u64) -> impl Future<Output = Duration> + Send;
}

/// Every contender, with this workload.
pub(crate) fn all<W: Workload>(workload: W) -> Vec<Case> {
    all_with(workload, |builder| builder)
}

/// The same, with tokio's runtimes as they are set up here.
fn all_with<W: Workload>(workload: W, set_up: fn(&mut Tokio) -> &mut Tokio) -> Vec<Case> {
    let mut cases = ours::all(workload);
    cases.extend([
        Case::new("std", Side::Peer, move |effort| {
            beside_main(move || effort.spend(|n| workload.threads::<Std>(n)))
        }),
        Case::new("parking_lot", Side::Peer, move |effort| {
            beside_main(move || effort.spend(|n| workload.threads::<ParkingLot>(n)))
        }),
        Case::new("pthread", Side::Peer, move |effort| {
            beside_main(move || effort.spend(|n| workload.threads::<Pthread>(n)))
        }),
        Case::new("may", Side::Peer, move |effort| {
            May::run(None, move || effort.spend(|n| workload.threads::<May>(n)))
        }),
        Case::new("may, 1 worker", Side::Peer, move |effort| {
            May::run(Some(1), move || effort.spend(|n| workload.threads::<May>(n)))
        }),
        Case::new("tokio", Side::Peer, move |effort| {
            let runtime = set_up(&mut Tokio::new_multi_thread()).build().unwrap();
            let main = async move { effort.spend_async(|n| workload.tasks(n)).await };
            runtime.block_on(async { tokio::spawn(main).await.unwrap() })
        }),
        Case::new("tokio, current thread", Side::Peer, move |effort| {
            let runtime = set_up(&mut Tokio::new_current_thread()).build().unwrap();
            runtime.block_on(effort.spend_async(|n| workload.tasks(n)))
        }),
    ]);
    cases
}

/// Runs a workload of kernel threads on one of them: the C library's mutex needs no atomic instruction while the process
/// has a single thread, which no program with threads will see.
fn beside_main(main: impl FnOnce() -> Run + Send) -> Run {
    std::thread::scope(|scope| scope.spawn(main).join().unwrap())
}

/// Some of the contenders, by name, in the order of the names.
pub(crate) fn some<W: Workload>(names: &[&str], workload: W) -> Vec<Case> {
    pick(names, all(workload), workload)
}

/// The same for workloads that sleep: tokio has timers only on demand.
pub(crate) fn some_with_timers<W: Workload>(names: &[&str], workload: W) -> Vec<Case> {
    pick(names, all_with(workload, Tokio::enable_time), workload)
}

fn pick<W: Workload>(names: &[&str], mut cases: Vec<Case>, workload: W) -> Vec<Case> {
    cases.extend(ours::cooperative(workload));
    let mut take = |name: &&str| {
        let found = cases.iter().position(|case| case.name == *name);
        cases.swap_remove(found.unwrap_or_else(|| panic!("no contender is called {name}")))
    };
    names.iter().map(&mut take).collect()
}
