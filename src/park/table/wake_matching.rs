//! Takes waiters off their queues by a property other than their keys and their turn. Rare and slow: it
//! searches a whole queue, or every bucket.

use std::ptr;

use super::{Bucket, TABLE, Waiter, linked};

/// Takes all waiters that `choose` accepts off their queues, bucket by bucket. Calls `wake` with those of
/// each bucket, with no lock held: a list by `next` that ends in null.
pub(in crate::park) fn take(choose: impl Fn(&Waiter) -> bool, wake: impl Fn(*const Waiter)) {
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

impl Bucket {
    /// Takes at most `most` waiters of `key` that `choose` accepts off their queue, in the queue's order.
    /// Returns them as a list by `next` that ends in null, and how many they are.
    pub(in crate::park) fn take_chosen(
        &mut self,
        key: usize,
        most: usize,
        choose: impl Fn(&Waiter) -> bool,
    ) -> (*const Waiter, usize) {
        let (mut taken, mut last, mut count) = (ptr::null(), ptr::null::<Waiter>(), 0);
        while count < most {
            // SAFETY: null, or in the chain, and the lock is held.
            let Some(first) = (unsafe { self.find(key).1.as_ref() }) else { break };
            let Some(waiter) = super::ring(first).find(|waiter| choose(waiter)) else { break };
            // SAFETY: it is linked here, and the lock is held.
            unsafe { self.unlink(waiter) };
            waiter.links(|links| links.next = ptr::null());
            if last.is_null() {
                taken = ptr::from_ref(waiter);
            } else {
                // SAFETY: taken in an earlier round, and not settled.
                unsafe { linked(last) }.links(|links| links.next = waiter);
            }
            last = waiter;
            count += 1;
        }
        (taken, count)
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
