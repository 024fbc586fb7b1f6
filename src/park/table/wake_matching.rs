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
