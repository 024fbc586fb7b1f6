//! The queues in which runnable threads wait. No policy is in them: `sched` says which queue is used when.
//!
//! Each LWP has a [`RunQueue`]: a next-slot and a ring. Other LWPs may take from both. What no LWP owns waits
//! in shared queues ([`inject`]). Threads of `Pinned` wait for their own LWP, in queues by priority
//! ([`by_priority`]).

pub(crate) mod by_priority;
pub(crate) mod inject;
pub(crate) mod local_queue;
pub(crate) mod next_slot;

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::local_queue::{CAPACITY, LocalQueue};
use self::next_slot::NextSlot;

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
