//! The condition variable: a queue. The first to wait is the first to be notified, and no wake-up is
//! spurious.

use std::collections::VecDeque;

use super::Monitor;
use super::mutex::RawMutex;
use crate::park::wait::{Wait, WaitError};

/// What a condition variable is made of in a model.
pub(crate) struct Protocol(Monitor<Queue>);

#[derive(Clone)]
struct Queue {
    /// The waiters, by number, in the order in which they came.
    waiters: VecDeque<usize>,
    arrivals: usize,
    /// The mutex of the waiters.
    mutex: usize,
}

impl Queue {
    /// Adds a waiter. Returns its number; `None`: the others wait with another mutex.
    fn join(&mut self, mutex: usize) -> Option<usize> {
        if !self.waiters.is_empty() && self.mutex != mutex {
            return None;
        }
        self.mutex = mutex;
        self.arrivals += 1;
        self.waiters.push_back(self.arrivals);
        Some(self.arrivals)
    }
}

impl Protocol {
    pub(crate) const fn new() -> Self {
        Self(Monitor::new(Queue { waiters: VecDeque::new(), arrivals: 0, mutex: 0 }))
    }

    fn notify(&self, count: usize) -> usize {
        self.0.change(|queue| queue.waiters.drain(..count.min(queue.waiters.len())).count())
    }

    pub(crate) fn notify_one(&self) -> bool {
        self.notify(1) == 1
    }

    pub(crate) fn notify_all(&self) -> usize {
        self.notify(usize::MAX)
    }

    /// Waits without a limit.
    pub(crate) fn wait_endlessly(&self, mutex: &RawMutex) {
        let endless = self.wait(mutex, Wait::forever());
        debug_assert_eq!(endless, Ok(()));
    }

    /// Waits with `mutex`. The caller has locked it, and has it again when this returns (or panics).
    pub(crate) fn wait(&self, mutex: &RawMutex, wait: Wait) -> Result<(), WaitError> {
        let joined = self.0.with(|queue| queue.join(mutex.key()));
        let me = joined.expect("attempted to use a condition variable with more than one mutex");
        mutex.release();
        let notified = |queue: &mut Queue| (!queue.waiters.contains(&me)).then_some(());
        let outcome = self.0.wait(wait, notified, |queue| queue.waiters.retain(|&other| other != me));
        mutex.acquire();
        outcome
    }
}
