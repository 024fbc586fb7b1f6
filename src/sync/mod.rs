//! Primitives for threads of both runtimes, and for threads of none.

mod barrier;
mod checked;
mod condvar;
#[cfg(feature = "lock_api_05")]
pub mod lock_api_05;
mod mutex;
pub mod poison;
mod reentrant;
pub mod robust;
#[cfg(feature = "serde")]
mod serde;
pub mod shared;

pub use barrier::{Barrier, BarrierWaitResult};
pub use checked::{CheckedMutex, CheckedMutexGuard, LockError, RawCheckedMutex, UnlockError};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{LockInterruptible, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use reentrant::{
    MappedReentrantMutexGuard, RawReservableMutex, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
};
pub use robust::{Condition, Legacy, RawRobust, RawRobustMutex, RobustError, RobustMutex, RobustMutexGuard};

#[cfg(feature = "arc_lock")]
pub use mutex::ArcMutexGuard;
#[cfg(feature = "arc_lock")]
pub use reentrant::ArcReentrantMutexGuard;

pub use crate::park::interrupt::Interrupted;

#[cfg(test)]
mod tests;
