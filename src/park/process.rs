//! Which process this is, kept, and known again after a fork.

use super::fork;
use crate::shim::atomic::{AtomicU64, Ordering};
pub(crate) use crate::shim::process::Process;
use crate::shim::{fork::Generation, global};

global! {
    /// What is kept: of which generation, and one more; 0: nothing yet.
    static KEPT: AtomicU64 = AtomicU64::new(0);
}

global! {
    static ID: AtomicU64 = AtomicU64::new(0);
}

global! {
    static START: AtomicU64 = AtomicU64::new(0);
}

global! {
    static NAMESPACE: AtomicU64 = AtomicU64::new(0);
}

/// This process.
#[inline]
pub(crate) fn this() -> Process {
    // Acquire: pairs with the release of `find`, so that the rest is there.
    if KEPT.load(Ordering::Acquire) == Generation::now().number() + 1 {
        // Relaxed: ordered by the above. All who write write the same.
        let id = ID.load(Ordering::Relaxed) as u32;
        return Process {
            id,
            start: START.load(Ordering::Relaxed),
            namespace: NAMESPACE.load(Ordering::Relaxed),
        };
    }
    find()
}

#[cold]
fn find() -> Process {
    // Without the C library's list of what to do at a fork there is nothing to be kept.
    let watched = fork::watch();
    let this = Process::this();
    if let Ok(generation) = watched {
        ID.store(this.id.into(), Ordering::Relaxed);
        START.store(this.start, Ordering::Relaxed);
        NAMESPACE.store(this.namespace, Ordering::Relaxed);
        // Release: pairs with `this`.
        KEPT.store(generation.number() + 1, Ordering::Release);
    }
    this
}

#[cfg(all(test, loom))]
#[path = "tests/loom_process.rs"]
mod loom_process;
