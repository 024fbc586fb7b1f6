//! The priority of a thread: one byte of its core, by which run queues and wait queues are ordered.
//!
//! The code that changes it tells the thread's pool of cores afterwards
//! ([`CorePool::reprioritized`](super::backend::CorePool)). The pool moves the thread if it is on a run
//! queue. A position in a wait queue is kept: waiters are ordered by the priority that they had when they
//! came.

use std::fmt;

use crate::shim::atomic::{AtomicU8, Ordering};

/// How urgent a thread is, among the threads of its runtime and among threads that wait for the same thing.
///
/// A new thread is [`Normal`](Self::Normal) unless its [`Builder`](crate::thread::Builder::priority) says
/// otherwise. Priorities are not inherited from the creator.
///
/// **Which thread runs** (green threads). When an LWP looks for its next thread, all runnable `High` threads
/// of its runtime go before all others. `Low` threads run only if the LWP knows of no other thread that
/// waits. If all LWPs are busy, a waiting `High` thread ends the time slice of a thread of lower priority.
/// That thread must be one that may be preempted at all
/// ([`Builder::time_slice`](crate::thread::Builder::time_slice), [`no_preempt`](crate::thread::no_preempt)).
/// No thread has to leave for a `Low` thread before that one is owed a turn.
///
/// **No thread starves.** Others may keep the CPUs. Some 60 ms after the last turn of a `Low` thread, at the
/// next look, the `Low` thread that has waited longest gets one. So with *n* `Low` threads, each gets a turn
/// every *n* times 60 ms. If `High` threads follow each other on an LWP for 50 ms, a `Normal` thread that
/// waits there gets a turn. Threads that are pinned to their LWP count turns instead: one in 64 goes to a
/// thread of lower priority. Beside threads that have not run yet, it is one in several hundred.
///
/// **Which waiter is served** (all threads, of either runtime or none). Of the threads that wait for one
/// lock or condition variable, the one of the highest priority is granted first. When 16 have been granted
/// before waiters of lower priority, the oldest waiter of the lowest priority goes next. Among equals, the
/// order is the usual one.
///
/// Priorities do no more than that. A thread that holds a lock does not inherit the priority of a thread that
/// waits for it. The kernel's own scheduling of threads that own a kernel thread (bound, or on the 1:1
/// runtime) is unchanged. To raise a priority there takes privileges, and a lowered one could not be raised
/// again.
///
/// # Examples
///
/// ```
/// use selvedge::thread::{self, Priority};
///
/// let logger = thread::Builder::new().priority(Priority::Low).spawn(|| thread::current().priority())?;
/// assert_eq!(logger.join().unwrap(), Priority::Low);
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Priority {
    /// Runs when no other thread would, and now and then otherwise.
    Low = 64,
    /// The default.
    #[default]
    Normal = 128,
    /// Runs before all others.
    High = 192,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        })
    }
}

/// The priority of one thread: a [`Priority`] as a number, which wait queues compare.
#[derive(Debug)]
pub(crate) struct Level(AtomicU8);

impl Level {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(Priority::Normal as u8))
    }

    /// Sets the priority of a thread that no other thread can see yet.
    #[inline]
    pub(crate) fn begin(&self, priority: Priority) {
        // Relaxed: published with the thread.
        self.0.store(priority as u8, Ordering::Relaxed);
    }

    /// Sets the priority. Returns the one before.
    pub(crate) fn set(&self, priority: Priority) -> Priority {
        // Relaxed: a thread that must see it gets it by a queue's lock, or by the flag that is raised
        // afterwards (`sched::priority`).
        Self::meaning(self.0.swap(priority as u8, Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn get(&self) -> Priority {
        Self::meaning(self.number())
    }

    /// Returns the number that orders wait queues: the higher, the sooner.
    #[inline]
    pub(crate) fn number(&self) -> u8 {
        // Relaxed: as in `set`.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_normal(&self) -> bool {
        self.number() == Priority::Normal as u8
    }

    #[inline]
    pub(crate) fn meaning(number: u8) -> Priority {
        const LOW: u8 = Priority::Low as u8;
        const HIGH: u8 = Priority::High as u8;
        match number {
            LOW => Priority::Low,
            HIGH => Priority::High,
            _ => Priority::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn priorities_have_names() {
        let named =
            [Priority::Low, Priority::Normal, Priority::High].map(|priority| format!("{priority:>6}"));
        assert_eq!(named, ["   low", "normal", "  high"]);
    }
}
