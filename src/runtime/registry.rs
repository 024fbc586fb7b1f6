//! All runtimes of the process, for what looks at them or switches the trace.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::stats::RuntimeStats;
use crate::sys::once::Mutex;

/// What is asked of a runtime from outside.
pub(crate) trait Observed: Send + Sync {
    /// Returns what its kernel threads do.
    fn stats(&self) -> RuntimeStats;

    /// Returns the number that [`take_number`] has given it.
    fn number(&self) -> u32;

    /// Begins or ends the trace of its threads, as `park::observed` says.
    fn follow_trace(&self);
}

static RUNTIMES: Mutex<Vec<Weak<dyn Observed>>> = Mutex::new(Vec::new());

/// Returns a number for a runtime, which no other one of this process has or had.
pub(crate) fn take_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number matters.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Runs `f` with the list.
fn with<R>(f: impl FnOnce(&mut Vec<Weak<dyn Observed>>) -> R) -> R {
    // In a child of a fork, the runtimes are the parent's.
    f(&mut RUNTIMES.lock(|lost| std::mem::forget(std::mem::take(lost))))
}

/// Adds a runtime that has just been started, and begins its trace if the trace is on.
pub(crate) fn add(runtime: &Arc<impl Observed + 'static>) {
    let weak = Arc::downgrade(runtime);
    with(|runtimes| {
        runtimes.retain(|it| it.strong_count() > 0);
        runtimes.push(weak);
    });
    // After it is on the list: if the trace is switched on meanwhile, one of the two begins it.
    runtime.follow_trace();
}

/// Returns all runtimes that have not ended, in the order of their starts.
pub(crate) fn all() -> Vec<Arc<dyn Observed>> {
    with(|runtimes| runtimes.iter().filter_map(Weak::upgrade).collect())
}
