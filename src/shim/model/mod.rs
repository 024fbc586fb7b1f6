//! What a program's own models get in the place of this crate's locks: the same names and methods, over loom's parts.
//!
//! **Problem.** Who checks code that uses a lock wants every order of that code's steps, not of the lock's: those are modelled already,
//! and each lock and unlock of the real one is many steps.
//!
//! **Rejected.** A model of the wait queue below the real locks: every lock would still be several steps, and what threads meet at
//! would have to exist before they start, which a program cannot see to.
//!
//! **Protocol.** A lock is a flag under a lock of loom's. That comes into being at its first use, so that `const fn new` stays one; unlike
//! atomics, loom's locks may do so in any thread. Waits take a deadline for a *may*: a wait with one is over, without
//! success, if it was not granted by the moment at which the scheduler lets its thread look again, and the scheduler
//! tries every moment. So that a loop around such a wait lets others go on, only an object's first expiry happens
//! without a yield. Nobody is interrupted.
//!
//! **Panics.** All threads of a model run on one kernel thread, whose count of panics they share. So who unwinds lets others run, which
//! then unwind by that count; and a lock of loom's is poisoned if its guard goes where the count is not what it was where that came.
//! Hence no step that may switch is made with one of loom's guards in hand (a wait puts it down first): notifications come after it.

mod barrier;
mod condvar;
mod mutex;
pub(crate) mod once;
mod rwlock;
pub(crate) mod semaphore;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(feature = "arc_lock")]
pub use mutex::ArcMutexGuard;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard, RawMutex};
#[cfg(feature = "arc_lock")]
pub use rwlock::{ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockInterruptible, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeInterruptible,
};

/// Objects of loom's that come into being when they are first used.
struct Lazy<T>(OnceLock<T>);

impl<T> Lazy<T> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn get(&self, new: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(new)
    }
}

/// How often waits with a deadline have expired at an object.
struct Expiries(Cell<u32>);

// SAFETY: loom runs the threads of a model one at a time, on one kernel thread.
unsafe impl Sync for Expiries {}

impl Expiries {
    const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// Another has.
    fn one_more(&self) {
        if self.0.replace(self.0.get() + 1) > 0 {
            loom::thread::yield_now();
        }
    }
}

/// A step that is made by destructors. If it cannot be made while a thread unwinds: `None`.
///
/// If the program catches that panic, others wait for the step. If nobody does, the model has failed, nothing of loom's may be of use any more,
/// and nobody needs the step: its own panic, within another, would end the process.
fn also_unwinding<R>(step: impl FnOnce() -> R) -> Option<R> {
    if std::thread::panicking() { catch_unwind(AssertUnwindSafe(step)).ok() } else { Some(step()) }
}
