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
//! 1. *Wait*: say that there have been such waiters. Lock the gate, unlock the mutex, and wait with the gate.
//!    Unlock the gate, and lock the mutex.
//! 2. *Notify*: if there have been such waiters, lock the gate and unlock it. Then notify.
//!
//! **Proof** that no notification is lost. Let a notifier change the condition with the mutex held, after the
//! waiter has unlocked it. So it sees that there have been such waiters, and it locks the gate after the
//! waiter has locked it. The waiter has been queued when it unlocks the gate, so the notifier finds it. A
//! thread that has the gate never waits for the mutex.

use lock_api::RawMutex as _;

use super::Condvar;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::RawMutex;

/// See the header. A zeroed one is new.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Gate {
    lock: RawMutex,
    /// 1 if a thread has waited.
    used: AtomicU32,
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
        // Relaxed: the mutex orders it.
        self.used.store(1, Ordering::Relaxed);
        self.lock.lock();
        let waited = unlock().map(|()| condvar.wait_raw(&self.lock, wait));
        // SAFETY: locked above, and again when a wait has ended.
        unsafe { self.lock.unlock() };
        waited
    }

    /// Returns when all threads are queued that have unlocked their mutex. Called before a notification.
    #[inline]
    pub(crate) fn pass(&self) {
        // Relaxed: as in `wait`.
        if self.used.load(Ordering::Relaxed) == 1 {
            self.lock.lock();
            // SAFETY: locked above.
            unsafe { self.lock.unlock() };
        }
    }
}

#[cfg(all(test, loom))]
mod loom_gate;
