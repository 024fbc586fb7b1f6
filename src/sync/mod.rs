//! Primitives for threads of both runtimes, and for threads of none.

mod barrier;
mod checked;
mod condvar;
#[cfg(feature = "lock_api_05")]
pub mod lock_api_05;
mod mutex;
mod once;
pub mod poison;
mod reentrant;
pub mod robust;
mod rwlock;
mod semaphore;
#[cfg(feature = "serde")]
mod serde;
pub mod shared;
pub mod stats;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
pub use checked::{CheckedMutex, CheckedMutexGuard, LockError, RawCheckedMutex, UnlockError};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{LockInterruptible, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use once::{LazyLock, Once, OnceLock, OnceState};
pub use reentrant::{
    MappedReentrantMutexGuard, RawReservableMutex, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
};
pub use robust::{Condition, Legacy, RawRobust, RawRobustMutex, RobustError, RobustMutex, RobustMutexGuard};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockInterruptible, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeInterruptible,
};
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TooManyPermits};
pub use wait_group::WaitGroup;

#[cfg(feature = "arc_lock")]
pub use mutex::ArcMutexGuard;
#[cfg(feature = "arc_lock")]
pub use reentrant::ArcReentrantMutexGuard;
#[cfg(feature = "arc_lock")]
pub use rwlock::{ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard};

pub use crate::park::interrupt::Interrupted;

#[cfg(test)]
mod tests;
