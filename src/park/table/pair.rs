//! Two queues at once, for waiters that go from one to the other, as from a condition variable to its mutex.

use super::{Bucket, Order, linked, lock_of};
use crate::park::queue_lock::lock_pair;

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

/// Two queues, with the locks of both buckets held.
pub(in crate::park) struct Pair<'a> {
    from: usize,
    to: usize,
    source: &'a mut Bucket,
    /// `None` if both keys share a bucket.
    target: Option<&'a mut Bucket>,
}

impl Pair<'_> {
    /// Moves all waiters of one queue to the back of the other, in their order. Returns how many.
    pub(in crate::park) fn move_all(&mut self) -> usize {
        let (mut next, mut moved) = (self.source.take_all(self.from), 0);
        let target = self.target.as_deref_mut().unwrap_or(self.source);
        while !next.is_null() {
            // SAFETY: unlinked just now, not settled, and both locks are held.
            let waiter = unsafe { linked(next) };
            next = waiter.peek(|links| links.next);
            waiter.set_key(self.to);
            // SAFETY: in no queue at this point, and alive until it is unlinked again.
            unsafe { target.link(waiter, Order::Fifo) };
            waiter.links(|links| links.moved = true);
            moved += 1;
        }
        moved
    }
}
