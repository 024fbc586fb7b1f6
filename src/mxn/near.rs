//! Which LWPs are near: they run on processors that share a cache with the asking one.
//!
//! A thread that moves to such an LWP brings its lines along for less. So a thief looks at these LWPs first
//! (`sched::search`), and a waker takes a sleeper among them (`sched::idle`).
//!
//! The kernel moves LWPs between processors at any time. An LWP notes where it is when it begins to search,
//! and now and then while it runs. What is said here is a guess; no LWP gets lost by a wrong one.

use crate::mxn::lwp::Lwp;
use crate::mxn::lwp_set::LwpSet;
use crate::shim::cpu;
use crate::sys::caches::Caches;

/// The LWPs by the cache that they were last on. Empty if there is one cache, or if every look goes to all
/// LWPs anyway.
#[derive(Debug)]
pub(crate) struct Near {
    caches: Option<&'static Caches>,
    /// By group.
    lwps: Box<[LwpSet]>,
}

impl Near {
    /// Makes a record for LWPs with numbers below `lwps`. Allocates here and nowhere else (I4).
    pub(crate) fn new(lwps: usize, caches: Option<&'static Caches>) -> Self {
        let groups = caches.map_or(0, Caches::count);
        Self { caches, lwps: (0..groups).map(|_| LwpSet::new(lwps)).collect() }
    }

    /// Notes where the LWP is, and returns the LWPs near it; `None`: no LWP is nearer than another. Owner
    /// only.
    #[inline]
    pub(crate) fn settle(&self, lwp: &Lwp) -> Option<&LwpSet> {
        let caches = self.caches?;
        let group = caches.group(lwp.search.cpu()?);
        let before = lwp.search.group.replace(Some(group));
        if before != Some(group) {
            if let Some(before) = before {
                let _ = self.lwps[usize::from(before)].remove(lwp.index);
            }
            self.lwps[usize::from(group)].insert(lwp.index);
        }
        Some(&self.lwps[usize::from(group)])
    }

    /// Returns the LWPs that are near the calling kernel thread; `None`: no LWP is nearer than another.
    #[inline]
    pub(crate) fn here(&self) -> Option<&LwpSet> {
        self.caches.map(|caches| &self.lwps[usize::from(caches.group(cpu::current()))])
    }
}
