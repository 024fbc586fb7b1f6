//! The identity of this process, cached, and found again after a fork.

use super::fork;
use crate::shim::atomic::{AtomicU64, Ordering};
pub(crate) use crate::shim::process::Process;
use crate::shim::{fork::Generation, global};

global! {
    /// The generation of the cached identity, plus one; 0 if nothing is cached.
    static KEPT: AtomicU64 = AtomicU64::new(0);
    static ID: AtomicU64 = AtomicU64::new(0);
    static START: AtomicU64 = AtomicU64::new(0);
    static NAMESPACE: AtomicU64 = AtomicU64::new(0);
}

/// Returns the identity of this process.
#[inline]
pub(crate) fn this() -> Process {
    // Acquire: pairs with the release of `find`, so that the other fields are visible.
    if KEPT.load(Ordering::Acquire) == Generation::now().number() + 1 {
        // Relaxed: ordered by the load of `KEPT`. All threads that write store the same values.
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
    // If the C library cannot call back at a fork, nothing may be cached.
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
mod loom_process;
