//! Primitives for threads of both runtimes, and for threads of none.

mod barrier;
mod condvar;
mod mutex;
pub mod shared;
pub mod stats;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{LockInterruptible, MappedMutexGuard, Mutex, MutexGuard, RawMutex};

pub use crate::park::interrupt::Interrupted;

#[cfg(test)]
mod tests;
