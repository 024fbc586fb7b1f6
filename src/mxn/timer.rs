//! Deadlines of sleeping green threads: one timing wheel for each LWP, which any thread may fire.
//!
//! A sleeper arms an [`Entry`] on its stack, with the [`Timers`] of the LWP that it leaves, and disarms it
//! when it runs again. The structure of deadlines is `wheel`'s, and knows no lock. Here is what the scheduler
//! does with it:
//!
//! - It reads [`Timers::next`] without the lock. Before that time, there is nothing to do. Afterwards, an
//!   LWP, a searcher, or at last the monitor calls [`Timers::fire`].
//! - One call of `fire` takes a bounded number of steps (`BATCH`), so the lock is held for some microseconds
//!   at most. It wakes no more threads than the caller has room for. If more is due, `next` has passed, and
//!   other calls follow. Between two of them the LWP runs threads. So a million that are due at once wait
//!   here, and not in front of others in a run queue.
//! - Neither arming nor firing allocates (I4).
//!
//! While an entry is armed, only the holder of the wheel's lock may touch it. `fire` ends the sleep **with
//! the lock held**, and [`Timers::disarm`] takes the lock. A sleeper may be granted in the same moment, while
//! another thread still looks at its entry or its sleep. So it cannot return yet, and pop its stack. Lock
//! order: wheel, then wait-queue bucket.
//!
//! For deadlines that are far ahead, a thread has one entry, which stays armed after a wait (`alarm`).

mod alarm;
mod wheel;

use std::ptr::NonNull;

use crate::park::backend::Sleep;
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{self, Moment};

pub(crate) use alarm::Alarm;
pub(crate) use wheel::{AT_ONCE, NEVER};
use wheel::{Node, Wheel};

/// The steps of one call of [`Timers::fire`] at most: 10 us or more, since each is at an entry on another
/// stack.
pub(crate) const BATCH: usize = 128;

/// Nanoseconds since a runtime was built: what the wheels compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Moment);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(shim::now())
    }

    /// Returns the current time. One clock read (about 18 ns).
    #[inline]
    pub(crate) fn now(self) -> u64 {
        self.at(shim::now())
    }

    /// Returns a moment as ticks of this clock. What lies before its start counts as its start.
    #[inline]
    pub(crate) fn at(self, when: Moment) -> u64 {
        when.as_nanos().saturating_sub(self.0.as_nanos()).min(NEVER - 1)
    }

    /// Returns ticks of this clock as a moment; `None` for `NEVER` and what cannot be counted.
    pub(crate) fn moment(self, at: u64) -> Option<Moment> {
        if at == NEVER { None } else { self.0.as_nanos().checked_add(at).map(Moment::from_nanos) }
    }
}

/// One deadline of one sleep, on the sleeper's stack.
pub(crate) struct Entry<'a>(Node<Sleeper<'a>>);

/// What a deadline ends.
enum Sleeper<'a> {
    /// One sleep of a thread.
    Sleep(ThreadRef, &'a dyn Sleep),
    /// The sleep that a thread is in by then.
    Any(NonNull<Alarm>),
}

impl<'a> Entry<'a> {
    pub(crate) fn new(at: u64, thread: ThreadRef, sleep: &'a dyn Sleep) -> Self {
        Self(Node::new(at, Sleeper::Sleep(thread, sleep)))
    }

    /// Returns the entry without its lifetime. `disarm` ensures that no wheel has it for longer.
    fn erase(&self) -> NonNull<Node<Sleeper<'static>>> {
        NonNull::from(&self.0).cast()
    }
}

/// The deadlines that were armed on one LWP.
#[derive(Debug)]
pub(crate) struct Timers {
    /// When `fire` is due, or `NEVER`; stored under the lock, read without it.
    next: AtomicU64,
    wheel: QueueLock<Wheel<Sleeper<'static>>>,
}

// SAFETY: entries are reached only with the wheel's lock held, and what is in the wheel is armed, so alive.
unsafe impl Send for Sleeper<'static> {}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(NEVER), wheel: QueueLock::new(Rank::Outer, Wheel::new()) }
    }

    /// Returns the earliest deadline, or a time before it if deadlines were disarmed. `NEVER`: there is none.
    /// `AT_ONCE`: the next call of `fire` has more to do than to end sleeps, and is not to wait.
    /// A hint, except for the LWP that armed it.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Adds an entry. It may be due already.
    ///
    /// # Safety
    /// Until `disarm` of the same timers has returned, the entry stays where it is, and the calling thread
    /// cannot be preempted.
    #[inline]
    pub(crate) unsafe fn arm(&self, entry: &Entry<'_>) {
        // SAFETY: the caller's promise.
        let no_preempt = unsafe { NoPreempt::by_caller() };
        self.wheel.with_held(no_preempt, |wheel| {
            // SAFETY: it stays there until `disarm` has removed it, or found it fired.
            unsafe { wheel.insert(entry.erase()) };
            // Any other deadline is the next as before. Relaxed: as in `publish`.
            self.next.store(self.next().min(entry.0.at.get()), Ordering::Relaxed);
            debug_assert_eq!(self.next(), wheel.next());
        });
    }

    /// Removes an entry if it has not fired. When this returns, no thread looks at it.
    #[inline]
    pub(crate) fn disarm(&self, entry: &Entry<'_>) {
        // SAFETY: it was armed here (`arm`).
        let no_preempt = unsafe { NoPreempt::by_caller() };
        self.wheel.with_held(no_preempt, |wheel| {
            // SAFETY: it was armed here (`arm`).
            if unsafe { wheel.remove(entry.erase()) } {
                self.publish(wheel);
            }
            debug_assert_eq!(self.next(), wheel.next());
        });
    }

    /// Ends sleeps with a deadline that is not after `now`: all, or `most`, or as many as can be found in
    /// `steps` steps. `ready` receives each thread that must be made runnable, with the wheel locked. Returns
    /// the number of entries that were due.
    pub(crate) fn fire(
        &self,
        now: u64,
        steps: usize,
        most: usize,
        mut ready: impl FnMut(ThreadRef),
    ) -> usize {
        if self.next() > now {
            return 0;
        }
        self.wheel.with(|wheel| {
            let fired = wheel.expire(now, steps.min(BATCH), most, |sleeper| match *sleeper {
                // The frame stays until the lock is dropped (`disarm`).
                Sleeper::Sleep(thread, sleep) => {
                    if sleep.expire() {
                        ready(thread);
                    }
                    None
                }
                // SAFETY: it was in the wheel, so it stays until the lock is dropped (`Alarm::end`).
                Sleeper::Any(alarm) => unsafe { alarm.as_ref() }.ring(now, &mut ready),
            });
            self.publish(wheel);
            fired
        })
    }

    /// Says when the wheel, which has changed, is to be looked at.
    #[inline]
    fn publish(&self, wheel: &Wheel<Sleeper<'static>>) {
        // Relaxed: a hint to others, and what the LWP itself has stored it reads.
        self.next.store(wheel.next(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_timer;
