//! The legs: each a runtime with settings that make it take other paths; and the macro that runs
//! scenarios on them.

#![cfg_attr(
    any(selvedge_legs = "kernel", selvedge_legs = "green"),
    allow(dead_code, reason = "the other kind of legs is not compiled")
)]

use std::cell::Cell;
use std::io::ErrorKind;

use selvedge::mxn::Builder;
use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister};

use crate::shutdown::Shutdown;
use crate::watchdog::Watchdog;

/// What a scenario is compiled for.
pub(crate) trait Leg {
    type Rt: Shutdown + 'static;

    /// A fresh runtime. Only the thread that plays the scenario may ask for one, and what it has
    /// [`passed_on`].
    fn new() -> Self::Rt;
}

/// Kernel threads.
pub(crate) struct Kernel;

impl Leg for Kernel {
    type Rt = OneToOne;

    fn new() -> OneToOne {
        OneToOne::new().expect("a 1:1 runtime")
    }
}

/// Green threads, with the settings of the leg that is played. With a type for each of these legs, every
/// scenario would be compiled six times.
pub(crate) struct Green;

impl Leg for Green {
    type Rt = Mxn;

    fn new() -> Mxn {
        let settings = SETTINGS.get().expect("a thread that plays the scenario, or was passed on");
        settings().build().expect("an M:N runtime")
    }
}

/// The settings of one leg of green threads.
pub(crate) type Settings = fn() -> Builder;

thread_local! {
    /// What this thread plays a scenario with.
    static SETTINGS: Cell<Option<Settings>> = const { Cell::new(None) };
}

/// The thread register written by an instruction at every switch.
pub(crate) fn switched() -> Builder {
    Mxn::builder().concurrency(2).thread_register(ThreadRegister::Switched)
}

/// The thread register written by a system call at every switch.
pub(crate) fn syscall() -> Builder {
    Mxn::builder().concurrency(2).thread_register(ThreadRegister::Syscall)
}

/// Every switch moves the thread to another LWP.
pub(crate) fn migrating() -> Builder {
    Mxn::builder().concurrency(2).migrate_always(true)
}

/// One slot: a thread that does not give it up stops all others.
pub(crate) fn one_slot() -> Builder {
    Mxn::builder().concurrency(1)
}

/// More slots than CPUs.
pub(crate) fn crowded() -> Builder {
    Mxn::builder().concurrency(8)
}

/// The thread register left alone.
pub(crate) fn pinned() -> Builder {
    // SAFETY: what runs on this leg keeps nothing in a thread-local across a wait: `both!` says so of
    // each scenario.
    unsafe { Mxn::builder().concurrency(2).pinned() }
}

/// Returns `work` for another thread, which may then ask for runtimes as the calling one may.
pub(crate) fn passed_on<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let settings = SETTINGS.get();
    move || {
        SETTINGS.set(settings);
        work()
    }
}

/// Waits until `rt` has this many threads: one that has been joined may be counted for a moment more. The
/// watchdog ends a wait that would not.
pub(crate) fn settle<R: Runtime>(rt: &R, threads: usize) {
    while rt.info().threads != threads {
        std::thread::yield_now();
    }
}

/// Runs one scenario on one leg, which has settings if its threads are green.
pub(crate) fn run(what: &str, settings: Option<Settings>, scenario: fn()) {
    match settings.map(|settings| settings().build()) {
        Some(Err(error)) if error.kind() == ErrorKind::Unsupported => {
            println!("skipped: {what}: {error}");
            return;
        }
        _ => {}
    }
    let _watchdog = Watchdog::start(what);
    SETTINGS.set(settings);
    scenario();
}

/// Makes a test of each scenario for each leg. Scenarios that keep something in a thread-local across a
/// wait, or look at one, are set apart: `own locals:` is not for the leg on which threads share them.
///
/// Parts of CI that run only one kind of leg compile only that kind, with `--cfg selvedge_legs="kernel"` or
/// `--cfg selvedge_legs="green"`.
macro_rules! both {
    (own locals: $($scenario:ident),* $(,)?) => {
        #[cfg(not(selvedge_legs = "green"))]
        both! { @leg onetoone, Kernel, None, $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn, Green, Some(crate::legs::switched), $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn_syscall, Green, Some(crate::legs::syscall), $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn_migrating, Green, Some(crate::legs::migrating), $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn_one_slot, Green, Some(crate::legs::one_slot), $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn_crowded, Green, Some(crate::legs::crowded), $($scenario),* }
    };
    ($($scenario:ident),* $(,)?) => {
        both! { own locals: $($scenario),* }
        #[cfg(not(selvedge_legs = "kernel"))]
        both! { @leg mxn_pinned, Green, Some(crate::legs::pinned), $($scenario),* }
    };
    (@leg $name:ident, $leg:ident, $settings:expr, $($scenario:ident),*) => {
        mod $name {
            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    crate::legs::run(what, $settings, super::$scenario::<crate::legs::$leg>);
                }
            )*
        }
    };
}
