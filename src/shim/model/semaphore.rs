//! The semaphore's protocol: a number, and a queue of the threads that want a part of it.

use std::cell::Cell;
use std::collections::VecDeque;

use super::{Monitor, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// The same as the semaphore's own.
const MAX: usize = u32::MAX as usize;

/// What a semaphore is made of in a model.
pub(crate) struct Protocol(Monitor<Count>);

#[derive(Clone)]
struct Count {
    permits: usize,
    /// The waiters, by number, in the order in which they came.
    queue: VecDeque<usize>,
    arrivals: usize,
}

impl Count {
    /// Takes `n` permits, if there are enough and no thread is before the one with the number `me`.
    fn take(&mut self, n: usize, me: Option<usize>) -> bool {
        let enough = n == 0 || self.queue.front().copied() == me && self.permits >= n;
        if enough {
            self.permits -= n;
            self.queue.retain(|&other| Some(other) != me);
        }
        enough
    }

    /// Adds a waiter to the queue.
    fn join(&mut self) -> usize {
        self.arrivals += 1;
        self.queue.push_back(self.arrivals);
        self.arrivals
    }
}

impl Protocol {
    pub(crate) const fn new(permits: usize) -> Self {
        Self(Monitor::new(Count { permits, queue: VecDeque::new(), arrivals: 0 }))
    }

    pub(crate) fn permits(&self) -> usize {
        self.0.with(|count| count.permits)
    }

    pub(crate) fn try_give(&self, n: usize) -> bool {
        self.0.change(|count| {
            let has_room = n <= MAX - count.permits;
            count.permits += if has_room { n } else { 0 };
            has_room
        })
    }

    pub(crate) fn give_back(&self, n: usize) {
        also_unwinding(|| {
            assert!(self.try_give(n), "{n} permits more are more than a semaphore can have");
        });
    }

    pub(crate) fn try_take(&self, n: usize) -> bool {
        self.0.with(|count| count.take(n, None))
    }

    pub(crate) fn take(&self, n: usize, wait: Wait) -> Result<(), WaitError> {
        assert!(n <= MAX, "asked for more permits than a semaphore can have");
        // Its number, once it has found too few.
        let me = Cell::new(None);
        let attempt = |count: &mut Count| {
            let taken = count.take(n, me.get());
            if !taken && me.get().is_none() {
                me.set(Some(count.join()));
            }
            taken.then_some(())
        };
        let outcome =
            self.0.wait(wait, attempt, |count| count.queue.retain(|&other| Some(other) != me.get()));
        if me.get().is_some() {
            // There may be enough for the next.
            self.0.change(|_| ());
        }
        outcome
    }
}
