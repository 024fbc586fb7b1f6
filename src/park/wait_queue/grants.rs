//! Threads that were taken off a queue, on their way to be woken.

use super::{Token, Waiter, settle};
use crate::park::backend::Backend;
use crate::park::thread::ThreadRef;
use crate::shim::atomic::AtomicU32;

/// A thread that was taken off its queue. It sleeps on until it is woken.
#[must_use = "the thread sleeps until it is woken"]
pub(crate) struct Grant {
    pub(in crate::park) thread: ThreadRef,
    pub(in crate::park) backend: &'static dyn Backend,
    /// Not to be read through: the waiter may be gone.
    pub(in crate::park) word: *const AtomicU32,
    /// False for a kernel thread that had not entered the kernel.
    pub(in crate::park) wake: bool,
}

impl Grant {
    /// Wakes the thread. Called with no queue lock held.
    #[inline]
    pub(crate) fn wake(self) {
        if self.wake {
            self.backend.wake(self.thread, self.word);
        }
    }

    /// The same, for one of several: the caller has just woken another.
    #[inline]
    fn wake_behind(self) {
        if self.wake {
            self.backend.wake_behind(self.thread, self.word);
        }
    }
}

/// Threads that were taken off their queue together and not settled yet.
#[must_use = "the threads sleep until they are woken"]
pub(crate) struct Grants {
    /// A list by `Links::next` that ends in null.
    pub(in crate::park) first: *const Waiter,
    pub(in crate::park) token: Token,
}

impl Grants {
    /// Settles and wakes all, in queue order, and says how many. Called with no queue lock held.
    ///
    /// A deadline that strikes meanwhile finds its waiter unlinked, and leaves it to us.
    pub(crate) fn wake_all(self) -> usize {
        let mut count = 0;
        let mut next = self.first;
        while !next.is_null() {
            let waiter = next;
            // SAFETY: unlinked by us and not settled, so its thread cannot have left.
            next = unsafe { &*waiter }.peek(|links| links.next);
            // SAFETY: unlinked by `grant_all` with the lock held; settled once, here.
            let grant = unsafe { settle(waiter, self.token) };
            if count == 0 {
                grant.wake();
            } else {
                grant.wake_behind();
            }
            count += 1;
        }
        count
    }
}
