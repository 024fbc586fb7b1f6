//! The injection queue: threads made runnable by somebody who has no ring, and what overflows from rings.
//!
//! A linked list through the threads themselves (so it never allocates, I4) under a queue lock, with a length that can
//! be read without it. One for each runtime; where threads are pinned to LWPs (rung 3), also one for each LWP.

use std::ptr::NonNull;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicUsize, Ordering};

/// A node that can be in one injection queue at a time.
///
/// # Safety
/// `link` must give the same place for as long as the node is queued, and nobody else may use that place meanwhile.
pub(crate) unsafe trait Linked {
    /// Where the queue keeps the node's successor.
    fn link(&self) -> &std::cell::Cell<Option<NonNull<Self>>>;
}

/// A FIFO of threads that anybody may push to and take from.
#[derive(Debug)]
pub(crate) struct Inject<T: Linked> {
    /// Written with the lock held; read without it, as a hint.
    len: AtomicUsize,
    list: QueueLock<List<T>>,
}

#[derive(Debug)]
struct List<T> {
    first: Option<NonNull<T>>,
    last: Option<NonNull<T>>,
}

// SAFETY: what the pointers lead to is in the queue, and so nobody else's; it is only touched under the lock.
unsafe impl<T: Linked> Send for List<T> {}

impl<T: Linked> Inject<T> {
    pub(crate) fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            list: QueueLock::new(Rank::Scheduler, List { first: None, last: None }),
        }
    }

    /// How many wait; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Appends one. The caller owned `item`; the queue does now.
    pub(crate) fn push(&self, item: NonNull<T>) {
        // SAFETY: the item is ours and in no queue, so its link is free.
        unsafe { item.as_ref() }.link().set(None);
        self.list.with(|list| {
            match list.last.replace(item) {
                // SAFETY: what is linked is alive, and its link is guarded by the lock we hold.
                Some(last) => unsafe { last.as_ref() }.link().set(Some(item)),
                None => list.first = Some(item),
            }
            // Relaxed: a hint; whoever needs the truth takes the lock, or goes by the fences of `idle`.
            self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
    }

    /// Takes the oldest, and hands up to `more` others to `rest` (with the lock held: `rest` must not come back here).
    pub(crate) fn pop(&self, more: usize, mut rest: impl FnMut(NonNull<T>)) -> Option<NonNull<T>> {
        if self.len() == 0 {
            return None;
        }
        self.list.with(|list| {
            let first = list.pop()?;
            let mut taken = 1;
            while taken <= more {
                let Some(item) = list.pop() else { break };
                rest(item);
                taken += 1;
            }
            self.len.store(self.len.load(Ordering::Relaxed) - taken, Ordering::Relaxed);
            Some(first)
        })
    }
}

impl<T: Linked> List<T> {
    fn pop(&mut self) -> Option<NonNull<T>> {
        let item = self.first?;
        // SAFETY: as in `push`.
        self.first = unsafe { item.as_ref() }.link().take();
        if self.first.is_none() {
            self.last = None;
        }
        Some(item)
    }
}
