//! Takes waiters off their queues by a property other than their keys. Rare and slow: it searches every
//! bucket.

use std::ptr;

use super::{Bucket, TABLE, Waiter, linked};

/// Takes all waiters that `choose` accepts off their queues, bucket by bucket. Calls `wake` with those of
/// each bucket, with no lock held: a list by `next` that ends in null.
pub(in crate::park) fn take(choose: impl Fn(&Waiter) -> bool, wake: impl Fn(*const Waiter)) {
    for lock in TABLE.iter() {
        let taken = lock.with(|bucket| {
            bucket.verify();
            let taken = bucket.take_where(&choose);
            bucket.verify();
            taken
        });
        wake(taken);
    }
}

impl Bucket {
    fn take_where(&mut self, choose: impl Fn(&Waiter) -> bool) -> *const Waiter {
        let mut taken = ptr::null();
        while let Some(waiter) = self.any_where(&choose) {
            // SAFETY: it is linked here, and the lock is held.
            let waiter = unsafe { linked(waiter) };
            // SAFETY: it is linked here, and the lock is held.
            unsafe { self.unlink(waiter) };
            waiter.links(|links| links.next = taken);
            taken = waiter;
        }
        taken
    }

    fn any_where(&self, choose: impl Fn(&Waiter) -> bool) -> Option<*const Waiter> {
        let mut first = self.chain;
        while !first.is_null() {
            let mut this = first;
            loop {
                // SAFETY: in a ring of this bucket, and the lock is held.
                let waiter = unsafe { linked(this) };
                if choose(waiter) {
                    return Some(this);
                }
                this = waiter.peek(|links| links.next);
                if this == first {
                    break;
                }
            }
            // SAFETY: in the chain, and the lock is held.
            first = unsafe { linked(first) }.peek(|links| links.chain);
        }
        None
    }
}
