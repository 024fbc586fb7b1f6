//! A lock that passes with a switch, from a green thread that waits to the thread that runs next in its
//! place.
//!
//! **Problem.** A thread that waits on a condition variable releases the mutex and switches away. The thread
//! that it has just notified, which often runs next on the same LWP, then acquires that mutex. That is two
//! of the five read-modify-writes of such a hand-off, although no other thread could take the lock in
//! between.
//!
//! **Rejected.**
//!
//! - To hand the lock over at the notification. The notified thread would hold the lock for as long as it
//!   waits to run, which may be long. And the notifier may not hold the lock at all.
//! - To move the notified thread to the lock's queue, so that the unlock hands over. That takes one more
//!   bucket lock.
//!
//! **Protocol.**
//!
//! 1. A green thread is about to sleep with a lock that no other thread has asked for, and will acquire that
//!    lock again afterwards. It writes the lock's key into its core ([`Handoff::want`]).
//! 2. If the thread that its LWP runs next wants the same lock, the thread leaves without unlocking. It
//!    takes the successor off the run queue and waits until no LWP stands on the successor's stack. Then it
//!    looks again at what the successor wants, and clears that word ([`Handoff::give`]): the lock is the
//!    successor's. If any of this fails, it unlocks at that point, and switches away all the same.
//! 3. If a thread runs again and finds its word cleared, it has the lock. Otherwise it acquires the lock
//!    like any other thread ([`Handoff::end`]).
//!
//! **Proof.**
//!
//! - *One owner.* The lock's owner clears the word of the thread that runs next. That thread's release comes
//!   after.
//! - *The lock goes only to a thread that will look.* The word is nonzero only between the thread's way into
//!   its sleep and its way out. While the thread runs, it owns the word. After that, the party that has taken
//!   it off a run queue owns the word (the table in `mxn/green.rs`). Only that party may clear it. A look at
//!   a word that the looker does not own decides nothing.
//! - *The writes are seen.* The flag that says that no LWP stands on a stack is cleared after the thread has
//!   written its word. The thread passes through the queue after the giver's store.
//! - *No thread waits in vain.* A thread that finds the lock taken meanwhile queues for it and announces
//!   that, as always. The next unlock finds it, whichever thread unlocks. A thread that only tries finds the
//!   lock free now and then. Every `FAIR_TICK` switches of an LWP, the dispatcher is asked, and nothing is
//!   passed on.
//!
//! **Cost.** A store and two loads for each wait with a lock. Two read-modify-writes less where the lock is
//! passed on.

use std::ptr;

use crate::shim::atomic::{AtomicUsize, Ordering};

/// What a thread does first when it runs again.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | 0 | nothing; a thread that has asked has the lock | `want`, by the thread |
/// | a key | it wants that lock | `give`, by the party that dequeued the thread; `end`, by the thread |
#[derive(Debug)]
pub(crate) struct Handoff(AtomicUsize);

/// A lock that a thread holds until it leaves its stack.
pub(crate) trait HeldMutex {
    /// Returns `true` if no other thread is seen to have asked for it.
    fn is_alone(&self) -> bool;

    /// Unlocks it. Called at most once, and not if the lock was passed on. Called on the stack of the owner.
    /// Another LWP may already wait for that stack.
    fn release(&self);
}

// Relaxed, all: what passes the thread on orders them (see the proof). Other looks decide nothing.
impl Handoff {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Announces that the running thread will acquire the lock of `key` when it runs again.
    #[inline]
    pub(super) fn want(&self, key: usize) {
        debug_assert_ne!(key, 0);
        self.0.store(key, Ordering::Relaxed);
    }

    /// Returns `true` if the thread is seen to want the lock of `key`.
    #[inline]
    pub(crate) fn wants(&self, key: usize) -> bool {
        self.0.load(Ordering::Relaxed) == key
    }

    /// Gives the lock to the thread. The caller owned the lock, and has taken the thread off a run queue.
    #[inline]
    fn give(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Ends what [`want`](Self::want) began, in the running thread. Returns `true` if it has the lock.
    #[inline]
    pub(super) fn end(&self) -> bool {
        let given = self.0.load(Ordering::Relaxed) == 0;
        if !given {
            self.0.store(0, Ordering::Relaxed);
        }
        given
    }
}

/// Returns the key of a lock.
#[inline]
pub(crate) fn key_of(lock: &(impl HeldMutex + ?Sized)) -> usize {
    ptr::from_ref(lock).addr()
}

/// Gives up the lock of `key` at the switch to the thread of `next`. If that thread wants the lock, it gets
/// it. Otherwise the lock is unlocked. With `None`, nothing is known of the next thread, or it cannot be
/// mounted yet. Returns `true` if the lock was passed on.
///
/// The caller owns the lock. It has taken the next thread off a run queue, and nothing stands on that
/// thread's stack.
#[inline]
pub(crate) fn part_with(lock: &(impl HeldMutex + ?Sized), key: usize, next: Option<&Handoff>) -> bool {
    match next {
        Some(next) if next.wants(key) => {
            next.give();
            true
        }
        _ => {
            lock.release();
            false
        }
    }
}
