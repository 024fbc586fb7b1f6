//! A deadlock report: two threads take two locks in opposite order.
//!
//! ```text
//! cargo run --release --example deadlock
//! ```
//!
//! A program needs no code for this. With `SELVEDGE_DEADLOCK=report` in its environment, a runtime looks for
//! deadlocks by itself, and writes the report to standard error. With `abort`, it then ends the process.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use selvedge::sync::{Barrier, Mutex, stats};
use selvedge::thread::{self, Builder};
use selvedge::{Mxn, Runtime};

fn main() -> std::io::Result<()> {
    // From now on, the report knows the owners of locks.
    thread::record_owners();
    // Two threads will wait forever, so dropping the runtime would, too.
    let rt = ManuallyDrop::new(Mxn::new()?);
    let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
    stats::name(&locks[0], "accounts");
    stats::name(&locks[1], "journal");
    let both_hold_one = Arc::new(Barrier::new(2));
    for (name, first, second) in [("transfer", 0, 1), ("audit", 1, 0)] {
        let (locks, both_hold_one) = (Arc::clone(&locks), Arc::clone(&both_hold_one));
        let _ = rt.spawn_with(Builder::new().name(name.into()), move || {
            let _first = locks[first].lock();
            both_hold_one.wait();
            let _second = locks[second].lock();
        })?;
    }
    let report = loop {
        let report = rt.deadlocks();
        if report.any() {
            break report;
        }
        std::thread::yield_now();
    };
    println!("{report}");
    let [cycle] = report.cycles() else { panic!("one cycle") };
    assert_eq!(cycle.threads().len(), 2);
    Ok(())
}
