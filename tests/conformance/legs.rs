//! The legs: each a runtime with settings that make it take other paths; and the macro that runs
//! scenarios on them.

use std::io::ErrorKind;

use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister};

use crate::shutdown::Shutdown;
use crate::watchdog::Watchdog;

/// One way to run a scenario.
pub(crate) trait Leg {
    type Rt: Shutdown + 'static;

    /// A fresh runtime.
    fn new() -> Self::Rt;

    /// What this machine lacks for it.
    fn missing() -> Option<String> {
        None
    }
}

/// Kernel threads.
pub(crate) struct Kernel;

impl Leg for Kernel {
    type Rt = OneToOne;

    fn new() -> OneToOne {
        OneToOne::new().expect("a 1:1 runtime")
    }
}

/// Makes a leg of green threads: what it is called, what it is, and its settings.
macro_rules! green {
    ($(#[$doc:meta])* $leg:ident, $builder:expr) => {
        $(#[$doc])*
        pub(crate) struct $leg;

        impl Leg for $leg {
            type Rt = Mxn;

            fn new() -> Mxn {
                $builder.build().expect("an M:N runtime")
            }

            fn missing() -> Option<String> {
                match $builder.build() {
                    Err(error) if error.kind() == ErrorKind::Unsupported => Some(error.to_string()),
                    _ => None,
                }
            }
        }
    };
}

green! {
    /// The thread register written by an instruction at every switch.
    Switched, Mxn::builder().concurrency(2).thread_register(ThreadRegister::Switched)
}

green! {
    /// The thread register written by a system call at every switch.
    Syscall, Mxn::builder().concurrency(2).thread_register(ThreadRegister::Syscall)
}

green! {
    /// Every switch moves the thread to another LWP.
    Migrating, Mxn::builder().concurrency(2).migrate_always(true)
}

green! {
    /// One slot: a thread that does not give it up stops all others.
    OneSlot, Mxn::builder().concurrency(1)
}

green! {
    /// More slots than CPUs.
    Crowded, Mxn::builder().concurrency(8)
}

green! {
    /// The thread register left alone.
    // SAFETY: what runs on this leg keeps nothing in a thread-local across a wait: `both!` says so of
    // each scenario.
    Pinned, unsafe { Mxn::builder().concurrency(2).pinned() }
}

/// Waits until `rt` has this many threads: one that has been joined may be counted for a moment more. The
/// watchdog ends a wait that would not.
pub(crate) fn settle<R: Runtime>(rt: &R, threads: usize) {
    while rt.info().threads != threads {
        std::thread::yield_now();
    }
}

/// Runs one scenario on one leg.
pub(crate) fn run<L: Leg>(what: &str, scenario: fn()) {
    if let Some(why) = L::missing() {
        println!("skipped: {what}: {why}");
        return;
    }
    let _watchdog = Watchdog::start(what);
    scenario();
}

/// Makes a test of each scenario for each leg. Scenarios that keep something in a thread-local across a
/// wait, or look at one, are set apart: `own locals:` is not for the leg on which threads share them.
macro_rules! both {
    (own locals: $($scenario:ident),* $(,)?) => {
        both! { @leg onetoone, Kernel, $($scenario),* }
        both! { @leg mxn, Switched, $($scenario),* }
        both! { @leg mxn_syscall, Syscall, $($scenario),* }
        both! { @leg mxn_migrating, Migrating, $($scenario),* }
        both! { @leg mxn_one_slot, OneSlot, $($scenario),* }
        both! { @leg mxn_crowded, Crowded, $($scenario),* }
    };
    ($($scenario:ident),* $(,)?) => {
        both! { own locals: $($scenario),* }
        both! { @leg mxn_pinned, Pinned, $($scenario),* }
    };
    (@leg $name:ident, $leg:ident, $($scenario:ident),*) => {
        mod $name {
            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    crate::legs::run::<crate::legs::$leg>(what, super::$scenario::<crate::legs::$leg>);
                }
            )*
        }
    };
}
