//! The semaphore's protocol: a number, and a queue of the threads that want a part of it, under a lock of
//! loom's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Expiries, Lazy, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// The same as the semaphore's own.
const MAX: usize = u32::MAX as usize;

/// What a semaphore is made of in a model.
pub(crate) struct Protocol {
    initially: usize,
    state: Lazy<SemaphoreState>,
    expiries: Expiries,
}

struct SemaphoreState {
    count: loom::sync::Mutex<Count>,
    changed: loom::sync::Condvar,
}

#[derive(Default)]
struct Count {
    permits: usize,
    /// The waiters, by number, in the order in which they came.
    queue: VecDeque<usize>,
    arrivals: usize,
}

impl Count {
    /// Takes `n` permits if there are enough, for a thread that is first. Returns `true` if there were.
    fn take(&mut self, n: usize) -> bool {
        let enough = self.permits >= n;
        if enough {
            self.permits -= n;
        }
        enough
    }
}

impl Protocol {
    pub(crate) const fn new(permits: usize) -> Self {
        Self { initially: permits, state: Lazy::new(), expiries: Expiries::new() }
    }

    fn state(&self) -> (&SemaphoreState, loom::sync::MutexGuard<'_, Count>) {
        let state = self.state.get(|| SemaphoreState {
            count: loom::sync::Mutex::new(Count { permits: self.initially, ..Count::default() }),
            changed: loom::sync::Condvar::new(),
        });
        (state, state.count.lock().expect("no poison"))
    }

    pub(crate) fn permits(&self) -> usize {
        self.state().1.permits
    }

    pub(crate) fn try_give(&self, n: usize) -> bool {
        let (state, mut count) = self.state();
        let has_room = n <= MAX - count.permits;
        if has_room {
            count.permits += n;
            drop(count);
            state.changed.notify_all();
        }
        has_room
    }

    pub(crate) fn give_back(&self, n: usize) {
        also_unwinding(|| {
            assert!(self.try_give(n), "{n} permits more are more than a semaphore can have");
        });
    }

    pub(crate) fn try_take(&self, n: usize) -> bool {
        let (_, mut count) = self.state();
        n == 0 || count.queue.is_empty() && count.take(n)
    }

    pub(crate) fn take(&self, n: usize, wait: Wait) -> Result<(), WaitError> {
        assert!(n <= MAX, "asked for more permits than a semaphore can have");
        if self.try_take(n) {
            return Ok(());
        }
        let (state, mut count) = self.state();
        let me = count.arrivals;
        count.arrivals += 1;
        count.queue.push_back(me);
        loop {
            if count.queue.front() == Some(&me) && count.take(n) {
                count.queue.pop_front();
                drop(count);
                // There may be enough for the next.
                state.changed.notify_all();
                return Ok(());
            }
            if wait.deadline.is_none() {
                count = state.changed.wait(count).expect("no poison");
                continue;
            }
            drop(count);
            count = self.state().1;
            if count.queue.front() != Some(&me) || count.permits < n {
                count.queue.retain(|&other| other != me);
                drop(count);
                state.changed.notify_all();
                self.expiries.one_more();
                return Err(WaitError::TimedOut);
            }
        }
    }

    pub(crate) fn take_for(&self, n: usize, _: Duration) -> Result<(), WaitError> {
        self.take(n, Wait::until(Instant::now()))
    }
}
