//! Takes several waiters off their queues at once: in turn, or by a property other than their turn.
//!
//! **Problem.** A semaphore must know what the next waiter asks for before it takes that waiter off the
//! queue. If there is not enough, the waiter stays where it is, and no other waiter passes it.
//!
//! **Rejected.** To take it off and put it back: it would have to go exactly where it was, and so would the
//! count. A sum of all demands in the semaphore: it does not say which waiter is next.
//!
//! So [`Bucket::next_of`] says what [`Bucket::pop`] would do, and changes nothing.

use std::ptr;

use super::{Bucket, Linked, TABLE, Waiter, linked, ring};

/// Takes all waiters that `choose` accepts off their queues, bucket by bucket. Calls `wake` with those of
/// each bucket, with no lock held: a list by `next` that ends in null. Rare and slow.
pub(in crate::park) fn from_all(choose: impl Fn(&Waiter) -> bool, wake: impl Fn(*const Waiter)) {
    for bucket in TABLE.iter() {
        let taken = bucket.0.with(|bucket| {
            bucket.verify();
            let taken = bucket.take_where(&choose);
            bucket.verify();
            taken
        });
        wake(taken);
    }
}

/// Waiters that were taken off their queues with the lock held: a list by `next` that ends in null.
struct Taken {
    first: *const Waiter,
    last: *const Waiter,
}

impl Taken {
    const NONE: Self = Self { first: ptr::null(), last: ptr::null() };

    /// Appends a waiter that was taken just now.
    fn add(&mut self, waiter: *const Waiter) {
        // SAFETY: in a queue until now, not settled, and the lock is held.
        unsafe { linked(waiter) }.links(|links| links.next = ptr::null());
        if self.last.is_null() {
            self.first = waiter;
        } else {
            // SAFETY: taken in an earlier round, and not settled.
            unsafe { linked(self.last) }.links(|links| links.next = waiter);
        }
        self.last = waiter;
    }
}

impl Bucket {
    /// Returns the waiter of `key` that `pop` would take.
    fn next_of(&self, key: usize) -> Option<*const Waiter> {
        let (_, first) = self.find(key);
        (!first.is_null()).then(|| Self::next_waiter(first).0)
    }

    /// Takes all waiters of `key` off their queue. Returns them as a list by `next` that ends in null.
    pub(in crate::park) fn take_all(&mut self, key: usize) -> *const Waiter {
        let (place, first) = self.find(key);
        if first.is_null() {
            return first;
        }
        // SAFETY: in the chain, and the lock is held.
        let (last, chain) = unsafe { linked(first) }.peek(|links| (links.prev, links.chain));
        // SAFETY: it is where `first` was noted, and the lock is held.
        unsafe { place.write(chain) };
        // SAFETY: still in the ring, and the lock is held.
        unsafe { linked(last) }.links(|links| links.next = ptr::null());
        let mut waiter = first;
        while !waiter.is_null() {
            // SAFETY: was in the ring a moment ago, is not settled, and the lock is held.
            waiter = unsafe { linked(waiter) }.links(|links| {
                links.linked_as = Linked::Out;
                links.next
            });
        }
        first
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
        let mut taken = Taken::NONE;
        while let Some(next) = self.next_of(key) {
            // SAFETY: in the ring, and the lock is held.
            if !takes(unsafe { linked(next) }) {
                return (taken.first, true);
            }
            let popped = self.pop(key);
            debug_assert!(popped.is_some_and(|(popped, _)| popped == next), "not the one that was announced");
            taken.add(next);
        }
        (taken.first, false)
    }

    /// Takes at most `most` waiters of `key` that `choose` accepts off their queue, in the queue's order.
    /// Returns them as a list by `next` that ends in null, and how many they are. It searches the queue.
    pub(in crate::park) fn take_chosen(
        &mut self,
        key: usize,
        most: usize,
        choose: impl Fn(&Waiter) -> bool,
    ) -> (*const Waiter, usize) {
        let (mut taken, mut count) = (Taken::NONE, 0);
        while count < most {
            // SAFETY: null, or in the chain, and the lock is held.
            let Some(first) = (unsafe { self.find(key).1.as_ref() }) else { break };
            let Some(waiter) = ring(first).find(|waiter| choose(waiter)) else { break };
            // SAFETY: it is linked here, and the lock is held.
            unsafe { self.unlink(waiter) };
            taken.add(waiter);
            count += 1;
        }
        (taken.first, count)
    }

    fn take_where(&mut self, choose: impl Fn(&Waiter) -> bool) -> *const Waiter {
        let mut taken = ptr::null();
        loop {
            let found = self.waiters().find(|waiter| choose(waiter)).map(ptr::from_ref);
            let Some(waiter) = found else { return taken };
            // SAFETY: it is linked here, and the lock is held.
            let waiter = unsafe { linked(waiter) };
            // SAFETY: it is linked here, and the lock is held.
            unsafe { self.unlink(waiter) };
            waiter.links(|links| links.next = taken);
            taken = waiter;
        }
    }
}
