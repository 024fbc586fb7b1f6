//! The comparison of NT and Solaris: each of its experiments, small, on every runtime; the solver of its
//! search, and its program.

#[path = "../support/child.rs"]
mod child;
#[path = "../support/rungs.rs"]
mod rungs;
#[path = "../../examples/support/mod.rs"]
mod support;
#[path = "../support/watchdog.rs"]
mod watchdog;

mod most;
mod program;
mod solver;
mod tsplib;
mod workers;

/// Not a test: what the tests run in processes of their own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let mut table = most::ROLES.to_vec();
    table.extend(program::ROLES);
    child::play(&table);
}
