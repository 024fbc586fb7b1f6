//! Threads that are inside an object, and a thread that destroys the object.
//!
//! **Problem.** A C program may destroy a barrier as soon as one thread has passed it, and a condition
//! variable as soon as it has notified its waiters. Other threads have passed too, but may not have left:
//! they still look at the object's words. Then the program uses that memory for something else.
//!
//! **Rejected.** *To touch the table only, once a thread may have passed* (as a mutex does). A barrier would
//! have to count each arrival with the bucket lock held, also for Rust programs, where borrows keep the
//! barrier alive. *A count on the heap*: an object of a C program may be dropped without a call.
//!
//! **Protocol.** One word counts the visitors. A visitor enters before another thread can know that it has
//! come, and leaves with its last look. The destroyer takes the bucket lock, sets `CLOSED`, and queues if
//! there are visitors. The last visitor that leaves finds `CLOSED`, and takes the destroyer off the queue.
//!
//! **Proof.** No wake-up is lost: `CLOSED` is set with the lock held while there are visitors. So the last of
//! them sees it, and takes the lock after the destroyer has been linked. It does not look at the object then:
//! the key is only an address. That address is the object's until the destroyer is off the queue, so no other
//! thread is found there.
//!
//! **Cost** in read-modify-writes: 2 for a visit.

use crate::park::reason::WaitReason;
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options, Token};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::fork;

/// | bits | meaning | changed by |
/// |---|---|---|
/// | 31 | `CLOSED`: a thread destroys the object | the destroyer, under the bucket lock |
/// | 0 to 30 | the visitors | a visitor: + 1, then - 1 |
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Visitors(AtomicU32);

const CLOSED: u32 = 1 << 31;
const EMPTY: Token = Token(0);

impl Visitors {
    /// Creates it without visitors. A zeroed one is the same.
    pub(crate) const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns `true` if there are visitors. What orders their entries is the caller's.
    #[inline]
    pub(crate) fn are_some(&self) -> bool {
        // Relaxed: the caller's lock, or whatever it has, orders it.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Counts the running thread in. The destroyer must know of what the thread does afterwards.
    #[inline]
    pub(crate) fn enter(&self) {
        // Relaxed: published by what the thread does next in the object.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the running thread out, which does not look at the object from here on.
    #[inline]
    pub(crate) fn leave(&self) {
        // Release: pairs with the acquires of `until_none`.
        if self.0.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(destroyer) = wait_queue::grant_all(self.key(), EMPTY, || true) {
            destroyer.wake_all();
        }
    }

    /// Waits until all visitors have left. Called once, by the thread that destroys the object. A forked
    /// child without another thread does not wait: visitors have been left in its parent.
    #[inline]
    pub(crate) fn until_none(&self, reason: WaitReason) {
        // Acquire: pairs with `leave`, of all visitors.
        if self.0.load(Ordering::Acquire) != 0 {
            self.until_none_slow(reason);
        }
    }

    #[cold]
    fn until_none_slow(&self, reason: WaitReason) {
        if fork::is_child() && fork::is_alone() {
            return;
        }
        let options = Options::new(reason, Wait::forever());
        // Relaxed: what it confirms is read below.
        let are_some = || self.0.fetch_or(CLOSED, Ordering::Relaxed) != 0;
        // Invalid: the last has left since.
        let _ = wait_queue::wait(self.key(), &options, are_some, || ());
        // Acquire: as above. The grant orders the last visitor before this, and not the others.
        let left = self.0.load(Ordering::Acquire);
        debug_assert_eq!(left, CLOSED, "a visitor of an object that is destroyed");
    }
}

#[cfg(all(test, loom))]
mod loom_visitors;
