//! Primitives for threads of both runtimes, and for threads of none.

mod barrier;
mod condvar;
mod mutex;
mod once;
mod rwlock;
mod semaphore;
pub mod shared;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{LockInterruptible, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use once::{LazyLock, Once, OnceLock, OnceState};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockInterruptible, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeInterruptible,
};
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TooManyPermits};
pub use wait_group::WaitGroup;

pub use crate::park::interrupt::Interrupted;

#[cfg(test)]
mod tests;
