//! What a program's own models get in place of this crate's locks: the same names and methods, over loom's
//! parts.
//!
//! **Problem.** A check of code that uses a lock needs every order of that code's steps, not of the lock's.
//! The lock's steps are already modelled, and each lock and unlock of the real one is many steps.
//!
//! **Rejected.** A model of the wait queue below the real locks. Every lock would still be several steps.
//! And what threads share would have to exist before they start, which a program cannot ensure.
//!
//! **Protocol.** A lock is a flag under a lock of loom's. That lock is created at its first use, so that
//! `const fn new` stays one. Unlike atomics, loom's locks may be created in any thread.
//!
//! For waits, a deadline is a *may*. The scheduler lets the thread look again at some moment, and tries
//! every moment. If the wait has not been granted by then, it is over without success. Only the first expiry
//! at an object happens without a yield, so that a loop around such a wait lets others go on. No thread is
//! interrupted.
//!
//! **Panics.** All threads of a model run on one kernel thread, and share its count of panics. So a thread
//! that unwinds lets others run, which then unwind by that count. And a lock of loom's is poisoned if the
//! count has changed between the creation and the drop of its guard. So no step that may switch is made
//! while one of loom's guards is held; a wait gives the guard up first, and notifications come after it.

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
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWith, RwLockWriteGuard, UpgradeWith,
};

/// An object of loom's that is created when it is first used.
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

    /// Counts one more expiry.
    fn one_more(&self) {
        if self.0.replace(self.0.get() + 1) > 0 {
            loom::thread::yield_now();
        }
    }
}

/// Makes a step of a destructor. Returns `None` if the step cannot be made while a thread unwinds.
///
/// If the program catches that panic, other threads wait for the step. If it does not, the model has failed,
/// and loom's objects may be of no use any more. Then no thread needs the step. A panic of the step within
/// another panic would end the process.
fn also_unwinding<R>(step: impl FnOnce() -> R) -> Option<R> {
    if std::thread::panicking() { catch_unwind(AssertUnwindSafe(step)).ok() } else { Some(step()) }
}
