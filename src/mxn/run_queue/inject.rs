//! Shared queues. They hold threads made runnable where there is no ring, and those that overflow from rings.
//! They also hold those that are more or less urgent than others (`priority`).
//!
//! A queue is a list through the threads themselves, so it never allocates (I4). It is under a queue lock,
//! and its length can be read without it. It is linked both ways, and each thread knows which queue it is in.
//! So a thread that gets another priority is taken out of the middle, however long the queue is.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicUsize, Ordering};

/// A node that can be in one shared queue at a time.
///
/// # Safety
/// While the node is queued, `links` must give the same place, and no other code may use its cells.
pub(crate) unsafe trait Linked: Sized {
    /// Returns where the queue keeps the node's neighbours.
    fn links(&self) -> &Links<Self>;
}

/// A node's links in a list.
#[derive(Debug)]
pub(crate) struct Links<T> {
    pub(crate) next: Cell<Option<NonNull<T>>>,
    prev: Cell<Option<NonNull<T>>>,
    /// The address of the queue that it is in; 0: it is in none. Written under that queue's lock. So if the
    /// holder of a queue's lock finds that queue's address here, the node is in it.
    queue: AtomicUsize,
}

impl<T> Links<T> {
    pub(crate) fn new() -> Self {
        Self { next: Cell::new(None), prev: Cell::new(None), queue: AtomicUsize::new(0) }
    }

    /// Returns `true` if it is in a shared queue, at this moment.
    pub(crate) fn is_queued(&self) -> bool {
        // Relaxed: for looks from outside, which decide nothing.
        self.queue.load(Ordering::Relaxed) != 0
    }
}

/// A FIFO of threads that any thread may push to and take from.
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

// SAFETY: what the pointers lead to is in the queue, so nothing else owns it. It is only touched under the
// lock.
unsafe impl<T: Linked> Send for List<T> {}

impl<T: Linked> Inject<T> {
    pub(crate) fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            list: QueueLock::new(Rank::Scheduler, List { first: None, last: None }),
        }
    }

    /// Returns how many wait; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn set_len(&self, len: usize) {
        // Relaxed: a hint. Code that needs the true value takes the lock, or goes by the fences of `idle`.
        self.len.store(len, Ordering::Relaxed);
    }

    /// Returns what `Links::queue` says of the nodes in this queue.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Appends an item. The caller owned `item`; the queue does now.
    pub(crate) fn push(&self, item: NonNull<T>) {
        let pushed = self.push_if(item, || true);
        debug_assert!(pushed);
    }

    /// Appends an item if `fits`, called with the lock held, says that it belongs here. Otherwise the caller
    /// still owns it.
    pub(crate) fn push_if(&self, item: NonNull<T>, fits: impl FnOnce() -> bool) -> bool {
        self.list.with(|list| {
            let fits = fits();
            if fits {
                list.append(item, self.address());
                self.set_len(self.len() + 1);
            }
            fits
        })
    }

    /// Takes the oldest, and hands up to `more` others to `rest`. That runs with the lock held, so it must
    /// not come back here.
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
            self.set_len(self.len() - taken);
            Some(first)
        })
    }

    /// Takes the oldest. If it was the last, calls `emptied` with the lock held.
    pub(crate) fn take(&self, emptied: impl FnOnce()) -> Option<NonNull<T>> {
        if self.len() == 0 {
            return None;
        }
        self.list.with(|list| {
            let item = list.pop()?;
            self.set_len(self.len() - 1);
            if list.first.is_none() {
                emptied();
            }
            Some(item)
        })
    }

    /// Takes, of the `most` oldest items, the one with the least `key` (the older one of equals), if that key
    /// is less than `below`. Calls `left`, with the lock held, with the least key of the items that are
    /// candidates then. If there are none, that is `u64::MAX`.
    pub(crate) fn take_least(
        &self,
        most: usize,
        below: u64,
        key: impl Fn(NonNull<T>) -> u64,
        left: impl FnOnce(u64),
    ) -> Option<NonNull<T>> {
        self.list.with(|list| {
            let mut least: Option<(u64, NonNull<T>)> = None;
            let mut rest = u64::MAX;
            let mut at = list.first;
            // One more than `most`: it becomes a candidate when another is taken.
            for position in 0..=most {
                let Some(item) = at else { break };
                let this = key(item);
                match least {
                    _ if position == most => rest = rest.min(this),
                    Some((other, _)) if other <= this => rest = rest.min(this),
                    _ => {
                        rest = rest.min(least.map_or(u64::MAX, |(other, _)| other));
                        least = Some((this, item));
                    }
                }
                at = List::links(item).next.get();
            }
            let least = least.filter(|&(key, _)| {
                let taken = key < below || below == u64::MAX;
                left(if taken { rest } else { rest.min(key) });
                taken
            });
            let (_, item) = least?;
            list.unlink(item);
            self.set_len(self.len() - 1);
            Some(item)
        })
    }

    /// Takes `item` out, if it is in this queue. `emptied` is as for [`take`](Self::take). The caller need
    /// not own it.
    #[must_use]
    pub(crate) fn remove(&self, item: NonNull<T>, emptied: impl FnOnce()) -> bool {
        self.list.with(|list| {
            // SAFETY: nodes are type-stable. If this one belongs to another owner, only an atomic is looked
            // at. Relaxed: see `Links::queue`.
            let here = unsafe { item.as_ref() }.links().queue.load(Ordering::Relaxed) == self.address();
            if here {
                list.unlink(item);
                self.set_len(self.len() - 1);
                if list.first.is_none() {
                    emptied();
                }
            }
            here
        })
    }
}

