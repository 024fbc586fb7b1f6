//! Nothing stops the others: threads that block in the kernel, threads that never yield, and what both do
//! to the program around them.
//!
//! Each scenario loads the machine, so they run one after the other. Each mechanism has a control, the
//! same without it, which is asserted to fail, where a builder can switch it off; some scenarios share
//! one. `SELVEDGE_STRESS=full` plays them at full length.

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "../support/child.rs"]
mod child;
#[path = "../support/unseen.rs"]
mod unseen;
#[path = "../support/waiting.rs"]
mod waiting;
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

use ladder::ThreadRegister;

/// The scenarios that want a process of their own.
#[test]
#[ignore = "the other side of some of the tests"]
fn child() {
    child::play(&[
        ("crowd, Switched", || crowd::crowd(ThreadRegister::Switched)),
        ("crowd, Syscall", || crowd::crowd(ThreadRegister::Syscall)),
        ("load", load::role),
        ("names, Switched", || names::role(ThreadRegister::Switched)),
        ("names, Syscall", || names::role(ThreadRegister::Syscall)),
        ("interruptions, Switched", || signals::interruptions(ThreadRegister::Switched)),
        ("interruptions, Syscall", || signals::interruptions(ThreadRegister::Syscall)),
        ("handlers, Switched", || signals::handlers(ThreadRegister::Switched)),
        ("handlers, Syscall", || signals::handlers(ThreadRegister::Syscall)),
        ("no signal memory, Switched", || frames::no_signal_memory(ThreadRegister::Switched)),
        ("no signal memory, Syscall", || frames::no_signal_memory(ThreadRegister::Syscall)),
        ("blocks nothing, Switched", || frames::handlers_that_block_nothing(ThreadRegister::Switched)),
        ("blocks nothing, Syscall", || frames::handlers_that_block_nothing(ThreadRegister::Syscall)),
        ("base of GS, Switched", || frames::base_of_gs(ThreadRegister::Switched)),
        ("base of GS, Syscall", || frames::base_of_gs(ThreadRegister::Syscall)),
        ("helpers, Switched", || helpers::helpers(ThreadRegister::Switched)),
        ("helpers, Syscall", || helpers::helpers(ThreadRegister::Syscall)),
        ("handler in front, Switched", || frames::handler_in_front(ThreadRegister::Switched)),
        ("handler in front, Syscall", || frames::handler_in_front(ThreadRegister::Syscall)),
        ("no alternate stack, Switched", || frames::no_alternate_stack(ThreadRegister::Switched)),
        ("no alternate stack, Syscall", || frames::no_alternate_stack(ThreadRegister::Syscall)),
    ]);
}
