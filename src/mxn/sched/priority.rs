//! Priorities on the run queues: threads that are more or less urgent than those in next-slots and rings.
//!
//! **The problem.** Wherever an LWP picks, a thread of high priority must be next. One of low priority is
//! last, but must run in the end. A thread that is raised while it waits must not go on waiting where it is.
//! A program that uses no priorities must pay nothing for them.
//!
//! **Rejected.**
//!
//! - A ring for each level and LWP. A high thread would wait behind a low one that runs on its LWP, while
//!   other LWPs dispatch normal ones. Every look for work would look at three times as much.
//! - Priorities as a hint to thieves (late); one shared list for all threads (`_schedlock`).
//! - To find a raised thread when it is taken off its ring. That is the delay to be avoided.
//! - A second entry for a raised thread, in the higher queue. The second LWP to come to the thread must find
//!   that it is gone. That costs a read-modify-write for each dispatch of each thread.
//!
//! **The queues.** Normal threads stay where they are. High and low ones wait in a shared queue each
//! (`inject`). One word ([`Urgent`]) tells every pick, by one load, that something goes before the normal
//! path. The LWP then picks in its dispatcher. An LWP takes a low thread if it has nothing of its own, and
//! nothing can be stolen *at once*. To wait until another thread is old enough to be stolen (`search`) would
//! leave the CPU idle. A thread that is old enough is stolen first.
//!
//! **No thread starves.** If no thread was taken off the low queue for `LOW_AGE`, the monitor owes it a turn,
//! and the next dispatcher pays. Dispatches are no measure: one may last a slice, or a few nanoseconds. The
//! clock is the monitor's, since dispatches of normal threads have none. An LWP that has taken high threads
//! for `HIGH_RUN` on end takes a normal one in between.
//!
//! **Changing the priority of a thread** that may be anywhere, in this order:
//!
//! 1. The byte in its core is stored.
//! 2. The shared queues are locked one after the other. If the thread is found, it moves to the queue of its
//!    priority. A push to a shared queue reads the priority *under the lock*.
//! 3. If it is not found, every LWP gets the flag `SIFT`. At its next dispatch, it filters its next-slot and
//!    ring (256 threads at most).
//! 4. If it was raised, next-slots and rings are searched at once, since an LWP may not dispatch for long.
//!    The threads before it in its ring are claimed with it, and go to the shared queues.
//!
//! **Proof** that no thread stays in the queue of the priority that it had before 1. Shared queues: the push
//! or the removal has the lock first. If the push has, the removal finds the thread. Otherwise the push sees
//! the new byte. Rings and next-slots: only their LWP fills them, and it does not dispatch between its look
//! at the byte and the push. If that look missed the new byte, the LWP had not consumed the flag, which was
//! stored with release after the byte. So it consumes the flag after the push, and sifts. A thief may take
//! from a ring that was not sifted. So it sifts what it has stolen, if any priority was ever changed. If it
//! misses that, it has not consumed its own flag yet, and sifts later.
//!
//! Cost to normal threads: a load for each pick and each thread made runnable, a store for each switch.

mod moves;

use std::ptr::NonNull;

use super::policy;
use crate::mxn::green::Green;
use crate::mxn::run_queue::inject::Inject;
use crate::park::priority::Priority;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

/// What goes before the normal path.
///
/// | bit | means | set by | cleared by |
/// |---|---|---|---|
/// | `HIGH` | the high queue is not empty | a push there, under its lock | what empties it, under its lock |
/// | `OWED` | the low queue is owed a turn | the monitor | the dispatcher that pays |
#[derive(Debug)]
struct Urgent(AtomicU32);

const HIGH: u32 = 1;
const OWED: u32 = 2;

impl Urgent {
    #[inline]
    fn is_any(&self) -> bool {
        // Relaxed: seen at the next dispatch at the latest. `idle` prevents that an LWP sleeps meanwhile.
        self.0.load(Ordering::Relaxed) != 0
    }

    fn set(&self, bit: u32) {
        // Relaxed, here and below: the queue's lock orders what the bit speaks of.
        self.0.fetch_or(bit, Ordering::Relaxed);
    }

    /// Clears a bit. Returns `true` if it was set.
    fn clear(&self, bit: u32) -> bool {
        self.0.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }
}

