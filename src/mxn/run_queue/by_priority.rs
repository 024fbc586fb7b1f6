//! A queue for each priority, taken from the highest down, for threads that may run on one LWP only
//! (`Pinned`).
//!
//! Only that LWP takes from it, so turns can be counted here. (All LWPs together need a clock: `priority`.)
//! Of [`TURNS`] threads that are taken while lower ones wait, one is a lower one. The lowest has every other
//! of these turns.

use std::cell::Cell;
use std::ptr::NonNull;

use super::inject::{Inject, Linked};
use crate::park::priority::Priority;

/// Of this many threads taken, one is of a lower priority, if such a thread waits.
pub(super) const TURNS: u32 = 64;

/// Queues by priority, with one taker.
#[derive(Debug)]
pub(crate) struct ByPriority<T: Linked> {
    /// From the highest down.
    queues: [Inject<T>; 3],
    /// How many threads were taken while lower ones waited. The taker's.
    turns: Cell<u32>,
}

impl<T: Linked> ByPriority<T> {
    pub(crate) fn new() -> Self {
        Self { queues: std::array::from_fn(|_| Inject::new()), turns: Cell::new(0) }
    }

    /// Returns how many wait, of any priority; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(Inject::len).sum()
    }

    /// Appends a thread, which the caller owns, to those of the priority that `of` returns.
    pub(crate) fn push(&self, item: NonNull<T>, of: impl Fn() -> Priority) {
        // Read again under the lock: code that changes it looks for the thread in all queues afterwards
        // (`priority`).
        while !{
            let level = of();
            self.queue(level).push_if(item, || of() == level)
        } {}
    }

    fn queue(&self, level: Priority) -> &Inject<T> {
        &self.queues[Self::index(level)]
    }

    fn index(level: Priority) -> usize {
        match level {
            Priority::High => 0,
            Priority::Normal => 1,
            Priority::Low => 2,
        }
    }

    /// Returns `true` if threads of high priority wait.
    #[inline]
    pub(crate) fn has_high(&self) -> bool {
        self.queue(Priority::High).len() > 0
    }

    /// Takes the next thread of at least this priority, or a lower one that is due. Called by the one LWP of
    /// these queues.
    #[inline]
    pub(crate) fn pop(&self, least: Priority) -> Option<NonNull<T>> {
        // As a rule, none waits here.
        if self.queues.iter().all(|queue| queue.len() == 0) { None } else { self.pop_waiting(least) }
    }

    fn pop_waiting(&self, least: Priority) -> Option<NonNull<T>> {
        let take = |queue: &Inject<T>| queue.take(|| ());
        let lower = |queue: &Inject<T>| queue.len() > 0;
        let (first, rest) = self.queues.split_at(self.queues.iter().position(lower)? + 1);
        if first.len() > Self::index(least) + 1 {
            return None;
        }
        if rest.iter().any(lower) {
            let turns = self.turns.get().wrapping_add(1);
            self.turns.set(turns);
            if turns.is_multiple_of(TURNS) {
                let lowest_first = (turns / TURNS).is_multiple_of(2);
                let lower =
                    if lowest_first { rest.iter().rev().find_map(take) } else { rest.iter().find_map(take) };
                if lower.is_some() {
                    return lower;
                }
            }
        }
        first.last().and_then(take)
    }

    /// Takes `item` out, if it waits here. The caller then owns it.
    #[must_use]
    pub(crate) fn remove(&self, item: NonNull<T>) -> bool {
        self.queues.iter().any(|queue| queue.remove(item, || ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::run_queue::inject::Links;

    struct Node(Priority, Links<Node>);

    // SAFETY: a field of the node.
    unsafe impl Linked for Node {
        fn links(&self) -> &Links<Self> {
            &self.1
        }
    }

    #[test]
    fn the_highest_goes_first_and_the_lowest_now_and_then() {
        let node = |level| &*Box::leak(Box::new(Node(level, Links::new())));
        let (high, normal, low) = (node(Priority::High), node(Priority::Normal), node(Priority::Low));
        let queues = ByPriority::new();
        let push = |node: &Node| queues.push(NonNull::from(node), || node.0);
        for node in [low, normal, high] {
            push(node);
        }
        assert_eq!(queues.len(), 3);
        let mut taken = [0; 3];
        for _ in 0..TURNS * 4 {
            // SAFETY: leaked.
            let next = unsafe { queues.pop(Priority::Normal).unwrap().as_ref() };
            taken[[Priority::Low, Priority::Normal, Priority::High]
                .iter()
                .position(|&l| l == next.0)
                .unwrap()] += 1;
            push(next);
        }
        assert_eq!(taken, [2, 2, TURNS * 4 - 4]);
        assert!(queues.remove(NonNull::from(normal)) && !queues.remove(NonNull::from(normal)));
        assert_eq!(queues.pop(Priority::Normal), Some(NonNull::from(high)));
        assert_eq!(queues.pop(Priority::Normal), None);
        assert_eq!(queues.pop(Priority::Low), Some(NonNull::from(low)));
        assert_eq!(queues.pop(Priority::Low), None);
    }
}
