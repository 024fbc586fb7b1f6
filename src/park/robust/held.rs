//! What a thread's core says of robust locks: how many the thread holds, and the pending entry.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::shim::in_program_order;

/// A thread's state for robust locks. The thread's own; in the core, so that its end finds it wherever the
/// thread runs.
#[derive(Debug)]
pub(in crate::park) struct Held {
    /// How many robust locks the thread holds. 64 bits, because a program can forget 2^32 guards in a minute.
    count: AtomicU64,
    /// The lock of the pending entry; null: there is none.
    pending: AtomicPtr<()>,
    /// The function that the child of a fork calls with that lock: a [`OwnerDied`].
    owner_died: AtomicPtr<()>,
}

/// Called with the lock of a pending entry, and the id of a lost thread.
type OwnerDied = unsafe fn(*const (), u64);

/// A lock for which a thread can have a pending entry.
pub(crate) trait Abandoned {
    /// Called in the child of a fork, by its only thread. If the lock is locked and names no owner, makes the
    /// lost thread `id` its owner.
    fn owner_died(&self, id: u64);
}

/// # Safety
/// `lock` is an `L`.
unsafe fn owner_died<L: Abandoned>(lock: *const (), id: u64) {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.owner_died(id);
}

impl Held {
    pub(in crate::park) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            pending: AtomicPtr::new(ptr::null_mut()),
            owner_died: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns how many robust locks the thread holds. No life ends with one, or with a pending entry.
    #[inline]
    pub(in crate::park) fn count(&self) -> u64 {
        // Relaxed, here and below: only the thread itself uses it.
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_count(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Makes an entry for `lock`, which the thread is about to take or release.
    #[inline]
    pub(super) fn begin<L: Abandoned>(&self, lock: &L) {
        // Relaxed, all: only the child of a fork reads them, and it has one thread.
        self.owner_died.store(owner_died::<L> as OwnerDied as *mut (), Ordering::Relaxed);
        in_program_order();
        self.pending.store(ptr::from_ref(lock).cast_mut().cast(), Ordering::Relaxed);
        in_program_order();
    }

    /// Clears the entry.
    #[inline]
    pub(super) fn end(&self) {
        in_program_order();
        // Relaxed: as in `begin`.
        self.pending.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns `true` if the thread has a pending entry at this moment of a model.
    #[cfg(all(test, loom))]
    pub(super) fn pends(&self) -> bool {
        let null = ptr::null_mut();
        // A read-modify-write sees the last store.
        self.pending.compare_exchange(null, null, Ordering::Relaxed, Ordering::Relaxed).is_err()
    }

    /// In the child of a fork: passes the pending entry's lock to [`Abandoned::owner_died`], for the lost
    /// thread `id`.
    ///
    /// # Safety
    /// Called by the child's only thread.
    pub(in crate::park) unsafe fn pending_owner_died(&self, id: u64) {
        // Relaxed, all: there is only one thread.
        let lock = self.pending.load(Ordering::Relaxed);
        if lock.is_null() {
            return;
        }
        self.pending.store(ptr::null_mut(), Ordering::Relaxed);
        let owner_died = self.owner_died.load(Ordering::Relaxed);
        // SAFETY: `begin` stored a `OwnerDied` there before it made the entry.
        let owner_died = unsafe { std::mem::transmute::<*mut (), OwnerDied>(owner_died) };
        // SAFETY: the entry names a lock of that type, and the lost thread's borrow of it never ends.
        unsafe { owner_died(lock, id) };
    }

    /// Takes over the count of another core, when the same thread goes on with this one.
    pub(in crate::park) fn inherit(&self, from: &Self) {
        self.set_count(from.count());
    }
}
