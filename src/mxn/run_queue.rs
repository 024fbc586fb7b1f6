//! The queues in which runnable threads wait. No policy is in them: `sched` says which queue is used when.
//!
//! Each LWP has a [`RunQueue`]: a next-slot and a ring. Other LWPs may take from both. What no LWP owns waits
//! in shared queues ([`inject`]). Threads of `Pinned` wait for their own LWP, in queues by priority
//! ([`by_priority`]).

pub(crate) mod by_priority;
pub(crate) mod inject;
pub(crate) mod local_queue;

use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use self::local_queue::{CAPACITY, LocalQueue};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::store_among_swaps;

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
