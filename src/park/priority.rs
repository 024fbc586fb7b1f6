//! How urgent a thread is: one byte of its core, which run queues and wait queues go by.
//!
//! Whoever changes it tells the thread's keeper afterwards ([`Keeper::reprioritized`](super::backend::Keeper)), which moves
//! the thread if it stands on a run queue. A place in a wait queue is kept: what is in a queue is ordered by what was said as it
//! came.

use std::fmt;

use crate::shim::atomic::{AtomicU8, Ordering};

/// How urgent a thread is, among the threads of its runtime and among those that wait for the same thing.
///
/// A new thread is [`Normal`](Self::Normal) unless its [`Builder`](crate::thread::Builder::priority) says otherwise, whatever
/// its creator is: priorities are not inherited.
///
/// **Who runs** (green threads). Whenever an LWP looks for its next thread, all runnable `High` ones of its runtime go before
/// all others, and `Low` ones come only where nothing else waits that the LWP knows of. Where all LWPs are busy, a `High` thread
/// that waits ends the time slice of one that is not `High` (as far as that may be preempted at all:
/// [`Builder::time_slice`](crate::thread::Builder::time_slice), [`no_preempt`](crate::thread::no_preempt)); for a `Low` one nobody
/// has to leave before it is owed a turn.
///
/// **Nobody starves.** While others keep the CPUs, the `Low` thread that has waited longest gets a turn some 60 ms after the
/// last one had its own, at the next look; and on an LWP where `High` threads follow each other for 50 ms a `Normal` thread that
/// waits there gets one. So of *n* `Low` threads each gets a turn every *n* times 60 ms. Threads that are pinned to their LWP
/// count turns instead: one in 64 is a lower one's.
///
/// **Who is served** (all threads, of either runtime or none). Of those that wait for one lock or condition variable, the
/// highest is granted first; when 16 have been granted before others that are lower, the one of the lowest that has waited longest goes
/// next. Between equals the order is as ever.
///
/// Not more than that: a thread that holds a lock does not inherit the priority of one that waits for it. And the
/// kernel's own scheduling of threads that own a kernel thread (bound, or on the 1:1 runtime) is left as it is: to raise it takes
/// privileges, and what was lowered could not be raised again.
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
    /// Runs where nothing else would, and now and then.
    Low = 64,
    /// What threads are that say nothing.
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

    /// For a thread that nobody else sees yet.
    #[inline]
    pub(crate) fn begin(&self, priority: Priority) {
        // Relaxed: published with the thread.
        self.0.store(priority as u8, Ordering::Relaxed);
    }

    /// Gives what it was before.
    pub(crate) fn set(&self, priority: Priority) -> Priority {
        // Relaxed: whoever must see it gets it by a queue's lock, or by the flag that is raised afterwards (`sched::levels`).
        Self::meaning(self.0.swap(priority as u8, Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn get(&self) -> Priority {
        Self::meaning(self.number())
    }

    /// What wait queues go by: the higher, the sooner.
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
    fn meaning(number: u8) -> Priority {
        const LOW: u8 = Priority::Low as u8;
        const HIGH: u8 = Priority::High as u8;
        match number {
            LOW => Priority::Low,
            HIGH => Priority::High,
            _ => Priority::Normal,
        }
    }
}
