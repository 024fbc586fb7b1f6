//! Who is next, and taking several in turn.
//!
//! **Problem.** A semaphore must know what the next waiter asks for before it takes that one off the queue: if there is not
//! enough, the waiter stays where it is, and nobody passes it.
//!
//! **Rejected.** Taking it off and putting it back: it would have to be put exactly where it was, with its count of those it
//! has let pass. A sum of all demands in the semaphore: it does not say whose turn it is.
//!
//! So [`Bucket::next_of`] says what [`Bucket::pop`] would do, and changes nothing.

use std::ptr;

use super::{Bucket, PASSES, linked};
use crate::park::wait_queue::Waiter;

impl Bucket {
    /// The waiter of `key` that `pop` would take.
    fn next_of(&self, key: usize) -> Option<*const Waiter> {
        let (_, first) = self.find(key);
        if first.is_null() {
            return None;
        }
        // SAFETY: in the chain, and the lock is held.
        let waiter = unsafe { linked(first) };
        let last = waiter.peek(|links| links.prev);
        // SAFETY: in the ring, and the lock is held.
        let oldest = unsafe { linked(last) };
        let has_waited = oldest.priority() < waiter.priority() && oldest.peek(|links| links.passed) >= PASSES;
        Some(if has_waited { last } else { first })
    }

    /// Takes waiters of `key` off their queue, each the next in turn, for as long as `takes` says so. Gives them as a list by
    /// `next` that ends in null, and whether others are left.
    pub(in crate::park) fn take_while(
        &mut self,
        key: usize,
        mut takes: impl FnMut(&Waiter) -> bool,
    ) -> (*const Waiter, bool) {
        let mut taken: *const Waiter = ptr::null();
        let mut last: *const Waiter = ptr::null();
        while let Some(next) = self.next_of(key) {
            // SAFETY: in the ring, and the lock is held.
            let waiter = unsafe { linked(next) };
            if !takes(waiter) {
                return (taken, true);
            }
            let popped = self.pop(key);
            debug_assert!(popped.is_some_and(|(popped, _)| popped == next), "not the one that was announced");
            waiter.links(|links| links.next = ptr::null());
            if last.is_null() {
                taken = next;
            } else {
                // SAFETY: taken by an earlier turn, and not settled.
                unsafe { linked(last) }.links(|links| links.next = next);
            }
            last = next;
        }
        (taken, false)
    }
}
