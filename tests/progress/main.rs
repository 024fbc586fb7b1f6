//! Nothing stops the others: threads that block in the kernel, threads that never yield, and what both do to the
//! program around them.
//!
//! Each scenario loads the machine, so they run one after the other. Each mechanism has a control, the same without it, which is asserted to
//! fail, where a builder can switch it off; some scenarios share one. `SELVEDGE_STRESS=full` plays them at full length.

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "../support/child.rs"]
mod child;
#[path = "../support/watchdog.rs"]
mod watchdog;

mod allocator;
mod arrivals;
mod brief;
mod calls;
mod convoy;
mod crowd;
mod deadlock;
mod fault;
mod frames;
mod helpers;
mod hogs;
mod kinds;
mod ladder;
mod load;
mod names;
mod registers;
mod signals;
mod slices;
mod storm;
mod turns;

use ladder::Rung;

/// The scenarios that want a process of their own.
#[test]
#[ignore = "the other side of some of the tests"]
fn child() {
    child::play(&[
        ("crowd, Switched", || crowd::crowd(Rung::Switched)),
        ("crowd, Syscall", || crowd::crowd(Rung::Syscall)),
        ("load", load::role),
        ("names, Switched", || names::role(Rung::Switched)),
        ("names, Syscall", || names::role(Rung::Syscall)),
        ("interruptions, Switched", || signals::interruptions(Rung::Switched)),
        ("interruptions, Syscall", || signals::interruptions(Rung::Syscall)),
        ("handlers, Switched", || signals::handlers(Rung::Switched)),
        ("handlers, Syscall", || signals::handlers(Rung::Syscall)),
        ("no signal memory, Switched", || frames::no_signal_memory(Rung::Switched)),
        ("no signal memory, Syscall", || frames::no_signal_memory(Rung::Syscall)),
        ("blocks nothing, Switched", || frames::handlers_that_block_nothing(Rung::Switched)),
        ("blocks nothing, Syscall", || frames::handlers_that_block_nothing(Rung::Syscall)),
        ("base of GS, Switched", || frames::base_of_gs(Rung::Switched)),
        ("base of GS, Syscall", || frames::base_of_gs(Rung::Syscall)),
        ("helpers, Switched", || helpers::helpers(Rung::Switched)),
        ("helpers, Syscall", || helpers::helpers(Rung::Syscall)),
        ("handler in front, Switched", || frames::handler_in_front(Rung::Switched)),
        ("handler in front, Syscall", || frames::handler_in_front(Rung::Syscall)),
        ("no alternate stack, Switched", || frames::no_alternate_stack(Rung::Switched)),
        ("no alternate stack, Syscall", || frames::no_alternate_stack(Rung::Syscall)),
    ]);
}
