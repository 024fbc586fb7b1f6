//! The comparison of NT and Solaris: each of its experiments, small, on every runtime; the solver of its search, and its program.

#[path = "../../examples/support/mod.rs"]
mod support;
#[path = "../support/watchdog.rs"]
mod watchdog;

mod solver;
mod tsplib;
