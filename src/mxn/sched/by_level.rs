//! A queue for each priority, taken from the highest down: what threads wait in that may run on one LWP only (rung 3).
//!
//! One LWP takes from it, so that turns can be counted where all LWPs together need a clock (`levels`): of [`TURNS`] threads that
//! are taken while lower ones wait, one is a lower one, and the lowest has every other of these.

use std::cell::Cell;
use std::ptr::NonNull;

use super::inject::{Inject, Linked};
use crate::park::priority::Priority;

/// Of this many threads taken, one is of a lower priority, if such a one waits.
pub(super) const TURNS: u32 = 64;

/// Queues by priority, with one taker.
#[derive(Debug)]
pub(crate) struct ByLevel<T: Linked> {
    /// From the highest down.
    queues: [Inject<T>; 3],
    /// Threads taken while lower ones waited. The taker's.
    turns: Cell<u32>,
}

impl<T: Linked> ByLevel<T> {
    pub(crate) fn new() -> Self {
        Self { queues: std::array::from_fn(|_| Inject::new()), turns: Cell::new(0) }
    }

    /// How many wait, of whatever priority; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(Inject::len).sum()
    }

    /// Appends one, which the caller owns, to those of the priority that `of` tells.
    pub(crate) fn push(&self, item: NonNull<T>, of: impl Fn() -> Priority) {
        // Asked again under the lock: whoever changes it looks for the thread in all queues afterwards (`levels`).
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

    /// Whether threads of high priority wait.
    #[inline]
    pub(crate) fn has_high(&self) -> bool {
        self.queue(Priority::High).len() > 0
    }

    /// Takes the next of at least this priority, or a lower one whose turn it is. By the one LWP that the queues are of.
    pub(crate) fn pop(&self, least: Priority) -> Option<NonNull<T>> {
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

    /// Takes `item` out, if it waits here; the caller owns it then.
    #[must_use]
    pub(crate) fn remove(&self, item: NonNull<T>) -> bool {
        self.queues.iter().any(|queue| queue.remove(item, || ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::sched::inject::Links;

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
        let queues = ByLevel::new();
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
