//! A thread that looks for deadlocks by itself, where a program or its user has asked for that.
//!
//! It looks at all of the process every [`PERIOD`], and less often if a look takes long. Not when a runtime goes idle, since most
//! deadlocks are of a few threads while others go on; not from the monitor, which must not allocate (I4) and sleeps when all
//! do. It says each deadlock once.

use std::collections::HashSet;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::look::deadlocks;
use super::{Deadlocks, Standstill};
use crate::park::ledger;
use crate::settings::{self, Lookup};
use crate::thread::ThreadId;

/// Between two looks. Range: whatever a person who waits for a message does not notice.
const PERIOD: Duration = Duration::from_millis(100);
/// A look takes at most one part in so many of the time, unless it takes longer than that part of [`LONGEST`].
const SHARE: u32 = 20;
/// Between two looks at most: one that was held up by others is not to put off the next for long.
const LONGEST: Duration = Duration::from_secs(1);

/// What a runtime does about deadlocks: set by its builder, or by `SELVEDGE_DEADLOCK=off|report|abort` for all runtimes whose
/// builders say nothing.
///
/// Only what is [certain](crate::Runtime::deadlocks) counts: threads that wait for each other, for themselves, or for those; and a
/// process in which no thread can run. All runtimes of the process are looked at as soon as one of them asks for it, several times a
/// second, and the owners of locks are [recorded](super::record_owners).
///
/// # Examples
///
/// ```
/// use selvedge::Mxn;
/// use selvedge::thread::OnDeadlock;
///
/// let rt = Mxn::builder().on_deadlock(OnDeadlock::Report).build()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDeadlock {
    /// Nothing.
    #[default]
    Ignore,
    /// Says so on standard error, once for each.
    Report,
    /// Says so, and ends the process by `abort`.
    Abort,
}

/// `SELVEDGE_DEADLOCK`.
pub(crate) fn from_environment(lookup: Lookup<'_>) -> io::Result<Option<OnDeadlock>> {
    settings::read(lookup, settings::DEADLOCK, "off, report or abort", |value| match value {
        "off" => Some(OnDeadlock::Ignore),
        "report" => Some(OnDeadlock::Report),
        "abort" => Some(OnDeadlock::Abort),
        _ => None,
    })
}

/// Whether any runtime wants the process ended.
static ABORTS: AtomicBool = AtomicBool::new(false);
/// The process in which there is a watch; 0: none. A fork has none.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// A runtime starts that wants this done.
pub(crate) fn start(what: OnDeadlock) -> io::Result<()> {
    if what == OnDeadlock::Ignore {
        return Ok(());
    }
    if what == OnDeadlock::Abort {
        // Relaxed, here and below: switches.
        ABORTS.store(true, Ordering::Relaxed);
    }
    ledger::begin();
    let me = process::id();
    if WATCHED.swap(me, Ordering::Relaxed) != me {
        let started = std::thread::Builder::new().name("selvedge-watch".into()).spawn(watch);
        started.inspect_err(|_| WATCHED.store(0, Ordering::Relaxed))?;
    }
    Ok(())
}

fn watch() {
    let mut said = HashSet::new();
    loop {
        let start = Instant::now();
        let found = deadlocks(None).certain();
        if is_news(&found, &mut said) {
            eprintln!("selvedge: {found}");
            if ABORTS.load(Ordering::Relaxed) {
                process::abort();
            }
        }
        std::thread::sleep((SHARE * start.elapsed()).clamp(PERIOD, LONGEST));
    }
}

/// Whether some of these have not been said to wait for ever before.
fn is_news(found: &Deadlocks, said: &mut HashSet<ThreadId>) -> bool {
    let in_cycles = found.cycles.iter().flat_map(|cycle| &cycle.blocked);
    // Who waits for those is not worth a message of its own.
    let all = found.standstill == Standstill::ForEver && found.cycles.is_empty();
    let stuck = found.stuck.iter().filter(|_| all);
    let mut news = false;
    for blocked in in_cycles.chain(stuck) {
        news |= said.insert(blocked.id);
    }
    news
}
