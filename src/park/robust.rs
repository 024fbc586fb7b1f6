//! Robust locks, and threads that ended while they held some.
//!
//! **Problem.** A guard can be leaked, and its thread can end. The lock is then taken forever. A robust lock
//! must notice that: both the next thread that locks it and the threads that already wait for it.
//!
//! **Rejected.**
//!
//! - *A list of the locks that a thread holds*, which its end walks, as the kernel does for futexes. A lock
//!   with a leaked guard may have been moved, or be gone. So each lock would need a cell on the heap and a
//!   destructor, and each lock and unlock two more read-modify-writes.
//! - *The address of the owner's core in the lock.* The core lives on with another thread. A thread that
//!   finds the core alive may have come a life too late.
//! - *A deadline in every wait*, to check the owner from time to time. Threads that wait for long would keep
//!   the processor busy.
//!
//! **Protocol.** A lock names its owner by its id. A thread counts the robust locks that it holds, in a
//! count of its own. A thread that ends with a count of zero does nothing. Any other thread:
//!
//! 1. adds its id to the list of the *dead*;
//! 2. goes through all queues, and wakes all threads that wait for a robust lock (of any owner, since it
//!    cannot tell them apart).
//!
//! A thread that is about to wait for a robust lock checks, with the bucket lock held, if the owner is dead.
//! If it is, the thread tries to replace the dead thread's id in the lock by its own. The thread that
//! succeeds owns the lock. When all locks that a dead thread held have passed on, its id leaves the list.
//!
//! **Proof.**
//!
//! - *No thread waits for a dead owner.* Of the check and of the walk through the same bucket, one comes
//!   first. If the check does, the walk finds the waiter. Otherwise the check finds the id, which was listed
//!   before the walk.
//! - *No thread inherits from a living owner.* Ids are never used again, and a dead thread unlocks nothing.
//!   So a lock that names a dead thread has belonged to it ever since that thread locked it. The lock names
//!   it until one heir replaces it.
//!
//! If a lock is dropped while it names a dead thread, or if only another process passes it on, that thread's
//! entry stays in the list. That costs some bytes, and a longer look for threads that wait for robust locks.
//!
//! **Forks.** In the child of a fork, all threads of the parent are dead, except for the caller of `fork`.
//! Such a thread may have been taking or releasing a lock: it had the lock's word, but its id did not stand
//! beside it. So a thread keeps a *pending entry* that names the lock, like POSIX's `list_op_pending`. To
//! lock, it makes the entry before it takes the word, and clears it after its id is written. To unlock, it
//! makes the entry before its id is cleared, and clears it after the word is released. A waiter has an entry
//! all the time. The child goes through the entries of all lost threads. If the lock is locked and names no
//! owner, it gets the id of a lost thread.
//!
//! *Proof.* For each thread, a fork copies what that thread has done up to some moment, in program order. So
//! if a lost thread holds a lock without an id, the lock has an entry in the child. The holder is lost: the
//! caller of `fork` is in no lock's code. The entry may be another lost thread's, but some lost thread has
//! locked the lock all the same. The child clears each entry after that, because the lock may be gone before
//! the child forks.
//!
//! *Lifetime.* The entry outlasts the release. So a lock must stay until `unlock` has returned, which borrows
//! ensure.
//!
//! **Cost.** Four stores to lock and four to unlock; a look for each thread that ends; no read-modify-write.
//! A death with locks held takes every bucket's lock once, some 0.1 ms.

use std::marker::PhantomData;
use std::ptr;

use super::current::current;
use super::queue_lock::{QueueLock, Rank};
use super::thread::{ThreadCore, ThreadRef};
use super::wait_queue;
use crate::shim::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::shim::{global, in_program_order};

