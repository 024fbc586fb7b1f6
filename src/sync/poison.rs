//! The locks with the signatures of `std::sync`: with poisoning.
//!
//! A thread that panics with a lock held leaves the protected value as it was at that moment, perhaps
//! half changed. The lock is then *poisoned*: the next thread to lock it gets the guard within an error,
//! and decides if that matters.
//!
//! Names and signatures are std's, and so are the error types, so a program that replaces `std::sync` by
//! `selvedge::sync::poison` compiles as it did. The locks underneath are those of [`sync`](super), at home in
//! green threads, and usable between all kinds of threads. Their other operations (deadlines, interrupts)
//! have the names of that module.
//!
//! What differs from std:
//!
//! * A wait on a [`Condvar`] panics if other threads wait there with another mutex. In std it may panic.
//! * If the closure of a [`Once`], [`OnceLock`] or [`LazyLock`] waits for its own result, the call panics. In
//!   std it deadlocks or panics.
//! * An [`RwLock`] admits fewer readers at a time; its documentation has the number.
//! * The compiler refuses `let _ = mutex.lock();`, which unlocks at once, only for std's locks (its lint
//!   `let_underscore_lock`).
//!
//! # Examples
//!
//! ```
//! use selvedge::sync::poison::{Mutex, PoisonError};
//!
//! let mutex = Mutex::new(1);
//! let panicked = std::thread::scope(|s| {
//!     let thread = s.spawn(|| {
//!         let mut value = mutex.lock().unwrap();
//!         *value = 2;
//!         panic!("half way");
//!     });
//!     thread.join().is_err()
//! });
//! assert!(panicked && mutex.is_poisoned());
//! let value = mutex.lock().unwrap_or_else(PoisonError::into_inner);
//! assert_eq!(*value, 2);
//! drop(value);
//! mutex.clear_poison();
//! assert!(mutex.lock().is_ok());
//! ```

mod condvar;
mod flag;
mod mutex;
mod rwlock;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use condvar::Condvar;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use rwlock::{MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[expect(deprecated, reason = "deprecated as in std")]
pub use super::ONCE_INIT;
pub use super::barrier::{Barrier, BarrierWaitResult};
pub use super::condvar::WaitTimeoutResult;
pub use super::{LazyLock, Once, OnceLock, OnceState, mpsc};
