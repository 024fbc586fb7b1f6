//! The alarm of a thread: one entry that stays in a wheel from one of its waits to the next.
//!
//! **Problem.** A server reads from its sockets with a limit of a minute, and waits for some microseconds.
//! Each such wait would arm an entry and disarm it: two locks of the wheel, for a deadline that hardly ever
//! passes.
//!
//! **Solution.** For a deadline that is far ahead, the entry belongs to the thread. It rings no later than
//! the deadline, which stands in the thread's waiter. When the wait ends, the alarm stays as it is. When it
//! rings, the wait queue tells what the thread waits for by then:
//!
//! - If that deadline has passed, the wait ends.
//! - If it is ahead, the alarm is set for it.
//! - If the thread has no such wait, the alarm is silent until its thread sets it again.
//!
//! So an alarm rings about once in the time of a limit, however many waits there are. It rings in vain only
//! if the thread has run meanwhile. Deadlines near by would make it ring too often: they have entries of
//! their own.
//!
//! **Rejected.** To store the deadline in the alarm, and to clear it after the wait. What fires it must know
//! if the thread still waits. That takes a read-modify-write at each end. The queue knows it with its lock.
//!
//! **Protocol.** `rings` says when the alarm rings. It is written with the lock of its wheel held.
//!
//! 1. *Wait.* The thread says what it waits for (`park/wait_state`), and links its waiter, with the lock of
//!    the bucket. After a fence, it reads `rings`. If that is later than its deadline, it takes the alarm out
//!    of the wheel that it was last in, with that wheel's lock. It puts the alarm into the wheel of its LWP.
//! 2. *Ring.* With the wheel's lock, it stores "never" in `rings`. After a fence, it reads what the thread
//!    waits for, locks that bucket, and looks for the thread's waiter. If the deadline is ahead, it stores
//!    that in `rings` before it drops the bucket's lock.
//! 3. *End.* A thread that ends takes the alarm out, with the lock of the wheel that it was last in.
//!
//! **Proof** that no deadline is missed. Of the fences of 1 and 2, one comes first. If that of 2 does, 1
//! reads "never", or what 2 or the thread itself has stored later. If that of 1 does, 2 finds what this wait
//! waits for, and the waiter in its bucket. Or the wait has ended.
//!
//! If 2 stores a deadline of an earlier wait of the thread, 1 reads that, or what came later. The party that
//! ended that wait has locked the bucket after 2.
//!
//! An alarm is gone only after 3, which takes the lock that 2 holds from first to last.
//!
//! Lock order: wheel, then wait-queue bucket. **Cost** of a wait: a load and a fence. On x86-64, to lock the
//! bucket is that fence. If it comes before that of 2, 2 locks the bucket after the waiter was linked.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::wheel::Node;
use super::{Clock, NEVER, Sleeper, Timers};
use crate::park::no_preempt::NoPreempt;
use crate::park::thread::ThreadRef;
use crate::park::wait_queue;
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::shim::fence_behind_swap;

/// See the header.
pub(crate) struct Alarm {
    /// When it rings, or `NEVER`.
    rings: AtomicU64,
    thread: ThreadRef,
    clock: Clock,
    /// The timers that it was last set with. The thread's own.
    home: Cell<Option<NonNull<Timers>>>,
    entry: Node<Sleeper<'static>>,
}

impl Alarm {
    /// Makes an alarm that is not set, at the place where it stays.
    ///
    /// # Safety
    /// The place is free, and has the size and the alignment.
    pub(crate) unsafe fn put(at: NonNull<Self>, thread: ThreadRef, clock: Clock) {
        let entry = Node::new(NEVER, Sleeper::Any(at));
        let alarm = Self { rings: AtomicU64::new(NEVER), thread, clock, home: Cell::new(None), entry };
        // SAFETY: the caller's promise.
        unsafe { at.write(alarm) };
    }

    /// Returns `true` if it rings at the tick `at` or before. Called by its thread, which has linked its
    /// waiter: step 1.
    #[inline]
    pub(crate) fn rings_by(&self, at: u64) -> bool {
        // The last read-modify-write is the lock of the bucket, at the earliest.
        fence_behind_swap();
        // Relaxed: the fence orders it.
        self.rings.load(Ordering::Relaxed) <= at
    }

    /// Sets it: the rest of step 1. Called by its thread.
    ///
    /// # Safety
    /// The timers stay until [`end`](Self::end) has returned, and so does the alarm. The calling thread
    /// cannot be preempted.
    pub(crate) unsafe fn set(&self, timers: &Timers, at: u64) {
        // SAFETY: the caller's promise.
        let no_preempt = unsafe { NoPreempt::by_caller() };
        let home = self.home.replace(Some(timers.into()));
        if home.is_some_and(|home| !ptr::eq(home.as_ptr(), timers)) {
            self.take_out(home);
        }
        timers.wheel.with_held(no_preempt, |wheel| {
            // SAFETY: it is in this wheel, or in none: in the last one it was set here, or was taken out.
            unsafe { wheel.remove(self.erase()) };
            self.entry.at.set(at);
            // SAFETY: it is in no wheel, and stays in place until `end` has taken it out.
            unsafe { wheel.insert(self.erase()) };
            // Relaxed: the thread's own. What rings has the lock.
            self.rings.store(at, Ordering::Relaxed);
            timers.publish(wheel);
        });
    }

    /// Ends it: step 3. Called by its thread, which cannot be preempted. It may be set again.
    pub(crate) fn end(&self) {
        self.take_out(self.home.take());
    }

    /// Takes it out of the wheel that it was last in, if it still is. When this returns, it does not ring.
    fn take_out(&self, home: Option<NonNull<Timers>>) {
        let Some(home) = home else { return };
        // SAFETY: it was set with these, so they stay until `end` has returned.
        let home = unsafe { home.as_ref() };
        // SAFETY: the callers cannot be preempted.
        let no_preempt = unsafe { NoPreempt::by_caller() };
        home.wheel.with_held(no_preempt, |wheel| {
            // SAFETY: it is in this wheel, or in none.
            if unsafe { wheel.remove(self.erase()) } {
                home.publish(wheel);
            }
            // Relaxed: as in `set`.
            self.rings.store(NEVER, Ordering::Relaxed);
        });
    }

    /// Rings: step 2. The entry has just left the wheel, of which the lock is held. Returns when it is to
    /// ring again. `ready` receives the thread if it must be made runnable.
    pub(super) fn ring(&self, now: u64, ready: &mut impl FnMut(ThreadRef)) -> Option<u64> {
        // Relaxed: the fence orders it.
        self.rings.store(NEVER, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut later = None;
        let expired = wait_queue::expire_if(self.thread, |deadline| {
            let at = self.clock.at(deadline);
            if at > now {
                // Relaxed: the bucket's lock orders it with the thread's next wait.
                self.rings.store(at, Ordering::Relaxed);
                later = Some(at);
            }
            at <= now
        });
        if expired {
            ready(self.thread);
        }
        later
    }

    fn erase(&self) -> NonNull<Node<Sleeper<'static>>> {
        NonNull::from(&self.entry)
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_alarm;
