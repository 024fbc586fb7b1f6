//! A thread that looks for deadlocks by itself, if a program or its user has asked for that.
//!
//! It examines the whole process every [`PERIOD`], and less often if a look takes long. It does not run when
//! a runtime goes idle, since most deadlocks are of a few threads while others go on. It does not run on the
//! monitor, which must not allocate (I4) and sleeps when all threads do. It reports each deadlock once.

use std::collections::HashSet;
use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::look::deadlocks;
use super::{Deadlocks, Standstill};
use crate::observe::lock_owners;
use crate::recorder::crash;
use crate::settings::{self, Lookup};
use crate::sys::pthread;
use crate::thread::id::ThreadId;

/// The time between two looks. Range: any delay that a user does not notice in a message.
const PERIOD: Duration = Duration::from_millis(100);
/// A look takes at most one part in this many of the time, unless it takes longer than that part of
/// [`LONGEST`].
const SHARE: u32 = 20;
/// The longest time between two looks. If other threads held up one look, the next must not be late for
/// long.
const LONGEST: Duration = Duration::from_secs(1);

/// What a runtime does about deadlocks. Set by its builder, or by `SELVEDGE_DEADLOCK=off|report|abort` for
/// all runtimes with builders that do not set it.
///
/// Only what is [certain](crate::Runtime::deadlocks) counts. That is threads that wait for each other, for
/// themselves, or for such threads, and a process in which no thread can run. As soon as one runtime asks for
/// it, all runtimes of the process are examined, several times a second. The owners of locks are
/// [recorded](super::record_owners).
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
    /// Does nothing.
    #[default]
    Ignore,
    /// Reports each deadlock once on standard error.
    Report,
    /// Reports it, and ends the process by `abort`.
    Abort,
}

/// Reads `SELVEDGE_DEADLOCK`.
pub(crate) fn from_environment(lookup: Lookup<'_>) -> io::Result<Option<OnDeadlock>> {
    settings::read(lookup, settings::DEADLOCK, "off, report or abort", |value| match value {
        "off" => Some(OnDeadlock::Ignore),
        "report" => Some(OnDeadlock::Report),
        "abort" => Some(OnDeadlock::Abort),
        _ => None,
    })
}

/// Set if any runtime wants the process to end.
static ABORTS: AtomicBool = AtomicBool::new(false);
/// The id of the process that has a watch; 0 for none. A fork has none.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Starts the watch, for a runtime that wants this.
pub(crate) fn start(what: OnDeadlock) -> io::Result<()> {
    if what == OnDeadlock::Ignore {
        return Ok(());
    }
    if what == OnDeadlock::Abort {
        // Relaxed, here and below: switches.
        ABORTS.store(true, Ordering::Relaxed);
    }
    lock_owners::begin();
    let me = process::id();
    if WATCHED.swap(me, Ordering::Relaxed) != me {
        let watcher = std::thread::Builder::new().name("selvedge-watch".into());
        let started = pthread::kernel(|| watcher.spawn(watch));
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
            // If nothing reads it, the rest is done all the same.
            let _ = writeln!(io::stderr(), "selvedge: {found}");
            crash::write(crash::Reason::Deadlock);
            if ABORTS.load(Ordering::Relaxed) {
                process::abort();
            }
        }
        std::thread::sleep((SHARE * start.elapsed()).clamp(PERIOD, LONGEST));
    }
}

/// Returns `true` if some of these threads have not been reported to wait forever before.
fn is_news(found: &Deadlocks, said: &mut HashSet<ThreadId>) -> bool {
    let in_cycles = found.cycles.iter().flat_map(|cycle| &cycle.blocked);
    // A thread that waits for those is not worth a message of its own.
    let all = found.standstill == Standstill::Forever && found.cycles.is_empty();
    let stuck = found.stuck.iter().filter(|_| all);
    let mut news = false;
    for blocked in in_cycles.chain(stuck) {
        news |= said.insert(blocked.id);
    }
    news
}

#[cfg(test)]
mod tests {
    use super::super::tests::{blocked, report};
    use super::*;
    use crate::thread::EndsBy::Nothing;
    use crate::thread::deadlock::Cycle;

    #[test]
    fn each_thread_is_news_once() {
        let mut said = HashSet::new();
        let none = report();
        assert!(!is_news(&none, &mut said));
        // Threads that wait for a cycle are not news, nor are those that wait forever while others run.
        let stuck = Deadlocks { stuck: vec![blocked(3, Nothing)], ..report() };
        assert!(!is_news(&stuck, &mut said));
        let unless = Deadlocks { standstill: Standstill::UnlessWokenFromOutside, ..stuck.clone() };
        assert!(!is_news(&unless, &mut said));
        let cycle = Cycle { blocked: vec![blocked(1, Nothing), blocked(2, Nothing)] };
        let both = Deadlocks { cycles: vec![cycle], standstill: Standstill::Forever, ..stuck.clone() };
        assert!(is_news(&both, &mut said) && !is_news(&both, &mut said));
        // All wait, and there is no cycle: a lost wake-up.
        let lost = Deadlocks { standstill: Standstill::Forever, ..stuck };
        assert!(is_news(&lost, &mut said) && !is_news(&lost, &mut said));
        assert!(!is_news(&both, &mut said));
    }
}
