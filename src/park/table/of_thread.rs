//! The waiter of one thread in a queue, for a party that knows the thread and not the waiter.

use std::ptr;

use super::{Bucket, Waiter, linked, ring};
use crate::park::thread::ThreadRef;

impl Bucket {
    /// Returns the waiter of a thread in the queue of `key`. A thread has one at most. Walks along the queue.
    /// Called with the lock held for as long as the waiter is used.
    pub(in crate::park) fn find_thread(&self, key: usize, thread: ThreadRef) -> Option<*const Waiter> {
        let (_, first) = self.find(key);
        if first.is_null() {
            return None;
        }
        // SAFETY: in the chain, and the lock is held.
        ring(unsafe { linked(first) }).find(|waiter| waiter.thread == thread).map(ptr::from_ref)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use crate::park::core_pool;
    use crate::park::no_preempt::NoPreempt;
    use crate::park::reason::WaitReason;
    use crate::park::table::{self, Order};
    use crate::park::wait::Wait;
    use crate::park::wait_queue::Options;
    use crate::park::waiter::Waiter;

    #[test]
    fn each_thread_has_its_own_waiter() {
        let place = 0_u8;
        let key = ptr::from_ref(&place).addr();
        let options = Options::new(WaitReason::Readable, Wait::forever());
        let threads = [0, 1, 2].map(|_| core_pool::take(1, None, None));
        let waiters = threads.map(|thread| Waiter::new(thread, key, &options));
        table::with(&NoPreempt::hold(), key, |bucket| {
            assert_eq!(bucket.find_thread(key, threads[0]), None);
            for waiter in &waiters[..2] {
                // SAFETY: it is in no queue, and unlinked below.
                unsafe { bucket.link(waiter, Order::Fifo) };
            }
            for number in [1, 0] {
                assert_eq!(bucket.find_thread(key, threads[number]), Some(ptr::from_ref(&waiters[number])));
            }
            assert_eq!(bucket.find_thread(key, threads[2]), None);
            // SAFETY: they are linked in this bucket.
            waiters[..2].iter().for_each(|waiter| unsafe { bucket.unlink(waiter) });
        });
        threads.into_iter().for_each(|thread| thread.release());
    }
}
