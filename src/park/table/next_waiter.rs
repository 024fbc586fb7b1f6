//! Which waiter is next, and how several are taken in turn.
//!
//! The first waiter is next. But if waiters of lower priority have waited for long enough, the oldest of the
//! lowest priority is next. That is counted for the queue, and not for its oldest waiter. Otherwise new
//! waiters of that priority would take its count from it, or begin their own behind it.
//!
//! **Problem.** A semaphore must know what the next waiter asks for before it takes that waiter off the
//! queue. If there is not enough, the waiter stays where it is, and no other waiter passes it.
//!
//! **Rejected.** To take it off and put it back: it would have to go exactly where it was, and so would the
//! count. A sum of all demands in the semaphore: it does not say which waiter is next.
//!
//! So [`Bucket::next_of`] says what [`Bucket::pop`] would do, and changes nothing.

use std::ptr;

use super::{Bucket, MAX_BYPASS, linked};
use crate::park::waiter::Waiter;

impl Bucket {
    /// Returns the next waiter of the ring of `first`, and how many will then have been granted before
    /// others of lower priority.
    #[inline]
    pub(super) fn next_waiter(first: *const Waiter) -> (*const Waiter, u32) {
        // SAFETY: in the chain, and the lock is held.
        let waiter = unsafe { linked(first) };
        let (last, passed) = waiter.peek(|links| (links.prev, links.passed));
        // SAFETY: in the ring, and the lock is held.
        if unsafe { linked(last) }.priority() == waiter.priority() {
            (first, 0)
        } else if passed < MAX_BYPASS {
            (first, passed + 1)
        } else {
            (Self::oldest_of_lowest(last), 0)
        }
    }

    /// Returns the oldest of the waiters that have the priority of the last one of a ring. The oldest is at
    /// one end of these or at the other, in the order in which they were queued. Waiters that came out of
    /// turn are in between.
    #[cold]
    fn oldest_of_lowest(last: *const Waiter) -> *const Waiter {
        // SAFETY: in the ring, and the lock is held.
        let (lowest, arrival) = {
            // SAFETY: in the ring, and the lock is held.
            let last = unsafe { linked(last) };
            (last.priority(), last.peek(|links| links.arrival))
        };
        let (mut oldest, mut earliest, mut this) = (last, arrival, last);
        loop {
            // SAFETY: in the ring, and the lock is held.
            let waiter = unsafe { linked(this) };
            if waiter.priority() != lowest {
                // The ring has waiters of higher priority, or this would not be called.
                return oldest;
            }
            let (prev, arrival) = waiter.peek(|links| (links.prev, links.arrival));
            if arrival.wrapping_sub(earliest) > u32::MAX / 2 {
                (oldest, earliest) = (this, arrival);
            }
            this = prev;
        }
    }

    /// Returns the waiter of `key` that `pop` would take.
    fn next_of(&self, key: usize) -> Option<*const Waiter> {
        let (_, first) = self.find(key);
        (!first.is_null()).then(|| Self::next_waiter(first).0)
    }

    /// Takes at most `most` waiters of `key` off their queue in turn. Returns them as a list by `next` that
    /// ends in null, and how many they are.
    pub(in crate::park) fn take_up_to(&mut self, key: usize, most: usize) -> (*const Waiter, usize) {
        let mut count = 0;
        let takes = |_: &Waiter| {
            let takes = count < most;
            count += usize::from(takes);
            takes
        };
        let (first, _) = self.take_while(key, takes);
        (first, count)
    }

    /// Takes waiters of `key` off their queue in turn, for as long as `takes` accepts the next one. Returns
    /// them as a list by `next` that ends in null, and `true` if others are left.
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
                // SAFETY: taken in an earlier round, and not settled.
                unsafe { linked(last) }.links(|links| links.next = next);
            }
            last = next;
        }
        (taken, false)
    }
}
