//! An LWP's own run queue: a fixed ring. Its owner pushes and pops, and others steal half of it.
//!
//! The shape is that of the Go runtime's. There are two free-running 32-bit counters, and their low bits are
//! the ring index. The owner alone moves `tail`. `head` is claimed by compare-and-swap: by the owner for one
//! thread, by a thief for half of them.
//!
//! *Rejected*: a Chase-Lev deque (it is LIFO for its owner, which starves threads, and its steal takes one at
//! a time); a lock (a thief that is preempted while it holds it stops the owner).
//!
//! Protocol and proof:
//!
//! 1. A cell belongs to the owner unless its index lies in `head..tail`. Only the owner writes cells, and
//!    only those outside that range, because `push` looks at `head` first. `head` only grows, so a free cell
//!    stays free.
//! 2. `push` writes the cell and then publishes it by storing `tail` (release). A thief reads `tail`
//!    (acquire) first.
//! 3. A claim is the CAS on `head`. A thief copies the cells before it. If the owner wrapped round and
//!    overwrote one meanwhile, `head` had moved, so the CAS fails. (To deceive it, the counters would have to
//!    wrap 2^32 meanwhile.)
//!
//! Cost: no read-modify-write for `push`, one for `pop`, one for `steal_into`.

use std::ptr::NonNull;

use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many threads a ring can hold. The rest overflows into the shared queues. A power of two, smaller under
/// the model.
pub(crate) const CAPACITY: u32 = crate::shim::LOCAL_QUEUE_CAPACITY;

/// A ring of pointers to `T`. Its owner alone may push and pop.
#[derive(Debug)]
pub(crate) struct LocalQueue<T> {
    /// Next to be taken; claimed by CAS.
    head: AtomicU32,
    /// Next to be written; stored by the owner alone.
    tail: AtomicU32,
    cells: [AtomicPtr<T>; CAPACITY as usize],
}

/// What a thief saw of a ring: which threads had been in it, for stealing by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    head: u32,
    tail: u32,
}

impl<T> LocalQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            cells: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    fn cell(&self, index: u32) -> &AtomicPtr<T> {
        &self.cells[(index & (CAPACITY - 1)) as usize]
    }

    /// Appends a thread. If the ring is full, gives it back in `Err`. Owner only.
    #[inline]
    pub(crate) fn push(&self, item: NonNull<T>) -> Result<(), NonNull<T>> {
        // Acquire: pairs with the claims, so a thief's reads of a cell come before the next write to it.
        let head = self.head.load(Ordering::Acquire);
        // Relaxed: the owner's own store.
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= CAPACITY {
            return Err(item);
        }
        // Relaxed: published by the store of `tail`.
        self.cell(tail).store(item.as_ptr(), Ordering::Relaxed);
        // Release: pairs with the acquire of `tail` in `steal_into` and `look`.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        // Relaxed: `tail` is the owner's own store. Whatever `head` is, the CAS below decides.
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            let item = self.cell(head).load(Ordering::Relaxed);
            // Release: pairs with the acquire in `push`. Acquire: a thief that moved `head` gave its threads
            // away.
            match self.head.compare_exchange_weak(
                head,
                head.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return NonNull::new(item),
                Err(now) => head = now,
            }
        }
        None
    }

    /// Returns the thread that would be popped now, at this moment. Owner only.
    #[inline]
    pub(crate) fn first(&self) -> Option<NonNull<T>> {
        // Relaxed, all: the owner's own stores, and thieves' claims, which decide when it is popped.
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Relaxed) {
            return None;
        }
        NonNull::new(self.cell(head).load(Ordering::Relaxed))
    }

    /// Takes the oldest. Any thread may call it.
    pub(crate) fn claim(&self) -> Option<NonNull<T>> {
        // Acquire, here and on failure: the tail that is loaded next is not older. An older one would differ
        // from the head, too.
        let mut head = self.head.load(Ordering::Acquire);
        // Acquire: pairs with the release of `push`.
        while head != self.tail.load(Ordering::Acquire) {
            let item = self.cell(head).load(Ordering::Relaxed);
            // AcqRel: as in `steal_into`.
            match self.head.compare_exchange(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return NonNull::new(item),
                Err(now) => head = now,
            }
        }
        None
    }

    /// Returns `true` if `item` waits here, at this moment.
    pub(crate) fn contains(&self, item: NonNull<T>) -> bool {
        self.items().any(|other| other == item)
    }

    /// Returns the threads that wait here, each at a moment of its own. Any of them may be taken meanwhile.
    pub(crate) fn items(&self) -> impl Iterator<Item = NonNull<T>> {
        let Seen { head, tail } = self.look();
        let waits = tail.wrapping_sub(head).min(CAPACITY);
        // Relaxed: they are only compared.
        (0..waits).filter_map(move |i| NonNull::new(self.cell(head.wrapping_add(i)).load(Ordering::Relaxed)))
    }

    /// Moves the older half of `self` (at least one) into the empty ring `into`, except one, which it returns
    /// to run. `into` belongs to the caller.
    pub(crate) fn steal_into(&self, into: &Self) -> Option<NonNull<T>> {
        debug_assert!(into.is_empty(), "a thief steals when it has nothing");
        // Acquire, here and below: the tail that is loaded next is not older, so this ends. With relaxed
        // looks, the models repeat it without end.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            // Acquire: pairs with the release of `push`.
            let have = self.tail.load(Ordering::Acquire).wrapping_sub(head);
            if have == 0 {
                return None;
            }
            if have > CAPACITY {
                // `head` is so old that the two do not belong together.
                head = self.head.load(Ordering::Acquire);
                continue;
            }
            let take = have - have / 2;
            // The first goes to run. The rest goes into `into`, which is empty, so there is room.
            let first = self.cell(head).load(Ordering::Relaxed);
            let base = into.tail.load(Ordering::Relaxed);
            for i in 1..take {
                let item = self.cell(head.wrapping_add(i)).load(Ordering::Relaxed);
                into.cell(base.wrapping_add(i - 1)).store(item, Ordering::Relaxed);
            }
            // AcqRel: acquire for the threads' own state, which their pusher wrote before. Release as in
            // `pop`.
            match self.head.compare_exchange(
                head,
                head.wrapping_add(take),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    // Release: pairs with other thieves' acquire.
                    into.tail.store(base.wrapping_add(take - 1), Ordering::Release);
                    return NonNull::new(first);
                }
                Err(now) => head = now,
            }
        }
    }

    /// Returns `true` if the ring holds nothing, at this moment.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Acquire)
    }

    /// Returns how many threads wait, at this moment.
    pub(crate) fn len(&self) -> usize {
        // Acquire: before the other end. If the tail were the older one, an empty ring would seem full.
        let head = self.head.load(Ordering::Acquire);
        self.tail.load(Ordering::Acquire).wrapping_sub(head).min(CAPACITY) as usize
    }

    /// Returns what waits now, to be compared later.
    pub(crate) fn look(&self) -> Seen {
        let head = self.head.load(Ordering::Relaxed);
        Seen { head, tail: self.tail.load(Ordering::Acquire) }
    }

    /// Returns `true` if any thread that was `seen` waiting still waits.
    pub(crate) fn still_waits(&self, seen: Seen) -> bool {
        let taken = self.head.load(Ordering::Relaxed).wrapping_sub(seen.head);
        taken < seen.tail.wrapping_sub(seen.head)
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_local_queue;