impl<T: Linked> List<T> {
    /// Returns the links of a node that is in this list, or is about to be.
    fn links<'a>(item: NonNull<T>) -> &'a Links<T> {
        // SAFETY: what is linked is alive, and its links are guarded by the lock that the callers hold.
        unsafe { item.as_ref() }.links()
    }

    fn append(&mut self, item: NonNull<T>, queue: usize) {
        let links = Self::links(item);
        debug_assert_eq!(links.queue.load(Ordering::Relaxed), 0, "in two queues");
        links.queue.store(queue, Ordering::Relaxed);
        links.next.set(None);
        links.prev.set(self.last);
        match self.last.replace(item) {
            Some(last) => Self::links(last).next.set(Some(item)),
            None => self.first = Some(item),
        }
    }

    fn pop(&mut self) -> Option<NonNull<T>> {
        let item = self.first?;
        self.unlink(item);
        Some(item)
    }

    fn unlink(&mut self, item: NonNull<T>) {
        let links = Self::links(item);
        let (next, prev) = (links.next.take(), links.prev.take());
        match prev {
            Some(prev) => Self::links(prev).next.set(next),
            None => self.first = next,
        }
        match next {
            Some(next) => Self::links(next).prev.set(prev),
            None => self.last = prev,
        }
        links.queue.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node(Links<Node>);

    // SAFETY: a field of the node.
    unsafe impl Linked for Node {
        fn links(&self) -> &Links<Self> {
            &self.0
        }
    }

    #[test]
    fn nodes_leave_from_anywhere_in_the_order_they_came() {
        let nodes: Vec<Node> = (0..5).map(|_| Node(Links::new())).collect();
        let ptr = |n: usize| NonNull::from(&nodes[n]);
        let (queue, other) = (Inject::new(), Inject::new());
        for without in 0..5 {
            (0..5).for_each(|n| queue.push(ptr(n)));
            assert!(!other.remove(ptr(without), || panic!("never full")));
            assert!(queue.remove(ptr(without), || panic!("four are left")));
            assert!(!queue.remove(ptr(without), || panic!("four are left")));
            let mut emptied = 0;
            let left: Vec<_> = std::iter::from_fn(|| queue.take(|| emptied += 1)).collect();
            let all_others: Vec<_> = (0..5).filter(|&n| n != without).map(ptr).collect();
            assert_eq!((left, emptied, queue.len()), (all_others, 1, 0));
        }
        queue.push(ptr(0));
        let mut emptied = false;
        assert!(queue.remove(ptr(0), || emptied = true) && emptied);
        assert!(!queue.push_if(ptr(0), || false) && queue.pop(3, |_| ()).is_none());
    }

    #[test]
    fn the_least_of_the_oldest_is_taken() {
        let keys = [5, 3, 9, 3, 1];
        let nodes = keys.map(|_| Node(Links::new()));
        let queue = Inject::new();
        nodes.iter().for_each(|node| queue.push(NonNull::from(node)));
        let number = |taken: NonNull<Node>| {
            nodes.iter().position(|node| NonNull::from(node) == taken).expect("one of ours")
        };
        let left = Cell::new(0);
        let take_below = |most, below| {
            queue.take_least(most, below, |node| keys[number(node)], |key| left.set(key)).map(number)
        };
        let take = |most| take_below(most, u64::MAX);
        assert_eq!((take_below(3, 3), left.get()), (None, 3), "none of the three oldest is less");
        assert_eq!((take_below(3, 4), left.get()), (Some(1), 3), "of the three oldest; the fourth moves up");
        assert_eq!((take(3), left.get()), (Some(3), 1));
        assert_eq!(take(1), Some(0), "the oldest");
        assert_eq!(take(9), Some(4));
        assert_eq!((take(9), queue.len(), left.get()), (Some(2), 0, u64::MAX));
        assert_eq!(take(9), None);
    }
}

#[cfg(test)]
mod random_tests;
