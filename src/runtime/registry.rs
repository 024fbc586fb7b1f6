//! All runtimes of the process, for what looks at them or switches the trace.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::stats::RuntimeStats;
use crate::backtrace::Unwinder;
use crate::recorder::{crash, known};
use crate::sys::once::Mutex;
use crate::thread::deadlock::Deadlocks;
use crate::thread::seen::{ThreadChanges, ThreadsSeen};
use crate::thread::snapshot::{ThreadCursor, ThreadPage};

/// What a runtime was built with, and what it has come to: as much as explains a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) number: u64,
    /// It has green threads.
    pub(crate) is_green: u64,
    /// The slots of `mxn`; the CPUs for `onetoone`.
    pub(crate) concurrency: u64,
    /// 0: there is no bound.
    pub(crate) max_lwps: u64,
    pub(crate) lwps: u64,
    /// How often an LWP was missing, and there could be none.
    pub(crate) bound_reached: u64,
    /// In ns; `u64::MAX`: there are no slices.
    pub(crate) slice: u64,
    /// 1: threads are preempted by signal.
    pub(crate) preempts: u64,
    /// The CPUs that it has of its own; 0: it has none.
    pub(crate) cpus: u64,
}

impl Facts {
    /// Returns the facts as words, for files.
    pub(crate) fn to_words(self) -> [u64; known::FACTS] {
        let Self { number, is_green, concurrency, max_lwps, lwps, bound_reached, slice, preempts, cpus } =
            self;
        [number, is_green, concurrency, max_lwps, lwps, bound_reached, slice, preempts, cpus]
    }

    pub(crate) fn from_words(words: [u64; known::FACTS]) -> Self {
        let [number, is_green, concurrency, max_lwps, lwps, bound_reached, slice, preempts, cpus] = words;
        Self { number, is_green, concurrency, max_lwps, lwps, bound_reached, slice, preempts, cpus }
    }
}

/// What is asked of a runtime from outside.
pub(crate) trait Observed: Send + Sync {
    /// Returns what its kernel threads do.
    fn stats(&self) -> RuntimeStats;

    /// Returns some of its threads; see [`Runtime::threads_page`](super::Runtime::threads_page). With an
    /// unwinder, they have backtraces.
    fn threads_page(&self, from: ThreadCursor, max: usize, unwinder: Option<&mut Unwinder>) -> ThreadPage;

    /// Returns some of its threads that have changed; see
    /// [`Runtime::threads_changed`](super::Runtime::threads_changed).
    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges;

    /// Returns what its threads wait for; see [`Runtime::deadlocks`](super::Runtime::deadlocks).
    fn deadlocks(&self) -> Deadlocks;

    /// Returns how long the LWP of this number was running, searching, idle and spare, while times are
    /// counted.
    fn lwp_times(&self, lwp: usize) -> Option<[Duration; 4]>;

    /// Returns the number that [`take_number`] has given it.
    fn number(&self) -> u32;

    /// Returns the facts about it.
    fn facts(&self) -> Facts;

    /// Begins or ends the trace of its threads, as `park::observed` says.
    fn follow_trace(&self);
}

struct Registry {
    runtimes: Vec<Weak<dyn Observed>>,
    /// Facts about runtimes that have ended, as far as a recording may have events of theirs.
    ended: Vec<Facts>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { runtimes: Vec::new(), ended: Vec::new() });

/// Of how many runtimes that have ended the facts are kept.
const ENDED: usize = 64;

/// Returns a number for a runtime, which no other one of this process has or had.
pub(crate) fn take_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number matters.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Runs `f` with the lists.
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    // In a child of a fork, the runtimes are the parent's.
    f(&mut REGISTRY.lock(|lost| std::mem::forget(std::mem::take(&mut lost.runtimes))))
}

/// Adds a runtime that has just been started, and begins its trace if the trace is on.
pub(crate) fn add(runtime: &Arc<impl Observed + 'static>) {
    if crash::is_wanted() {
        known::runtime_starts(runtime.facts().to_words());
    }
    let weak = Arc::downgrade(runtime);
    with(|registry| {
        registry.runtimes.retain(|it| it.strong_count() > 0);
        registry.runtimes.push(weak);
    });
    // After it is on the list: if the trace is switched on meanwhile, one of the two begins it.
    runtime.follow_trace();
}

/// Lets a crash know what a runtime has come to, if that is wanted. Neither allocates nor waits.
pub(crate) fn note(runtime: &dyn Observed) {
    if crash::is_wanted() {
        known::runtime_changes(runtime.facts().to_words());
    }
}

/// Notes the facts about a runtime that is about to end.
pub(crate) fn ends(runtime: &dyn Observed) {
    let facts = runtime.facts();
    known::runtime_ends(facts.to_words());
    with(|registry| {
        if registry.ended.len() == ENDED {
            registry.ended.remove(0);
        }
        registry.ended.push(facts);
    });
}

/// Returns all runtimes that have not ended, in the order of their starts.
pub(crate) fn all() -> Vec<Arc<dyn Observed>> {
    with(|registry| registry.runtimes.iter().filter_map(Weak::upgrade).collect())
}

/// Returns the facts about all runtimes, also those that have ended, by number.
pub(crate) fn facts() -> Vec<Facts> {
    let mut facts = with(|registry| registry.ended.clone());
    facts.extend(all().iter().map(|runtime| runtime.facts()));
    facts.sort_by_key(|facts| facts.number);
    // A runtime that is about to end is in both lists. The newer facts come last.
    facts.reverse();
    facts.dedup_by_key(|facts| facts.number);
    facts.reverse();
    facts
}
