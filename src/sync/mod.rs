//! Primitives for threads of both runtimes, and for threads of none.

mod barrier;
mod condvar;
mod mutex;
mod rwlock;
pub mod shared;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{LockInterruptible, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockInterruptible, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeInterruptible,
};

pub use crate::park::interrupt::Interrupted;

#[cfg(test)]
mod tests;