/// A thread's state for robust locks. The thread's own; in the core, so that its end finds it wherever the
/// thread runs.
#[derive(Debug)]
pub(crate) struct Held {
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
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            pending: AtomicPtr::new(ptr::null_mut()),
            owner_died: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Relaxed, here and below: only the thread itself uses it, and the core is published after `begin`. No
    /// life ends with a pending entry.
    #[inline]
    pub(super) fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// In the child of a fork: passes the pending entry's lock to [`Abandoned::owner_died`], for the lost
    /// thread `id`.
    ///
    /// # Safety
    /// Called by the child's only thread.
    unsafe fn pending_owner_died(&self, id: u64) {
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
    pub(super) fn inherit(&self, from: &Self) {
        self.set(from.get());
    }
}

/// A thread that has ended with robust locks held.
struct Dead {
    id: u64,
    /// The number of locks that name it.
    left: u64,
    next: *mut Dead,
}

struct List(*mut Dead);

// SAFETY: the list owns its entries.
unsafe impl Send for List {}

global! {
    static DEAD: QueueLock<List> = QueueLock::new(Rank::Pool, List(ptr::null_mut()));
}

global! {
    /// The number of entries in the list, so that a check costs next to nothing while there are none.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
}

global! {
    /// In a child, ids up to this one belong to its parent's threads. Zero elsewhere.
    static LOST: AtomicU64 = AtomicU64::new(0);
}

global! {
    /// In a child, the one of those ids that belongs to a thread of the child.
    static SURVIVOR: AtomicU64 = AtomicU64::new(0);
}

impl ThreadCore {
    /// Notes that the running thread has locked a robust lock.
    #[inline]
    pub(crate) fn holds_robust(&self) {
        // Saturating, here and below: if a process writes nonsense into a shared lock, this thread may unlock
        // what it never locked.
        self.robust.set(self.robust.get().saturating_add(1));
    }

    /// Notes that the running thread unlocks a robust lock.
    #[inline]
    pub(crate) fn frees_robust(&self) {
        self.robust.set(self.robust.get().saturating_sub(1));
    }

    /// Returns `true` if the thread has a pending entry at this moment of a model.
    #[cfg(all(test, loom))]
    pub(crate) fn pends(&self) -> bool {
        let null = ptr::null_mut();
        // A read-modify-write sees the last store.
        self.robust.pending.compare_exchange(null, null, Ordering::Relaxed, Ordering::Relaxed).is_err()
    }

    /// Returns `true` if it would end with robust locks held.
    #[inline]
    pub(crate) fn leaves_robust(&self) -> bool {
        self.robust.get() != 0
    }
}

/// A pending entry of the running thread. Dropping it clears the entry, even if a wait panics.
#[must_use = "the entry is cleared when this is dropped"]
pub(crate) struct Pending<'a> {
    thread: ThreadRef,
    lock: PhantomData<&'a ()>,
}

impl<'a> Pending<'a> {
    /// Makes an entry for the running `thread`, which is about to take or release `lock`.
    #[inline]
    pub(crate) fn begin<L: Abandoned>(thread: ThreadRef, lock: &'a L) -> Self {
        let held = &thread.core().robust;
        // Relaxed, all: only the child of a fork reads them, and it has one thread.
        held.owner_died.store(owner_died::<L> as OwnerDied as *mut (), Ordering::Relaxed);
        in_program_order();
        held.pending.store(ptr::from_ref(lock).cast_mut().cast(), Ordering::Relaxed);
        in_program_order();
        Self { thread, lock: PhantomData }
    }
}

