//! Two queues at once: waiters that go from one to the other, as from a condition variable to its mutex.

use std::ptr;

use super::{Bucket, linked, lock_of};
use crate::park::queue_lock::lock_pair;
use crate::park::wait_queue::{Order, Waiter};

/// Runs `f` with the locks of both keys' buckets held.
pub(in crate::park) fn with<R>(from: usize, to: usize, f: impl FnOnce(&mut Pair<'_>) -> R) -> R {
    debug_assert_ne!(from, to, "requeued onto itself");
    lock_pair(lock_of(from), lock_of(to), |source, target| {
        source.verify();
        let mut pair = Pair { from, to, source, target };
        let result = f(&mut pair);
        pair.source.verify();
        if let Some(target) = pair.target {
            target.verify();
        }
        result
    })
}

/// Two queues with the locks of both their buckets held.
pub(in crate::park) struct Pair<'a> {
    from: usize,
    to: usize,
    source: &'a mut Bucket,
    /// `None` if both keys share a bucket.
    target: Option<&'a mut Bucket>,
}

/// What became of the waiters of a queue.
pub(in crate::park) struct Parted {
    /// How many went to the other queue.
    pub(in crate::park) moved: usize,
    /// The rest, off all queues: a list by `next` that ends in null.
    pub(in crate::park) taken: *const Waiter,
}

impl Pair<'_> {
    /// Takes the waiters that `take` chooses off the one queue, and moves the others to the back of the other; both keep
    /// their order.
    pub(in crate::park) fn part(&mut self, mut take: impl FnMut(&Waiter) -> bool) -> Parted {
        let mut next = self.source.take_all(self.from);
        let target = self.target.as_deref_mut().unwrap_or(self.source);
        let mut parted = Parted { moved: 0, taken: ptr::null() };
        let mut last: *const Waiter = ptr::null();
        while !next.is_null() {
            let this = next;
            // SAFETY: unlinked just now, not settled, and both locks are held.
            let waiter = unsafe { linked(this) };
            next = waiter.peek(|links| links.next);
            if take(waiter) {
                waiter.links(|links| links.next = ptr::null());
                if last.is_null() {
                    parted.taken = this;
                } else {
                    // SAFETY: taken by an earlier turn, and not settled.
                    unsafe { linked(last) }.links(|links| links.next = this);
                }
                last = this;
            } else {
                waiter.set_key(self.to);
                // SAFETY: in no queue now, and alive until it is unlinked again.
                unsafe { target.link(waiter, Order::Fifo) };
                parted.moved += 1;
            }
        }
        parted
    }
}
