//! All runtimes of the process, for what looks at them or switches the trace.

use std::sync::{Arc, Weak};

use super::stats::RuntimeStats;
use crate::sys::once::Mutex;

/// What is asked of a runtime from outside.
pub(crate) trait Observed: Send + Sync {
    /// Returns what its kernel threads do.
    fn stats(&self) -> RuntimeStats;

    /// Returns the address by which its threads name it.
    fn home(&self) -> usize;

    /// Begins or ends the trace of its threads, as `park::observed` says.
    fn follow_trace(&self);
}

/// A runtime with its number.
#[derive(Clone)]
struct Registered {
    number: u32,
    runtime: Weak<dyn Observed>,
}

struct Registry {
    last: u32,
    runtimes: Vec<Registered>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { last: 0, runtimes: Vec::new() });

/// Runs `f` with the list.
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    // In a child of a fork, the runtimes are the parent's.
    f(&mut REGISTRY.lock(|lost| std::mem::forget(std::mem::take(&mut lost.runtimes))))
}

/// Adds a runtime that has just been started, and begins its trace if the trace is on.
pub(crate) fn add(runtime: &Arc<impl Observed + 'static>) {
    let weak = Arc::downgrade(runtime);
    with(|registry| {
        registry.runtimes.retain(|it| it.runtime.strong_count() > 0);
        registry.last += 1;
        registry.runtimes.push(Registered { number: registry.last, runtime: weak });
    });
    // After it is on the list: if the trace is switched on meanwhile, one of the two begins it.
    runtime.follow_trace();
}

/// Returns all runtimes that have not ended, each with its number, in the order of their starts.
pub(crate) fn all() -> Vec<(u32, Arc<dyn Observed>)> {
    let runtimes = with(|registry| registry.runtimes.clone());
    runtimes.into_iter().filter_map(|it| Some((it.number, it.runtime.upgrade()?))).collect()
}
