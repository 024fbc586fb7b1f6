//! Nothing stops the others: threads that block in the kernel, threads that never yield, and what both do to the
//! program around them.
//!
//! Each scenario loads the machine, so they run one after the other; each has a control, the same without the mechanism
//! that it is about, and asserts that the control fails. `SELVEDGE_STRESS=full` plays them at full length.

#[path = "../support/watchdog.rs"]
mod watchdog;

mod calls;
mod deadlock;
mod ladder;
mod storm;
