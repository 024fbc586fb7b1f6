//! The life of an LWP: whether it has a kernel thread, which one, and since when that has been a spare.
//!
//! An LWP lives more than once: the next kernel thread takes it up as the last has left it (`slots::pool`).

use std::mem::offset_of;

use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct LwpLife {
    /// The id of the kernel thread; 0 before that runs, and after.
    tid: AtomicU32,
    /// The LWP has a kernel thread, or one is being started. Otherwise it is vacant.
    lives: AtomicBool,
    /// It was started as a spare, and has not been one yet.
    awaited: AtomicBool,
    /// When it became a spare.
    spare_since: AtomicU64,
}

impl LwpLife {
    /// Where the id stands, for debuggers.
    pub(super) const TID: usize = offset_of!(Self, tid);

    /// Returns `true` if the LWP is not vacant. The caller that finds it vacant sees all that was done on it.
    pub(crate) fn lives(&self) -> bool {
        // Acquire: pairs with `end`.
        self.lives.load(Ordering::Acquire)
    }

    /// Notes that the LWP is not vacant any more.
    pub(crate) fn begin(&self) {
        // Relaxed: the lists of the pool order it.
        self.lives.store(true, Ordering::Relaxed);
    }

    /// Makes the LWP vacant. Its kernel thread does not touch it after this.
    pub(crate) fn end(&self) {
        self.show_tid(0);
        self.show_awaited(false);
        // Release: pairs with `lives`.
        self.lives.store(false, Ordering::Release);
    }

    /// Returns the kernel thread's id; 0 if there is none.
    pub(crate) fn tid(&self) -> u32 {
        // Acquire: pairs with the start of that thread.
        self.tid.load(Ordering::Acquire)
    }

    /// Sets what [`tid`](Self::tid) returns. Called by the kernel thread when it is ready.
    pub(crate) fn show_tid(&self, tid: u32) {
        // Release: pairs with `tid`.
        self.tid.store(tid, Ordering::Release);
    }

    /// Returns `true` if the LWP was started as a spare, and has not been one yet.
    pub(crate) fn is_awaited(&self) -> bool {
        // Relaxed: the list of spares orders it.
        self.awaited.load(Ordering::Relaxed)
    }

    /// Sets what [`is_awaited`](Self::is_awaited) returns.
    pub(crate) fn show_awaited(&self, awaited: bool) {
        // Relaxed: see `is_awaited`.
        self.awaited.store(awaited, Ordering::Relaxed);
    }

    /// Returns when the LWP became a spare.
    pub(crate) fn spare_since(&self) -> u64 {
        // Relaxed: the list of spares orders it.
        self.spare_since.load(Ordering::Relaxed)
    }

    /// Sets what [`spare_since`](Self::spare_since) returns.
    pub(crate) fn show_spare_since(&self, now: u64) {
        // Relaxed: see `spare_since`.
        self.spare_since.store(now, Ordering::Relaxed);
    }
}
