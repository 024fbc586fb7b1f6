//! The one switch: what is counted and recorded.

use crate::park::{fork, observed, traced};
use crate::recorder::{clock, crash, rings, session};
use crate::runtime::registry;
use crate::sys::once::Mutex;

/// What is counted and recorded of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Nothing.
    #[default]
    Off,
    /// How long each thread and each LWP is in each state.
    Times,
    /// The same, and the last events of each kernel thread.
    Events,
}

/// Held while the level changes.
static CHANGING: Mutex<()> = Mutex::new(());

/// Sets what is counted and recorded, in the whole process, from now on. Threads that run meanwhile may miss
/// the change until they next wait or are dispatched.
///
/// Times are counted from the moment when the level is raised from [`Level::Off`]. A thread has 128 bytes for
/// them, which are kept when the level is lowered.
///
/// # Examples
///
/// ```
/// use selvedge::trace::{Level, level, set_level};
///
/// set_level(Level::Times);
/// assert_eq!(level(), Level::Times);
/// set_level(Level::Off);
/// ```
///
/// # Blocks
///
/// Nothing but other callers. It takes time for each thread that exists: about 30 ms for a million.
pub fn set_level(to: Level) {
    let _changing = CHANGING.lock(|()| ());
    let from = level();
    if to == from {
        return;
    }
    clock::start();
    fork::tell_children(in_child);
    if from == Level::Off {
        session::begin(clock::now());
    }
    // Before the accounts of threads that exist: a thread that begins meanwhile makes its own.
    observed::trace(to >= Level::Times, to >= Level::Events);
    if from == Level::Off {
        traced::open_kernel_threads();
    }
    registry::all().iter().for_each(|runtime| runtime.follow_trace());
}

/// Switches the trace off in the child of a fork: the threads and the events are the parent's.
fn in_child() {
    observed::trace(false, false);
    rings::in_child();
    crash::forget();
}

/// Returns what is counted and recorded.
#[must_use]
pub fn level() -> Level {
    match (observed::is_traced(), observed::are_events_recorded()) {
        (false, _) => Level::Off,
        (true, false) => Level::Times,
        (true, true) => Level::Events,
    }
}
