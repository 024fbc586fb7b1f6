//! A condition variable.
//!
//! **Problem.** No notification may be lost between the unlock of the mutex and the sleep. And a broadcast
//! must not wake a herd of kernel threads that then fight for one mutex.
//!
//! **Rejected.**
//! - Moving the waiter to the mutex at `notify_one` too. On two CPUs, the moved waiter then waits for the
//!   notifier's unlock (three times slower on 5,000 pairs of kernel threads).
//! - A sequence number and a futex (std): every broadcast is a herd.
//! - Granting all kernel threads if the mutex is free: that is a herd too, which finds it taken.
//!
//! **Protocol.**
//! - *Wait*: queue on the condition variable's address, unlock the mutex, sleep, lock the mutex. If a green
//!   thread is followed by one that it has notified, the mutex goes with the switch
//!   (`park/mutex_handoff.rs`).
//! - *Notify one*: grant the first waiter.
//! - *Notify all*: grant all. Green threads run a few at a time, so even a herd usually finds the mutex
//!   free. In a chain of grants, each waits for a turn of the thread before it. All LWPs but one are idle
//!   (10,000 waiters, two LWPs: 75 ms, not 53). Each costs a bucket lock (a barrier of 4: 234 ns, not 186).
//! - *Notify all with kernel threads*: move all to the mutex's queue, with both bucket locks held. There an
//!   unlock grants a few at a time (`park/company.rs`). If the mutex is free, no unlock would come, so the
//!   notifier takes it meanwhile. (So could a waiter, so this cannot be observed.)
//!
//! **Proof.** If a notifier changed the condition with the mutex held, it finds the waiter, which was queued
//! before it unlocked. While waiters are queued, the companion is their mutex; it changes with the bucket
//! lock held. A notifier may read null without that lock. The value is older than the waiter's unlock only if
//! the notifier has not held the mutex since. A waiter that is queued here borrows the mutex, so it is alive.
//!
//! *Lifetime.* A waiter that has left the queue touches the mutex only. So a C program may destroy the
//! condition variable when it has notified all. A waiter whose time is over leaves the companion behind. The
//! next thread that finds no thread in the queue clears it.

mod companion;

use std::ptr;

use self::companion::Companion;
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::sync::mutex::raw::RawMutex;

/// A grant by the condition variable itself; other tokens come from the mutex after a move.
const NOTIFIED: Token = Token(0);

/// The protocol of the header.
pub(super) struct Protocol {
    waits_with: Companion,
}

impl Protocol {
    #[inline]
    pub(super) const fn new() -> Self {
        Self { waits_with: Companion::new() }
    }

    #[inline]
    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    #[inline]
    pub(super) fn notify_one(&self) -> bool {
        !self.waits_with.look().is_empty() && self.notify_one_slow()
    }

    #[cold]
    fn notify_one_slow(&self) -> bool {
        let grant = wait_queue::grant_one(self.key(), |found| {
            if found.is_none_or(|found| !found.more) {
                self.waits_with.clear();
            }
            NOTIFIED
        });
        grant.map(wait_queue::Grant::wake).is_some()
    }

    #[inline]
    pub(super) fn notify_all(&self) -> usize {
        if self.waits_with.look().is_empty() { 0 } else { self.notify_all_slow() }
    }

    #[cold]
    fn notify_all_slow(&self) -> usize {
        loop {
            let seen = self.waits_with.look();
            if seen.has_kernel_threads() {
                return self.notify_herd(seen);
            }
            let grants = wait_queue::grant_all(self.key(), NOTIFIED, || {
                let same = self.waits_with.look() == seen;
                if same {
                    self.waits_with.clear();
                }
                same
            });
            if let Some(grants) = grants {
                return grants.wake_all();
            }
            // Another waiter came, or all have been notified.
        }
    }

