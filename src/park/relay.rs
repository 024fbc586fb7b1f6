//! A lock that goes with the switch: from a green thread that waits to the one that runs next in its place.
//!
//! **Problem.** Who waits with a lock (at a condition variable) unlocks it and leaves; whom it has notified a moment ago, and who runs
//! next on the same LWP, locks it. That is two read-modify-writes of the five that such a hand-off has, and nobody was
//! there to take the lock in between.
//!
//! **Rejected.** Handing the lock over at the notification: the notified one may wait for long until it runs, with the lock, and
//! who notifies need not even have it. Moving it to the lock's queue, so that the unlock hands over: a bucket lock more.
//!
//! **Protocol.**
//!
//! 1. A green thread that is about to sleep with a lock that nobody else has asked for, and to take it again, writes the lock's key into
//!    its core ([`Relay::want`]).
//! 2. If the thread that its LWP runs next wants that same lock, it leaves without unlocking. It takes the successor off the run queue,
//!    waits until nobody stands on that one's stack, looks again what it wants, and clears the word ([`Relay::give`]): the lock is the successor's. If any of this comes to nothing, it
//!    unlocks then, and is gone all the same.
//! 3. Who runs again and finds its word cleared has the lock; else it takes the lock like everybody ([`Relay::end`]).
//!
//! **Proof.** *One owner*: the word is cleared by the one who has the lock, for one who runs next, and that one's release comes after.
//! *Only to who will look*: the word is not zero only between the thread's way into its sleep and its way out. It belongs to the thread while that runs, and
//! then to whoever has taken it off a run queue (the table in `mxn/green.rs`), who alone may clear it; a look at the word of one that is
//! not one's own decides nothing. *Seen*: the flag that says that nobody stands on a stack is cleared after the thread has written its
//! word, and the queue is passed after the giver's store. *Nobody waits in vain*: who finds the lock taken meanwhile queues for it and announces
//! that, as ever, and the next unlock finds it, whoever does it. Who only tries finds it free now and then: where the dispatcher is asked
//! (every `FAIR_TICK` switches of an LWP), nothing is passed on.
//!
//! **Cost.** A store and two loads for each wait with a lock; two read-modify-writes less where the lock is passed on.

use super::backend::Sleep;
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::shim::atomic::{AtomicUsize, Ordering};

/// What a thread's next run is to begin with.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | 0 | nothing; or, to a thread that has asked, that it has the lock | `want`, by the thread |
/// | a key | that lock is to be taken | `give`, by who has taken the thread off a run queue; `end`, by the thread |
#[derive(Debug)]
pub(crate) struct Relay(AtomicUsize);

/// A lock that a thread holds until it leaves its stack.
pub(crate) trait Held {
    /// Whether nobody else has asked for it, as far as can be seen.
    fn is_alone(&self) -> bool;

    /// Unlocks it. Called once, unless it was passed on; on the stack of its owner, who may be awaited already.
    fn release(&self);
}

// Relaxed, all: what passes the thread on orders them (see the proof), and other looks decide nothing.
impl Relay {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// The running thread will take the lock of `key` when it runs again.
    #[inline]
    fn want(&self, key: usize) {
        debug_assert_ne!(key, 0);
        self.0.store(key, Ordering::Relaxed);
    }

    /// Whether the thread wants the lock of `key`, for all that can be seen.
    #[inline]
    pub(crate) fn wants(&self, key: usize) -> bool {
        self.0.load(Ordering::Relaxed) == key
    }

    /// The lock is the thread's, which the caller, who had the lock, has taken off a run queue.
    #[inline]
    pub(crate) fn give(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The running thread has asked, and runs again: whether it has the lock.
    #[inline]
    fn end(&self) -> bool {
        let given = self.0.load(Ordering::Relaxed) == 0;
        if !given {
            self.0.store(0, Ordering::Relaxed);
        }
        given
    }
}

/// Puts `me`, the running thread, which is green and published as asleep, to sleep with a lock. `true`: it has the lock when it wakes.
#[inline]
pub(super) fn block(me: &ThreadRef, sleep: &dyn Sleep, reason: WaitReason, lock: &impl Held) -> bool {
    let (relay, key) = (&me.core().relay, std::ptr::from_ref(lock).addr());
    relay.want(key);
    me.backend().block_with(me, sleep, reason, key, lock);
    relay.end()
}
