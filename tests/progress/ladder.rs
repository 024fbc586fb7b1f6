//! The rungs that a scenario runs on, for how long, and never two scenarios at once.

use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use selvedge::ThreadRegister;
use selvedge::mxn::{Builder, Mxn};

use crate::watchdog::Watchdog;

/// Those on which any thread may go on anywhere.
pub(crate) const MIGRATING: &[ThreadRegister] = &[ThreadRegister::Switched, ThreadRegister::Syscall];
/// Those, and the one on which threads stay where they began: for scenarios that ask for threads which have
/// not run yet.
pub(crate) const ALL: &[ThreadRegister] =
    &[ThreadRegister::Switched, ThreadRegister::Syscall, ThreadRegister::Pinned];

/// Returns a builder for a runtime on this rung.
pub(crate) fn builder(rung: ThreadRegister) -> Builder {
    if rung == ThreadRegister::Pinned {
        // SAFETY: scenarios that run on `ALL` keep nothing in a thread-local across a call that can switch.
        return unsafe { Mxn::builder().pinned() };
    }
    Mxn::builder().thread_register(rung)
}

/// Held by the one scenario that runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // One that failed has ended too.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays `scenario` on each of these rungs that the machine has, one after the other.
pub(crate) fn on(rungs: &[ThreadRegister], what: &str, scenario: impl Fn(ThreadRegister)) {
    let _alone = alone();
    for &rung in rungs {
        match builder(rung).concurrency(1).build() {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                println!("skipped: {what}, {rung:?}: {error}");
            }
            built => {
                drop(built.expect("an M:N runtime"));
                let _watchdog = Watchdog::start(format!("{what}, {rung:?}"));
                scenario(rung);
            }
        }
    }
}

/// Returns `true` if the scenarios are played at full length.
pub(crate) fn full() -> bool {
    std::env::var_os("SELVEDGE_STRESS").is_some_and(|value| value == "full")
}

/// One of two sizes of a scenario.
pub(crate) fn sized<T>(short: T, whole: T) -> T {
    if full() { whole } else { short }
}

/// What was printed beside an assertion stays in the log of a full run.
pub(crate) fn report(what: impl std::fmt::Display) {
    println!("  {what}");
}

/// For so long, and for so many attempts, may other work spoil what is tried.
const SPOILT: (Duration, usize) = (Duration::from_secs(60), 3);

/// Tries again what a busy machine can spoil: `attempt` gives a figure, the best of all must satisfy.
#[track_caller]
pub(crate) fn best_of<T: std::fmt::Debug>(
    what: &str,
    enough: impl Fn(&T) -> bool,
    mut attempt: impl FnMut() -> T,
) {
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while begun.elapsed() < SPOILT.0 || seen.len() < SPOILT.1 {
        let figure = attempt();
        let good = enough(&figure);
        seen.push(figure);
        if good {
            report(format_args!("{what}: {seen:?}"));
            return;
        }
    }
    panic!("{what}: {seen:?}");
}

/// How long a control is watched for doing nothing.
pub(crate) const CONTROL: Duration = Duration::from_millis(100);
