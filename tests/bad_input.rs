//! Input that makes no sense, limits that are reached, and calls at the wrong moment. Each gets a clear
//! error. Nothing is lost, and nothing hangs.

#[path = "support/child.rs"]
mod child;
#[path = "bad_input/ends.rs"]
mod ends;
#[path = "bad_input/fork.rs"]
mod fork;
#[path = "bad_input/fork_large.rs"]
mod fork_large;
#[path = "bad_input/fork_robust.rs"]
mod fork_robust;
#[path = "bad_input/forked.rs"]
mod forked;
#[path = "bad_input/limits.rs"]
mod limits;
#[path = "bad_input/locks.rs"]
mod locks;
#[path = "bad_input/process.rs"]
mod process;
#[path = "bad_input/settings.rs"]
mod settings;
#[path = "bad_input/shutdown.rs"]
mod shutdown;
#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use selvedge::{Mxn, OneToOne};

/// The runtimes that a child is told to use.
pub(crate) const BOTH: [&str; 2] = ["mxn", "onetoone"];

pub(crate) fn mxn() -> Mxn {
    Mxn::builder().concurrency(2).build().expect("the runtime starts")
}

pub(crate) fn onetoone() -> OneToOne {
    OneToOne::new().expect("the runtime starts")
}

/// Not a test: what the tests run in processes of their own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let mut table = settings::ROLES.to_vec();
    table.extend(limits::ROLES);
    table.extend(ends::ROLES);
    table.extend(shutdown::ROLES);
    table.extend(fork::ROLES);
    table.extend(fork_robust::ROLES);
    table.extend(fork_large::ROLES);
    table.extend(process::ROLES);
    child::play(&table);
}
