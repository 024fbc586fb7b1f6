//! Primitives for threads of both runtimes, and for threads of none.
//!
//! Threads of every kind may share each of them: green, bound and 1:1 threads, and threads that Selvedge did
//! not start. A green thread that waits leaves its LWP to others. Every wait can have a limit and be ended by
//! an interrupt: see [`Wait`](crate::Wait).
//!
//! | for | use |
//! |---|---|
//! | a value that one thread at a time changes | [`Mutex`] |
//! | the same, with poisoning and std's signatures | [`poison::Mutex`], and the rest of [`poison`] |
//! | the same, in the order of arrival | [`FairMutex`] |
//! | the same, if its owner may lock it again | [`ReentrantMutex`]; [`CheckedMutex`] reports that as an error |
//! | the same, if its owner may die with the lock held | [`RobustMutex`] |
//! | the same, between processes (Unix) | [`process_shared::Mutex`], and the rest of [`process_shared`] |
//! | a value that many threads read and few change | [`RwLock`] |
//! | a value or an action that is made once, when it is first needed | [`OnceLock`], [`LazyLock`], [`Once`] |
//! | a change that other threads wait for | [`Condvar`] |
//! | so many threads at a time | [`Semaphore`] |
//! | threads that wait for each other at the end of each step | [`Barrier`] |
//! | the end of all parts of some work | [`WaitGroup`], or [`thread::scope`](crate::thread::scope) |
//! | messages | [`channel`](crate::channel), or [`mpsc`] with std's names |
//!
//! [`stats`] tells which locks are contended.
//!
//! # Porting a program from parking_lot
//!
//! Replace `parking_lot` by `selvedge::sync`: names and methods are the same. These items differ:
//!
//! | parking_lot | here |
//! |---|---|
//! | `Once::state() -> OnceState` | [`Once::state`] returns an [`OncePhase`] |
//! | `OnceState::poisoned`, in `call_once_force` | [`OnceState::is_poisoned`], as in std |
//! | `ArcMutexGuard<RawMutex, T>`, and those of the other locks | `ArcMutexGuard<T>` (feature `arc_lock`) |
//! | `parking_lot::lock_api` | the crate `lock_api` 0.4 |
//! | `deadlock` (feature `deadlock_detection`) | [`Runtime::deadlocks`](crate::Runtime::deadlocks) |
//!
//! # Model-checking a program that uses them
//!
//! Compiled with `--cfg loom`, some locks are made of the parts of [loom](https://docs.rs/loom), with the
//! same names and methods: [`Mutex`], [`FairMutex`], [`Condvar`], [`RwLock`], those of [`poison`],
//! [`Barrier`], [`Semaphore`], [`Once`], [`OnceLock`] and [`LazyLock`]. They can be used inside
//! `loom::model`, which tries every order of *the program's* steps. The steps of the locks themselves are not
//! part of it, so models stay small. A model finds lost wake-ups and deadlocks. If the program's data lies in
//! loom's cells, it finds data races too.
//!
//! ```toml
//! [target.'cfg(loom)'.dependencies]
//! loom = "0.7"
//! ```
//!
//! ```
//! # #[cfg(loom)]
//! fn both_are_counted() {
//!     loom::model(|| {
//!         let count = std::sync::Arc::new(selvedge::sync::Mutex::new(0));
//!         let theirs = count.clone();
//!         let other = loom::thread::spawn(move || *theirs.lock() += 1);
//!         *count.lock() += 1;
//!         other.join().unwrap();
//!         assert_eq!(*count.lock(), 2);
//!     });
//! }
//! ```
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --test that_file
//! ```
//!
//! * Threads are `loom::thread`s; a model has at most five. Runtimes, and what needs one, are not part of
//!   models.
//! * A wait with a deadline may time out at any moment, whatever the deadline, and both outcomes are
//!   tried. Interruptible waits are not interrupted. The first thread to wait on a `Condvar` is the first
//!   to be notified, and no thread wakes without a notification.
//! * A panic that the program catches gives back what was held, as elsewhere. The threads of a model
//!   share one count of panics: while one unwinds, [`std::thread::panicking`] is `true` in all of them.
//! * A lock belongs to one execution of a model: make it inside, or in a `loom::lazy_static`, not in a
//!   static.
//! * These items of the module have no form for models: [`WaitGroup`], [`ReentrantMutex`],
//!   [`CheckedMutex`], [`RobustMutex`], and those of [`robust`] and [`process_shared`].
//! * Nothing that waits works outside of models. Making a [`channel`](crate::channel) panics with a
//!   message that says so; signals are refused with `Unsupported`.

mod barrier;
mod checked;
pub(crate) mod condvar;
mod fair;
mod impls;
pub mod lock;
pub mod mpsc;
mod mutex;
mod once;
pub mod poison;
#[cfg(unix)]
pub mod process_shared;
mod reentrant;
pub mod robust;
mod rwlock;
mod semaphore;
#[cfg(feature = "serde")]
mod serde;
pub mod stats;
pub(crate) mod visitors;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
pub use checked::{
    CheckedMutex, CheckedMutexGuard, LockError, MappedCheckedMutexGuard, RawCheckedMutex, UnlockError,
};
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(feature = "arc_lock")]
pub use fair::ArcFairMutexGuard;
pub use fair::{FairMutex, FairMutexGuard, MappedFairMutexGuard, RawFairMutex, const_fair_mutex};
#[cfg(feature = "arc_lock")]
pub use mutex::ArcMutexGuard;
pub use mutex::{LockWith, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use once::{LazyLock, Once, OnceLock, OncePhase, OnceState};
pub use reentrant::{
    MappedReentrantMutexGuard, RawReservableMutex, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
};
pub use robust::{
    Acquired, Condition, MappedRobustMutexGuard, RawRobust, RawRobustMutex, RobustError, RobustMutex,
    RobustMutexGuard,
};
#[cfg(feature = "arc_lock")]
pub use rwlock::{ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWith, RwLockWriteGuard, UpgradeWith,
};
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TooManyPermits};
pub use wait_group::WaitGroup;

pub use std::sync::{Arc, Weak, atomic};

#[cfg(feature = "arc_lock")]
pub use reentrant::ArcReentrantMutexGuard;

pub use crate::park::interrupt::Interrupted;

/// A [`Once`] that has not run yet, as [`Once::new`] returns it.
#[deprecated(note = "replaced by `Once::new()`")]
#[allow(clippy::declare_interior_mutable_const, reason = "std has this constant")]
pub const ONCE_INIT: Once = Once::new();

/// Returns a free [`Mutex`] around `value`: parking_lot's name for [`Mutex::new`].
#[must_use]
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::new(value)
}

/// Returns a free [`RwLock`] around `value`: parking_lot's name for [`RwLock::new`].
#[must_use]
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::new(value)
}

/// Returns a free [`ReentrantMutex`] around `value`: parking_lot's name for [`ReentrantMutex::new`].
#[must_use]
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::new(value)
}

#[cfg(test)]
mod tests;
