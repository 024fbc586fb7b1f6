//! A walk over all queues, for reports.

use super::{Bucket, TABLE, linked};
use crate::park::waiter::Waiter;

/// Returns for each waiter the address of the thread's core, and the key of its queue. Each bucket is of its
/// own moment.
pub(crate) fn all_waiters() -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for lock in TABLE.iter() {
        // Room comes first, so that nothing is allocated with the lock held.
        let mut room = 0;
        while let Some(needed) = lock.with(|bucket| {
            let mut needed = 0;
            each(bucket, |_| needed += 1);
            if needed > room {
                return Some(needed);
            }
            each(bucket, |waiter| found.push((waiter.address(), waiter.key())));
            None
        }) {
            room = needed;
            found.reserve(room);
        }
    }
    found
}

/// Calls `f` with each waiter of the bucket. The bucket's lock is held.
fn each(bucket: &Bucket, mut f: impl FnMut(&Waiter)) {
    let mut first = bucket.chain;
    while !first.is_null() {
        let mut waiter = first;
        loop {
            // SAFETY: in the ring, and the lock is held.
            let this = unsafe { linked(waiter) };
            f(this);
            waiter = this.peek(|links| links.next);
            if waiter == first {
                break;
            }
        }
        // SAFETY: in the chain, and the lock is held.
        first = unsafe { linked(first) }.peek(|links| links.chain);
    }
}
