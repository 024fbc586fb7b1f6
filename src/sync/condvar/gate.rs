//! What lets a thread wait at a condition variable with a mutex that is not this crate's.
//!
//! **Problem.** In a C program, a mutex that is robust, or shared between processes, is the C library's. A
//! condition variable of this crate queues a waiter and then unlocks the mutex, which it must know for that.
//!
//! **Rejected.** *A count of notifications, which is a futex.* Each notification wakes all that wait there.
//!
//! **Protocol** (C++'s `condition_variable_any`). Beside the condition variable is a mutex of this crate: the
//! *gate*.
//!
//! 1. *Wait*: enter as a visitor (`visitors.rs`). Lock the gate, unlock the mutex, and wait with the gate.
//!    Unlock the gate, leave, and lock the mutex.
//! 2. *Notify*: if there are visitors, lock the gate and unlock it. Then notify.
//! 3. *Destroy*: wait until the visitors have left. They have been notified.
//!
//! **Proof** that no notification is lost. Let a notifier change the condition with the mutex held, after the
//! waiter has unlocked it. So it sees the visitor, and it locks the gate after the waiter has locked it. The
//! waiter has been queued when it unlocks the gate, so the notifier finds it. A thread that has the gate
//! never waits for the mutex.

use lock_api::RawMutex as _;

use super::Condvar;
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::sync::RawMutex;
use crate::sync::visitors::Visitors;

/// See the header. A zeroed one is new.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Gate {
    lock: RawMutex,
    /// The threads that wait, or return from a wait.
    visitors: Visitors,
}

impl Gate {
    /// Waits at `condvar`. The caller has locked the mutex, which `unlock` unlocks, and locks it again.
    ///
    /// # Errors
    /// That of `unlock`, and the thread has not waited.
    pub(crate) fn wait<E>(
        &self,
        condvar: &Condvar,
        wait: Wait,
        unlock: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), WaitError>, E> {
        self.visitors.enter();
        self.lock.lock();
        let waited = unlock().map(|()| condvar.wait_raw(&self.lock, wait));
        // SAFETY: locked above, and again when a wait has ended.
        unsafe { self.lock.unlock() };
        self.visitors.leave();
        waited
    }

    /// Returns when all threads are queued that have unlocked their mutex. Called before a notification.
    #[inline]
    pub(crate) fn pass(&self) {
        // Ordered by the mutex.
        if self.visitors.are_some() {
            self.lock.lock();
            // SAFETY: locked above.
            unsafe { self.lock.unlock() };
        }
    }

    /// Waits until each thread that has been notified has left the gate. Called before the memory is used for
    /// something else.
    #[inline]
    pub(crate) fn close(&self) {
        self.visitors.until_none(WaitReason::Condvar);
    }
}

#[cfg(all(test, loom))]
mod loom_gate;