    /// Notifies all waiters, if kernel threads may be among them.
    fn notify_herd(&self, seen: companion::Seen) -> usize {
        let mut taken = false;
        let begin = |waits| {
            if self.waits_with.look() != seen {
                // All that waited at the call have been notified.
                return false;
            }
            self.waits_with.clear();
            if waits {
                // SAFETY: a thread is queued, and the bucket lock is held. So that thread has not returned
                // from its wait, which borrows the mutex.
                taken = unsafe { &*seen.mutex() }.announce_or_take();
            }
            waits
        };
        let moved = wait_queue::requeue(self.key(), seen.mutex().addr(), begin);
        if taken {
            // SAFETY: no thread returns from a wait without the lock, and we have that.
            unsafe { &*seen.mutex() }.release();
        }
        moved
    }

    /// Waits without a limit: the usual wait, which need not carry the limit along.
    #[cold]
    pub(super) fn wait_endlessly(&self, mutex: &RawMutex) {
        let endless = self.wait(mutex, Wait::forever());
        debug_assert_eq!(endless, Ok(()));
    }

    /// Waits with `mutex`. The caller has locked it, and has it again when this returns (or panics). After an
    /// interrupt, the thread's flag is still set.
    ///
    /// Always inlined, and it passes `wait` to no call that is not: then `wait` need not be in memory. There
    /// it would be stored in parts and loaded at once, and the load would wait for those stores (6 ns).
    #[inline(always)]
    pub(super) fn wait(&self, mutex: &RawMutex, wait: Wait) -> Result<(), WaitError> {
        let validate = |kernel| self.waits_with.join(mutex, kernel);
        let options = Options::new(WaitReason::Condvar, wait);
        loop {
            match wait_queue::wait_with(self.key(), &options, validate, mutex) {
                Ok(Woken::Granted(token)) => {
                    mutex.acquire_after(token);
                    return Ok(());
                }
                Ok(Woken::Ended { why, moved }) => return Self::left_queue(mutex, moved, why),
                Err(_) => self.forget_other_mutex(mutex),
            }
        }
    }

    /// Waits as [`wait`](Self::wait) does, but does not wait for the mutex. Returns `true`, too, if the
    /// caller has it.
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    pub(super) fn wait_apart(&self, mutex: &RawMutex, wait: Wait) -> (Result<(), WaitError>, bool) {
        let validate = |kernel| self.waits_with.join(mutex, kernel);
        let options = Options::new(WaitReason::Condvar, wait);
        loop {
            match wait_queue::wait_with(self.key(), &options, validate, mutex) {
                Ok(Woken::Granted(NOTIFIED)) => return (Ok(()), false),
                Ok(Woken::Granted(token)) => {
                    mutex.acquire_after(token);
                    return (Ok(()), true);
                }
                // As in `left_queue`.
                Ok(Woken::Ended { why, moved }) => return (if moved { Ok(()) } else { Err(why) }, false),
                Err(_) => self.forget_other_mutex(mutex),
            }
        }
    }

    /// Forgets the mutex of waiters that have left, or panics if threads wait with another mutex than this.
    #[cold]
    fn forget_other_mutex(&self, mutex: &RawMutex) {
        let mut have_left = false;
        wait_queue::if_empty(self.key(), || {
            self.waits_with.clear();
            have_left = true;
        });
        let now = self.waits_with.look();
        let same = have_left || now.is_empty() || ptr::eq(now.mutex(), mutex);
        assert!(same, "attempted to use a condition variable with more than one mutex");
    }

    /// Locks the mutex again for a waiter that left its queue without a grant. Returns how the wait ended.
    fn left_queue(mutex: &RawMutex, moved: bool, why: WaitError) -> Result<(), WaitError> {
        mutex.acquire_after(NOTIFIED);
        // A waiter that has been moved has been notified.
        if moved { Ok(()) } else { Err(why) }
    }
}

#[cfg(all(test, loom))]
mod loom_condvar;
#[cfg(all(test, loom))]
mod loom_mutex_handoff;
