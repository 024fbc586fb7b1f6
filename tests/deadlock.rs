//! Deadlocks are reported where there are some, with names, locks and owners; and nowhere else.

#[path = "support/child.rs"]
mod child;
#[path = "deadlock/kinds.rs"]
mod kinds;
#[path = "deadlock/live.rs"]
mod live;
#[path = "deadlock/real.rs"]
mod real;
#[path = "deadlock/shares.rs"]
mod shares;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge::thread::{self, Deadlocks};
use selvedge::{Mxn, OneToOne, Runtime};

/// What a role does on a runtime that it is given.
pub(crate) trait Scene {
    fn play<R: Runtime>(&self, rt: &R);
}

/// The runtimes that a child is told to use, by a variable.
pub(crate) const BOTH: [&str; 3] = ["mxn", "mxn-one-slot", "onetoone"];
pub(crate) const RT: &str = "SELVEDGE_TEST_RUNTIME";

/// Plays a scene on the runtime that the environment names.
pub(crate) fn on_named(scene: &impl Scene) {
    match std::env::var(RT).as_deref() {
        Ok("mxn") => scene.play(&Mxn::builder().concurrency(2).build().expect("the runtime starts")),
        Ok("mxn-one-slot") => scene.play(&Mxn::builder().concurrency(1).build().expect("the runtime starts")),
        Ok("onetoone") => scene.play(&OneToOne::new().expect("the runtime starts")),
        other => panic!("no runtime {other:?}"),
    }
}

/// Waits until a report of `rt` satisfies `enough`: threads need a moment to get stuck. The parent ends a
/// wait that would not end.
pub(crate) fn report_when<R: Runtime>(rt: &R, enough: impl Fn(&Deadlocks) -> bool) -> Deadlocks {
    loop {
        let report = rt.deadlocks();
        if enough(&report) {
            return report;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends the process, in which threads wait forever.
pub(crate) fn end(report: &Deadlocks) -> ! {
    println!("{report}");
    println!("played");
    std::process::exit(0)
}

/// A step that others wait for, without anything that would be seen, or would make them known.
#[derive(Clone, Default)]
pub(crate) struct Step(Arc<AtomicU64>);

impl Step {
    pub(crate) fn is(&self, n: u64) {
        self.0.store(n, Ordering::Release);
    }

    /// By a thread that stays unknown.
    pub(crate) fn awaits(&self, n: u64) {
        self.awaits_with(n, std::thread::yield_now);
    }

    /// By one that lets others run.
    pub(crate) fn yields_until(&self, n: u64) {
        self.awaits_with(n, thread::yield_now);
    }

    fn awaits_with(&self, n: u64, pause: fn()) {
        while self.0.load(Ordering::Acquire) < n {
            pause();
        }
    }
}

/// For scenes: a thread that holds what the next one wants meets the others here first.
pub(crate) fn meet(barrier: &selvedge::sync::Barrier) {
    barrier.wait();
    thread::yield_now();
}

/// Not a test: what the tests run in processes of their own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let mut table = real::ROLES.to_vec();
    table.extend(live::ROLES);
    table.extend(shares::ROLES);
    table.extend(kinds::ROLES);
    child::play(&table);
}
