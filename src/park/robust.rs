//! Threads that have ended with locks held that want to know.
//!
//! **Problem.** A guard can be leaked, and its thread can end: the lock is then taken for ever. A robust lock is to notice: whoever
//! locks it next, and whoever waits for it already.
//!
//! **Rejected.** *A list of the locks that a thread holds*, which its end walks, as the kernel does for futexes: a lock whose guard was
//! leaked may have been moved, or be gone. So each lock would need a cell on the heap, and a destructor, and each lock and unlock
//! two read-modify-writes more. *The address of the owner's core in the lock*: the core lives on with another thread, and
//! whoever finds it alive may have come a life too late. *A deadline in every wait*, to look at the owner from time to time:
//! threads that wait for long would keep the processor busy.
//!
//! **Protocol.** A lock names its owner by its id. A thread counts the robust locks that it holds; the count is its own. A
//! thread that ends with a count of zero does nothing. Another one:
//!
//! 1. adds its id to the list of the *dead*;
//! 2. goes through all queues, and wakes whoever waits for a robust lock (of whatever owner: it knows no better).
//!
//! Who is about to wait for a robust lock looks, with the bucket lock held, whether the owner is among the dead. Who finds that it is
//! tries to put its own id in the place of the dead one's, in the lock, and the one who succeeds owns the lock. Once all locks that a
//! dead thread held have passed on, its id leaves the list.
//!
//! **Proof.** *Nobody waits for the dead*: of the look and of the walk through the same bucket one comes first. If the look does, the
//! walk finds its waiter; else the look finds the id, which was there before the walk. *Nobody inherits from the living*: ids are
//! never used again, and a dead thread unlocks nothing; so a lock that names a dead thread has been its since, and
//! names it until one heir replaces it.
//!
//! A lock that is dropped while it names a dead thread, or that only another process passes on, leaves that thread's entry in the list:
//! some bytes, and a longer look for those who wait for robust locks.
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
    /// The function that the child of a fork calls with that lock: a [`Bury`].
    bury: AtomicPtr<()>,
}

/// Called with the lock of a pending entry, and the id of a lost thread.
type Bury = unsafe fn(*const (), u64);

/// A lock for which a thread can have a pending entry.
pub(crate) trait Abandoned {
    /// Called in the child of a fork, by its only thread. If the lock is locked and names no owner, makes the
    /// lost thread `id` its owner.
    fn bury(&self, id: u64);
}

/// # Safety
/// `lock` is an `L`.
unsafe fn bury<L: Abandoned>(lock: *const (), id: u64) {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.bury(id);
}

impl Held {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            pending: AtomicPtr::new(ptr::null_mut()),
            bury: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Relaxed, here and below: only the thread itself uses it, and the core is published after `begin`. (No
    /// life ends with a pending entry.)
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

    /// In the child of a fork: passes the pending entry's lock to [`Abandoned::bury`], for the lost thread
    /// `id`.
    ///
    /// # Safety
    /// Called by the child's only thread.
    unsafe fn bury_pending(&self, id: u64) {
        // Relaxed, all: there is only one thread.
        let lock = self.pending.load(Ordering::Relaxed);
        if lock.is_null() {
            return;
        }
        self.pending.store(ptr::null_mut(), Ordering::Relaxed);
        let bury = self.bury.load(Ordering::Relaxed);
        // SAFETY: `begin` stored a `Bury` there before it made the entry.
        let bury = unsafe { std::mem::transmute::<*mut (), Bury>(bury) };
        // SAFETY: the entry names a lock of that type, and the lost thread's borrow of it never ends.
        unsafe { bury(lock, id) };
    }

    /// The same thread goes on with another core.
    pub(super) fn inherit(&self, from: &Self) {
        self.set(from.get());
    }
}

/// A thread that has ended with robust locks held.
struct Dead {
    id: u64,
    /// Locks that name it.
    left: u64,
    next: *mut Dead,
}

struct List(*mut Dead);

// SAFETY: the list owns what is in it.
unsafe impl Send for List {}

global! {
    static DEAD: QueueLock<List> = QueueLock::new(Rank::Pool, List(ptr::null_mut()));
}

global! {
    /// How many are in the list, so that a look costs next to nothing where there are none.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
}

global! {
    /// In a child: ids up to this one are of its parent's threads. Zero elsewhere.
    static LOST: AtomicU64 = AtomicU64::new(0);
}

global! {
    /// In a child: the one of those that is here.
    static SURVIVOR: AtomicU64 = AtomicU64::new(0);
}

impl ThreadCore {
    /// By the running thread: it has locked a robust lock.
    #[inline]
    pub(crate) fn holds_robust(&self) {
        // Saturating, here and below: if a process writes nonsense into a shared lock, this thread may unlock
        // what it never locked.
        self.robust.set(self.robust.get().saturating_add(1));
    }

