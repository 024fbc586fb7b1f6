//! Who is next, and taking several in turn.
//!
//! The first is next, unless others of lower priority have waited for long enough: then the oldest of the lowest. How
//! long, is counted for the queue and not for the waiter that is the oldest: new ones of its priority would otherwise take its count from
//! it, or begin their own behind it.
//!
//! **Problem.** A semaphore must know what the next waiter asks for before it takes that one off the queue: if there is not
//! enough, the waiter stays where it is, and nobody passes it.
//!
//! **Rejected.** Taking it off and putting it back: it would have to be put exactly where it was, and what has been counted
//! too. A sum of all demands in the semaphore: it does not say whose turn it is.
//!
//! So [`Bucket::next_of`] says what [`Bucket::pop`] would do, and changes nothing.

use std::ptr;

use super::{Bucket, PASSES, linked};
use crate::park::wait_queue::Waiter;

impl Bucket {
    /// Whose turn it is in the ring of `first`, and how many have then been granted before others of lower priority.
    #[inline]
    pub(super) fn turn(first: *const Waiter) -> (*const Waiter, u32) {
        // SAFETY: in the chain, and the lock is held.
        let waiter = unsafe { linked(first) };
        let (last, passed) = waiter.peek(|links| (links.prev, links.passed));
        // SAFETY: in the ring, and the lock is held.
        if unsafe { linked(last) }.priority() == waiter.priority() {
            (first, 0)
        } else if passed < PASSES {
            (first, passed + 1)
        } else {
            (Self::oldest_of_lowest(last), 0)
        }
    }

    /// Of those that have the priority of the last of a ring, the one that came first. (That is at the one end of them or the
    /// other, as they were queued, and who came out of turn is in between.)
    #[cold]
    fn oldest_of_lowest(last: *const Waiter) -> *const Waiter {
        // SAFETY: in the ring, and the lock is held.
        let (lowest, arrival) = {
            // SAFETY: as above.
            let last = unsafe { linked(last) };
            (last.priority(), last.peek(|links| links.arrival))
        };
        let (mut oldest, mut earliest, mut this) = (last, arrival, last);
        loop {
            // SAFETY: as above.
            let waiter = unsafe { linked(this) };
            if waiter.priority() != lowest {
                // The ring has higher ones, or it would not be asked for.
                return oldest;
            }
            let (prev, arrival) = waiter.peek(|links| (links.prev, links.arrival));
            if arrival.wrapping_sub(earliest) > u32::MAX / 2 {
                (oldest, earliest) = (this, arrival);
            }
            this = prev;
        }
    }

    /// The waiter of `key` that `pop` would take.
    fn next_of(&self, key: usize) -> Option<*const Waiter> {
        let (_, first) = self.find(key);
        (!first.is_null()).then(|| Self::turn(first).0)
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