impl Drop for Pending<'_> {
    #[inline]
    fn drop(&mut self) {
        in_program_order();
        // Relaxed: as in `begin`.
        self.thread.core().robust.pending.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl ThreadRef {
    /// Tells the threads that wait for what the running thread holds, if it
    /// [holds](ThreadCore::leaves_robust) anything. Called by the running thread, after all of its
    /// destructors. May allocate.
    #[cold]
    pub(crate) fn dies_with_robust(self) {
        add(self.id().get(), self.robust.get());
        self.robust.reset();
        wait_queue::wake_heirs();
    }
}

pub(crate) fn add(id: u64, left: u64) {
    let dead = Box::into_raw(Box::new(Dead { id, left, next: ptr::null_mut() }));
    DEAD.with(|list| {
        // SAFETY: made above, and in no list.
        unsafe { (*dead).next = list.0 };
        list.0 = dead;
        // Relaxed, all: a thread that must see the count comes to the same bucket later. Others look again.
        COUNT.fetch_add(1, Ordering::Relaxed);
    });
}

/// Returns `true` if the thread with this id has ended and left robust locks. May be called with a bucket
/// lock held.
#[inline]
pub(crate) fn is_dead(id: u64) -> bool {
    (COUNT.load(Ordering::Relaxed) != 0 && is_listed(id)) || is_lost(id)
}

#[inline]
fn is_lost(id: u64) -> bool {
    // Relaxed: written while there is only one thread.
    id != 0 && id <= LOST.load(Ordering::Relaxed) && id != SURVIVOR.load(Ordering::Relaxed)
}

#[cold]
fn is_listed(id: u64) -> bool {
    // The lock pairs with `add`: a caller that finds the id sees all that its thread did.
    DEAD.with(|list| !place_of(list, id).1.is_null())
}

/// Returns the entry before that of `id`, and the entry of `id`. Each may be null.
fn place_of(list: &List, id: u64) -> (*mut Dead, *mut Dead) {
    let mut before = ptr::null_mut();
    let mut this = list.0;
    // SAFETY: an entry stays until it is taken out, with the lock held.
    while let Some(dead) = unsafe { this.as_ref() } {
        if dead.id == id {
            break;
        }
        before = this;
        this = dead.next;
    }
    (before, this)
}

/// Notes that a lock that named the dead thread `id` has passed on to another thread.
#[cold]
pub(crate) fn passed_on(id: u64) {
    let done = DEAD.with(|list| {
        let (before, this) = place_of(list, id);
        // SAFETY: the entry stays until it is taken out, with the lock held.
        let dead = unsafe { this.as_mut() }?;
        dead.left = dead.left.saturating_sub(1);
        if dead.left != 0 {
            return None;
        }
        // SAFETY: the entry before it is another one, and stays as long.
        match unsafe { before.as_mut() } {
            Some(before) => before.next = dead.next,
            None => list.0 = dead.next,
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        Some(this)
    });
    if let Some(this) = done {
        // SAFETY: it is out of the list, and was made by `add`.
        drop(unsafe { Box::from_raw(this) });
    }
}

/// Notes that the parent's threads are gone, except for the caller. The caller's id is `survivor`, or 0 if
/// it has none yet. Called in the child of a fork.
///
/// # Safety
/// Called by the child's only thread, which holds none of the runtime's locks.
pub(super) unsafe fn parents_died(last: u64, survivor: u64, each: impl FnOnce(&mut dyn FnMut(ThreadRef))) {
    let forget = |list: &mut List, held| {
        if held {
            list.0 = ptr::null_mut();
        }
    };
    // SAFETY: the caller's promise.
    unsafe { DEAD.mend(forget) };
    LOST.store(last, Ordering::Relaxed);
    SURVIVOR.store(survivor, Ordering::Relaxed);
    each(&mut |thread| {
        let id = thread.known_id();
        if is_lost(id) {
            // SAFETY: the caller's promise.
            unsafe { thread.core().robust.pending_owner_died(id) };
        }
    });
}

/// Returns the running thread's core, and its id.
#[inline]
pub(crate) fn me() -> (ThreadRef, u64) {
    let me = current();
    (me, me.id().get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::core_pool;

    /// A count of 32 bits would wrap to zero, and the end of the thread would wake none of the waiters.
    #[test]
    fn guards_that_are_forgotten_do_not_wrap_their_count() {
        let thread = core_pool::take(1, None, None);
        thread.robust.set(u32::MAX.into());
        thread.holds_robust();
        assert!(thread.leaves_robust());
        thread.robust.reset();
        assert!(!thread.leaves_robust(), "so it is in the next life");
        thread.release();
    }

    /// An id that no thread has.
    const ID: u64 = u64::MAX;

    #[test]
    fn the_dead_are_forgotten_when_all_of_their_locks_have_passed_on() {
        add(ID, 2);
        add(ID - 1, 1);
        passed_on(ID);
        assert!(is_dead(ID) && is_dead(ID - 1));
        passed_on(ID);
        assert!(!is_dead(ID) && is_dead(ID - 1));
        passed_on(ID - 1);
        assert!(!is_dead(ID - 1));
    }
}
