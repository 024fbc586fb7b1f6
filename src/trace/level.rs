//! The one switch: what is counted and recorded.

use std::io;
use std::num::NonZeroU32;

use crate::park::{fork, observed, traced};
use crate::recorder::{clock, crash, known, rings, session};
use crate::runtime::registry;
use crate::settings;
use crate::sys::affinity;
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

/// What was asked for: a level, and of how many threads one records events from the next time on.
struct Asked {
    by_program: (Level, NonZeroU32),
    by_clients: (Level, Option<NonZeroU32>),
}

/// Held while the level changes.
static ASKED: Mutex<Asked> =
    Mutex::new(Asked { by_program: (Level::Off, NonZeroU32::MIN), by_clients: (Level::Off, None) });

/// Sets what is counted and recorded, in the whole process, from now on. Threads that run meanwhile may miss
/// the change until they next wait or are dispatched.
///
/// While [`threadmon`](crate::threadmon) looks at the process, at least as much is counted and recorded as
/// that wants.
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
    let mut asked = ASKED.lock(|_| ());
    asked.by_program.0 = to;
    change(&asked);
}

/// Sets what clients of `threadmon` want: a level, and of how many threads one is to record events. `None`
/// leaves that to the program.
#[cfg(unix)]
pub(crate) fn want_level(level: Level, one_of: Option<NonZeroU32>) {
    let mut asked = ASKED.lock(|_| ());
    asked.by_clients = (level, one_of);
    change(&asked);
}

/// Counts and records the most of what was asked for.
fn change(asked: &Asked) {
    let (to, one_of) = asked.by_program;
    let (to, one_of) = (to.max(asked.by_clients.0), asked.by_clients.1.unwrap_or(one_of));
    let from = level();
    if to == from {
        return;
    }
    clock::start();
    fork::tell_children(in_child);
    if from == Level::Off {
        session::begin(clock::now());
    }
    if to == Level::Events {
        known::forget_names();
        session::begin_events(clock::now(), one_of.get());
    }
    // Before the accounts of threads that exist: a thread that begins meanwhile makes its own.
    observed::trace(to >= Level::Times, to >= Level::Events);
    if from == Level::Off {
        traced::open_kernel_threads();
    }
    if crash::is_wanted() {
        known::set_cpus(affinity::available() as u64);
    }
    for runtime in registry::all() {
        runtime.follow_trace();
        registry::note(&*runtime);
    }
}

/// Lets one thread of `one_of` record events, from the next time on that the level is raised to
/// [`Level::Events`]. At first, all do. Times are counted of all threads, and LWPs record what they do.
///
/// A thread that is not in the sample costs about as much as with [`Level::Times`], and the rings hold the
/// events of a longer time. Which threads are in it follows from their identities, so a thread is in it for
/// all of its life. [`Recording::sampled`](super::Recording::sampled) tells a reader.
///
/// # Examples
///
/// ```
/// use selvedge::trace::{self, Level, Recording};
/// use selvedge::{Mxn, Runtime, thread};
/// use std::num::NonZeroU32;
///
/// trace::set_sample(NonZeroU32::new(16).unwrap());
/// trace::set_level(Level::Events);
/// let rt = Mxn::new()?;
/// let threads: Vec<_> = (0..64).map(|_| rt.spawn(thread::yield_now)).collect();
/// threads.into_iter().for_each(|thread| thread.join().unwrap());
/// let recording = Recording::take();
/// trace::set_level(Level::Off);
/// assert_eq!(recording.sampled().get(), 16);
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// Nothing but other callers, and those of [`set_level`].
pub fn set_sample(one_of: NonZeroU32) {
    ASKED.lock(|_| ()).by_program.1 = one_of;
}

/// Sets how many events are kept of an LWP, from 1,000 to 10,000,000. If neither a program nor
/// `SELVEDGE_TRACE_EVENTS` says so, 16,000 are. A program's number counts more than the variable.
///
/// A ring is made when the trace is on and its kernel thread runs, and keeps its size as long as that thread
/// lives. So call this before the level is first raised. LWPs that begin later get rings of the new size, as
/// do all LWPs of runtimes that are built later. A kernel thread that is no LWP has a thirty-second part of
/// it.
///
/// A ring has 32 bytes for each event. Their number is rounded up: a ring has up to twice as many. The system
/// gives memory when events come, and it is kept until the process ends.
///
/// A switch from one thread to another takes about three events: one waits, one was woken, and one runs. So
/// an LWP's events go back this far:
///
/// | switches in a second | 16,000 events | 1,000,000 events | 10,000,000 events |
/// |---|---|---|---|
/// | 1,000 | 5 s | 5 min | 55 min |
/// | 100,000 | 50 ms | 3 s | 30 s |
///
/// # Examples
///
/// ```
/// use selvedge::trace::set_ring_events;
///
/// set_ring_events(1_000_000)?;
/// let error = set_ring_events(10).unwrap_err().to_string();
/// assert_eq!(error, "invalid number of events 10: expected a whole number from 1000 to 10000000");
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// `InvalidInput` for any other number.
pub fn set_ring_events(events: usize) -> io::Result<()> {
    rings::set_events(settings::check_ring_events(events)?);
    Ok(())
}

/// Switches the trace off in the child of a fork: the threads and the events are the parent's, and so are the
/// clients.
fn in_child() {
    let mut asked = ASKED.lock(|_| ());
    asked.by_program.0 = Level::Off;
    asked.by_clients = (Level::Off, None);
    observed::trace(false, false);
    rings::in_child();
    known::forget_names();
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
