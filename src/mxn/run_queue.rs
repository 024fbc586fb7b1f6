//! The queues in which runnable threads wait. No policy is in them: `sched` says which queue is used when.
//!
//! Each LWP has a [`RunQueue`]: a next-slot and a ring. Other LWPs may take from both. What no LWP owns waits
//! in shared queues ([`inject`]). Threads of `Pinned` wait for their own LWP, in queues by priority
//! ([`by_priority`]).

pub(crate) mod by_priority;
pub(crate) mod inject;

use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::shim::store_among_swaps;

/// How many threads a ring can hold. The rest overflows into the shared queues. A power of two, smaller under
/// the model.
pub(crate) const CAPACITY: u32 = crate::shim::LOCAL_QUEUE_CAPACITY;

/// The queues of one LWP, its owner, that other LWPs may take from.
#[derive(Debug)]
pub(crate) struct RunQueue<T> {
    pub(crate) next: CachePadded<NextSlot<T>>,
    pub(crate) ring: CachePadded<LocalQueue<T>>,
}

impl<T> RunQueue<T> {
    pub(crate) fn new() -> Self {
        Self { next: CachePadded::new(NextSlot::new()), ring: CachePadded::new(LocalQueue::new()) }
    }

    /// Takes the thread to run next: that in the next-slot, or the oldest in the ring. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        self.next.take().or_else(|| self.ring.pop())
    }

    /// Returns the thread that would be popped now, at this moment. Owner only.
    #[inline]
    pub(crate) fn first(&self) -> Option<NonNull<T>> {
        self.next.look().or_else(|| self.ring.first())
    }

    /// Takes the thread to run next. Any thread may call it.
    pub(crate) fn claim(&self) -> Option<NonNull<T>> {
        self.next.take().or_else(|| self.ring.claim())
    }

    /// Claims `thread` if it waits here. Those before it are claimed, too, and passed to `before`. Returns
    /// `true` if it was here. Any thread may call it.
    pub(crate) fn remove(&self, thread: NonNull<T>, mut before: impl FnMut(NonNull<T>)) -> bool {
        if self.next.take_if(thread) {
            return true;
        }
        if self.ring.contains(thread) {
            for _ in 0..CAPACITY {
                match self.ring.claim() {
                    Some(oldest) if oldest == thread => return true,
                    Some(oldest) => before(oldest),
                    None => return false,
                }
            }
        }
        false
    }

    /// Returns `true` if no thread waits here, at this moment.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.ring.is_empty()
    }

    /// Returns how many threads wait here, at this moment.
    pub(crate) fn len(&self) -> usize {
        self.ring.len() + usize::from(!self.next.is_empty())
    }
}

/// The next-slot: the one thread that an LWP runs next, and the thread that put it there.
///
/// Only the LWP that owns the slot fills it. Every LWP may empty it (I6). So an empty slot stays empty until
/// its owner fills it, and the owner may fill it with a plain store. A full one can be emptied at any moment,
/// so its owner swaps.
///
/// Each way to fill it releases, and each way to empty it acquires. The LWP that takes a thread sees all that
/// was done to the thread before.
#[derive(Debug)]
pub(crate) struct NextSlot<T> {
    thread: AtomicPtr<T>,
    /// The thread that filled the slot last. A thief that finds the slot stale learns from it which waker
    /// computed on.
    filled_by: AtomicPtr<T>,
}

impl<T> NextSlot<T> {
    pub(crate) fn new() -> Self {
        Self { thread: AtomicPtr::default(), filled_by: AtomicPtr::default() }
    }

    /// Returns the thread in the slot, at this moment. Any LWP may take it meanwhile.
    #[inline]
    pub(crate) fn look(&self) -> Option<NonNull<T>> {
        // Relaxed: it decides nothing.
        NonNull::new(self.thread.load(Ordering::Relaxed))
    }

    /// Returns `true` if the slot holds no thread, at this moment. Its owner may rely on it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.look().is_none()
    }

    /// Fills the empty slot. Owner only.
    #[inline]
    pub(crate) fn fill(&self, thread: NonNull<T>) {
        // Release: pairs with the acquire of `take` and `take_if`.
        store_among_swaps!(self.thread, thread.as_ptr(), Ordering::Release);
    }

    /// Fills the slot. Returns the thread that was in it, unless a thief was faster. Owner only.
    #[inline]
    pub(crate) fn replace(&self, thread: NonNull<T>) -> Option<NonNull<T>> {
        // Release: as in `fill`. Acquire: the thread that is pushed out is the caller's to queue.
        NonNull::new(self.thread.swap(thread.as_ptr(), Ordering::AcqRel))
    }

    /// Empties the slot: one read-modify-write if there is a thread in it. Any LWP may call it.
    #[inline]
    pub(crate) fn take(&self) -> Option<NonNull<T>> {
        // The look only saves the swap, which decides.
        if self.is_empty() {
            return None;
        }
        // Acquire: pairs with the release of `fill` and `replace`.
        NonNull::new(self.thread.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Empties the slot if `thread` is in it. Returns `true` if it was. Any LWP may call it.
    pub(crate) fn take_if(&self, thread: NonNull<T>) -> bool {
        // Acquire: as in `take`.
        let take = |thread| {
            self.thread.compare_exchange(thread, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed)
        };
        self.look() == Some(thread) && take(thread.as_ptr()).is_ok()
    }

    /// Notes the thread that is about to fill the slot; `None` if no waker is to blame. Owner only.
    #[inline]
    pub(crate) fn blame(&self, waker: Option<NonNull<T>>) {
        // Relaxed: thieves read it as a hint.
        self.filled_by.store(waker.map_or(ptr::null_mut(), NonNull::as_ptr), Ordering::Relaxed);
    }

    /// Returns the thread that filled the slot last, at this moment.
    pub(crate) fn filled_by(&self) -> Option<NonNull<T>> {
        // Relaxed: as in `blame`.
        NonNull::new(self.filled_by.load(Ordering::Relaxed))
    }
}

/// A fixed ring of threads. Its owner alone may push and pop, and others steal half of it.
///
/// The shape is that of the Go runtime's. There are two free-running 32-bit counters, and their low bits are
/// the ring index. The owner alone moves `tail`. `head` is claimed by compare-and-swap: by the owner for one
/// thread, by a thief for half of them.
///
/// *Rejected*: a Chase-Lev deque (it is LIFO for its owner, which starves threads, and its steal takes one at
/// a time); a lock (a thief that is preempted while it holds it stops the owner).
///
/// Protocol and proof:
///
/// 1. A cell belongs to the owner unless its index lies in `head..tail`. Only the owner writes cells, and
///    only those outside that range, because `push` looks at `head` first. `head` only grows, so a free cell
///    stays free.
/// 2. `push` writes the cell and then publishes it by storing `tail` (release). A thief reads `tail`
///    (acquire) first.
/// 3. A claim is the CAS on `head`. A thief copies the cells before it. If the owner wrapped round and
///    overwrote one meanwhile, `head` had moved, so the CAS fails. (To deceive it, the counters would have to
///    wrap 2^32 meanwhile.)
///
/// Cost: no read-modify-write for `push`, one for `pop`, one for `steal_into`.
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
            cells: std::array::from_fn(|_| AtomicPtr::default()),
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