/// The shared queues of a runtime for threads that are not of normal priority.
#[derive(Debug)]
pub(crate) struct PriorityQueues {
    urgent: Urgent,
    high: Inject<Green>,
    low: Inject<Green>,
    /// How many threads were taken off the low queue so far. Relaxed: the monitor compares it.
    low_turns: AtomicU32,
    /// The priority of a thread that may be in a ring has changed at least once.
    sifting: AtomicBool,
}

impl PriorityQueues {
    pub(crate) fn new() -> Self {
        Self {
            urgent: Urgent(AtomicU32::new(0)),
            high: Inject::new(),
            low: Inject::new(),
            low_turns: AtomicU32::new(0),
            sifting: AtomicBool::new(false),
        }
    }

    /// Returns `true` if something goes before the normal path.
    #[inline]
    pub(crate) fn are_urgent(&self) -> bool {
        self.urgent.is_any()
    }

    /// Returns how many threads of high priority wait; may be late by one push or pop under way.
    pub(crate) fn high(&self) -> usize {
        self.high.len()
    }

    /// Returns `true` if low threads have waited for so long that they are owed a turn.
    pub(crate) fn owe_low(&self) -> bool {
        self.low.len() > 0 && self.urgent.0.load(Ordering::Relaxed) & OWED != 0
    }

    /// Returns how many threads wait; may be late by one push or pop under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    pub(in crate::mxn) fn take_high(&self) -> Option<NonNull<Green>> {
        self.high.take(|| {
            self.urgent.clear(HIGH);
        })
    }

    /// Takes a low thread if one is owed a turn, and pays.
    fn take_owed(&self) -> Option<NonNull<Green>> {
        if self.urgent.clear(OWED) { self.take_low() } else { None }
    }

    pub(in crate::mxn) fn take_low(&self) -> Option<NonNull<Green>> {
        let low = self.low.take(|| ())?;
        self.low_turns.fetch_add(1, Ordering::Relaxed);
        Some(low)
    }

    /// Touches its atomics, so that they exist in the model.
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        let _ = (self.are_urgent(), self.len());
        let _ = (self.low_turns.load(Ordering::Relaxed), self.sifting.load(Ordering::Relaxed));
    }

    /// Appends a thread to the queue of its priority. Returns `false` if that is normal.
    pub(super) fn push(&self, green: &'static Green) -> bool {
        let is = |level| green.core.priority.get() == level;
        loop {
            let level = green.core.priority.get();
            let pushed = match level {
                Priority::Normal => return false,
                Priority::High => self.high.push_if(green.ptr(), || {
                    let high = is(level);
                    if high {
                        self.urgent.set(HIGH);
                    }
                    high
                }),
                Priority::Low => self.low.push_if(green.ptr(), || is(level)),
            };
            if pushed {
                return true;
            }
        }
    }

    /// Returns how many threads of low priority wait; may be late by one push or pop under way.
    fn low(&self) -> usize {
        self.low.len()
    }

    /// Notes that the priority of a thread changes that may be in a ring.
    fn expect_sifting(&self) {
        // Relaxed: for each LWP that consumes its flag, the flag's release orders this.
        self.sifting.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if a thread in a ring may not be normal.
    #[inline]
    fn may_need_sifting(&self) -> bool {
        // Relaxed: a thief that does not see it has not consumed its flag yet.
        self.sifting.load(Ordering::Relaxed)
    }

    /// Looks at the low queue for the monitor, once a round.
    fn age(&self, aging: &mut Aging, now: impl FnOnce() -> u64) {
        // Relaxed: see its field.
        let turns = self.low_turns.load(Ordering::Relaxed);
        if self.low() == 0 || turns != aging.turns {
            (aging.turns, aging.since) = (turns, 0);
            return;
        }
        let now = now();
        if aging.since == 0 {
            aging.since = now;
        } else if now.saturating_sub(aging.since) >= policy::LOW_AGE {
            aging.since = now;
            self.urgent.set(OWED);
        }
    }

    /// Takes a thread out, if it waits here. The caller then owns it.
    fn remove(&self, green: &'static Green) -> bool {
        let emptied = || {
            self.urgent.clear(HIGH);
        };
        self.high.remove(green.ptr(), emptied) || self.low.remove(green.ptr(), || ())
    }
}

/// What the monitor remembers of the low queue.
#[derive(Debug, Default)]
pub(crate) struct Aging {
    turns: u32,
    since: u64,
}

#[cfg(all(test, loom))]
mod loom_priority;

#[cfg(test)]
mod tests;
