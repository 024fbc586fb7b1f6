//! Two queues at once, for waiters that go from one to the other, as from a condition variable to its mutex.

use super::{Bucket, Order, Waiter, linked, lock_of};
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
    /// Returns `true` if threads wait in the first queue.
    pub(in crate::park) fn has_waiters(&self) -> bool {
        !self.source.is_empty(self.from)
    }

    /// Moves all waiters of one queue to the back of the other, in their order. Returns how many.
    pub(in crate::park) fn move_all(&mut self) -> usize {
        let taken = self.source.take_all(self.from);
        self.link(taken)
    }

    /// Takes at most `woken` waiters of the first queue off it. They are returned as a list by `next` that
    /// ends in null, with their number. Moves at most `moved` others as [`move_all`](Self::move_all) does,
    /// and returns how many.
    pub(in crate::park) fn wake_and_move(
        &mut self,
        woken: usize,
        moved: usize,
    ) -> (*const Waiter, usize, usize) {
        let (first, count) = self.source.take_up_to(self.from, woken);
        let (others, _) = self.source.take_up_to(self.from, moved);
        (first, count, self.link(others))
    }

    /// Links waiters that were taken off the first queue, in the second.
    fn link(&mut self, mut next: *const Waiter) -> usize {
        let mut moved = 0;
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
