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
//! If a lock is dropped while it names a dead thread, that thread's entry stays in the list. It also stays if
//! only another process passes the lock on. That costs some bytes, and a longer look for threads that wait
//! for robust locks.
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

pub(super) mod dead;
pub(super) mod held;

pub(crate) use self::dead::{add, is_dead, passed_on};
pub(crate) use self::held::Abandoned;
use super::current::current;
use super::thread::{ThreadCore, ThreadRef};
use super::wait_queue;

impl ThreadCore {
    /// Notes that the running thread has locked a robust lock.
    #[inline]
    pub(crate) fn holds_robust(&self) {
        // Saturating, here and below: if a process writes nonsense into a shared lock, this thread may unlock
        // what it never locked.
        self.robust.set_count(self.robust.count().saturating_add(1));
    }

    /// Notes that the running thread unlocks a robust lock.
    #[inline]
    pub(crate) fn frees_robust(&self) {
        self.robust.set_count(self.robust.count().saturating_sub(1));
    }

    /// Returns `true` if the thread has a pending entry at this moment of a model.
    #[cfg(all(test, loom))]
    pub(crate) fn pends(&self) -> bool {
        self.robust.pends()
    }

    /// Returns `true` if it would end with robust locks held.
    #[inline]
    pub(crate) fn leaves_robust(&self) -> bool {
        self.robust.count() != 0
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
        thread.core().robust.begin(lock);
        Self { thread, lock: PhantomData }
    }
}

impl Drop for Pending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.thread.core().robust.end();
    }
}

impl ThreadRef {
    /// Tells the threads that wait for what the running thread holds, if it
    /// [holds](ThreadCore::leaves_robust) anything. Called by the running thread, after all of its
    /// destructors. May allocate.
    #[cold]
    pub(crate) fn dies_with_robust(self) {
        add(self.id().get(), self.robust.count());
        self.robust.set_count(0);
        wait_queue::wake_heirs();
    }
}

/// Returns the running thread's core, and its id.
#[inline]
pub(crate) fn me() -> (ThreadRef, u64) {
    let me = current();
    (me, me.id().get())
}

#[cfg(test)]
mod tests {
    use crate::park::core_pool;

    /// A count of 32 bits would wrap to zero, and the end of the thread would wake none of the waiters.
    #[test]
    fn guards_that_are_forgotten_do_not_wrap_their_count() {
        let thread = core_pool::take(1, None, None);
        thread.robust.set_count(u32::MAX.into());
        thread.holds_robust();
        assert!(thread.leaves_robust());
        thread.robust.set_count(0);
        thread.release();
    }
}
