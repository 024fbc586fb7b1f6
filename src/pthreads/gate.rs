//! What lets a thread wait at a condition variable with a mutex of the C library's. `sync/condvar/gate.rs`
//! says how it works.

use crate::park::wait::{Wait, WaitError};
use crate::sync::condvar::gate;
use crate::sync::{Condvar, Mutex};

/// Stands beside a condition variable. A zeroed one is new.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Gate(gate::Gate);

impl Gate {
    /// Waits at `condvar`. The caller has locked the mutex, which `unlock` unlocks, and locks it again.
    ///
    /// # Errors
    /// That of `unlock`, and the thread has not waited.
    pub fn wait<E>(
        &self,
        condvar: &Condvar,
        wait: Wait,
        unlock: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), WaitError>, E> {
        self.0.wait(condvar, wait, unlock)
    }

    /// Returns when all threads are queued that have unlocked their mutex. Called before a notification.
    #[inline]
    pub fn pass(&self) {
        self.0.pass();
    }

    /// Waits until each thread that has been notified has left. Called before the condition variable is
    /// destroyed.
    #[inline]
    pub fn close(&self) {
        self.0.close();
    }
}

/// Waits at `condvar` with `mutex`, which the running thread has locked. Returns `true`, too, if it has that
/// again. If not, it is to lock it. Before that, handlers of signals may run, and wait for other threads.
///
/// # Errors
/// As `Condvar::wait_with`.
pub fn wait_apart(condvar: &Condvar, mutex: &Mutex<()>, wait: Wait) -> (Result<(), WaitError>, bool) {
    condvar.wait_apart(mutex, wait)
}
