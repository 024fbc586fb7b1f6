//! A count that costs one step until a thread watches it, which then hears of each change.
//!
//! **Problem.** A thread makes something of how many there are, with a lock. Others change the number, and
//! few programs ever have such a thread. They should not take the lock for nothing.
//!
//! **Rejected.** *The lock each time*: all threads that start or end would meet there.
//!
//! **Protocol.**
//!
//! 1. *Change*: count, and then look if the count is watched. If so, take the lock and do step 2.
//! 2. *Watch*, with the lock held: say so, and then read the count.
//!
//! **Proof.** Both write, and then, behind a fence, read what the other writes. So the watcher reads the
//! change, or the changer finds that it is watched, and reads the count itself. Of several that read, the
//! lock makes one the last, and that reads all changes whose threads have found no watcher.

use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// See the header.
#[derive(Debug)]
pub(crate) struct WatchedCount {
    count: AtomicU32,
    watched: AtomicBool,
}

impl WatchedCount {
    pub(crate) const fn new() -> Self {
        Self { count: AtomicU32::new(0), watched: AtomicBool::new(false) }
    }

    /// Counts one more. Returns `true` if the caller is to do step 2.
    #[must_use]
    pub(crate) fn add(&self) -> bool {
        // Relaxed: the fence orders it.
        self.count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.is_watched()
    }

    /// Counts one less. Returns as [`add`](Self::add) does.
    #[must_use]
    pub(crate) fn remove(&self) -> bool {
        // Relaxed: the fence orders it.
        self.count.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.is_watched()
    }

    /// Returns `true` if the count has ever been watched. It stays so.
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed: a fence stands before it where it matters.
        self.watched.load(Ordering::Relaxed)
    }

    /// Does step 2: returns the count. The caller holds the lock.
    pub(crate) fn watch(&self) -> u32 {
        // Relaxed, both: the fence orders them.
        self.watched.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_watched_count;