    /// By the running thread: it unlocks one.
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

    /// Whether it ends with robust locks held.
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
        held.bury.store(bury::<L> as Bury as *mut (), Ordering::Relaxed);
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
    /// The running thread, after all of its destructors: tells those who wait for what it holds, if it
    /// [holds](ThreadCore::leaves_robust) anything. May allocate.
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
        // Relaxed, all: who must see the count comes later to the same bucket; others look again.
        COUNT.fetch_add(1, Ordering::Relaxed);
    });
}

/// Whether the thread with this id has ended, and left robust locks. Fit for a bucket lock's holder.
#[inline]
pub(crate) fn is_dead(id: u64) -> bool {
    (COUNT.load(Ordering::Relaxed) != 0 && is_listed(id)) || is_lost(id)
}

#[inline]
fn is_lost(id: u64) -> bool {
    // Relaxed: written where there is one thread.
    id != 0 && id <= LOST.load(Ordering::Relaxed) && id != SURVIVOR.load(Ordering::Relaxed)
}

#[cold]
fn is_listed(id: u64) -> bool {
    // The lock pairs with `add`: whoever finds the id sees all that its thread did.
    DEAD.with(|list| !place_of(list, id).1.is_null())
}

/// The entry of `id`, and the one before it.
fn place_of(list: &List, id: u64) -> (*mut Dead, *mut Dead) {
    let mut before = ptr::null_mut();
    let mut this = list.0;
    // SAFETY: what is in the list is there until it is taken out, with the lock held.
    while let Some(dead) = unsafe { this.as_ref() } {
        if dead.id == id {
            break;
        }
        before = this;
        this = dead.next;
    }
    (before, this)
}

/// A lock that named the dead thread `id` has passed on to another.
#[cold]
pub(crate) fn passed_on(id: u64) {
    let done = DEAD.with(|list| {
        let (before, this) = place_of(list, id);
        // SAFETY: as in `place_of`.
        let dead = unsafe { this.as_mut() }?;
        dead.left = dead.left.saturating_sub(1);
        if dead.left != 0 {
            return None;
        }
        // SAFETY: as above; another one.
        match unsafe { before.as_mut() } {
            Some(before) => before.next = dead.next,
            None => list.0 = dead.next,
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        Some(this)
    });
    if let Some(this) = done {
        // SAFETY: out of the list, and made by `add`.
        drop(unsafe { Box::from_raw(this) });
    }
}

/// In the child of a fork: the parent's threads are gone, but for the caller, whose id is `survivor` (0: it has none yet).
///
/// # Safety
/// By the child's only thread, which holds none of the runtime's locks.
pub(super) unsafe fn bury_parents(last: u64, survivor: u64, each: impl FnOnce(&mut dyn FnMut(ThreadRef))) {
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
            unsafe { thread.core().robust.bury_pending(id) };
        }
    });
}

/// The running thread's id, and its core.
#[inline]
pub(crate) fn me() -> (ThreadRef, u64) {
    let me = current();
    (me, me.id().get())
}

#[cfg(test)]
mod tests {
    use crate::park::registry;

    /// A count of 32 bits would wrap to zero, and the end of the thread would wake none of the waiters.
    #[test]
    fn guards_that_are_forgotten_do_not_wrap_their_count() {
        let thread = registry::take(1, None, None);
        thread.robust.set(u32::MAX.into());
        thread.holds_robust();
        assert!(thread.leaves_robust());
        thread.robust.reset();
        thread.release();
    }
}
