//! Threads, as `std::thread` has them, on the runtime of the thread that calls.
//!
//! A program that says `use selvedge::thread` where it said `use std::thread` runs on green threads or on kernel threads
//! without another change. What differs from std:
//!
//! * Stacks are 256 KiB for green threads and 2 MiB for bound and 1:1 ones, unless a builder says otherwise.
//! * If a name has a zero byte, or a stack size is impossible, a `Builder`'s `spawn` returns an error. (std
//!   panics for the name, and accepts a stack size of 0.)
//! * A green thread has no `pthread_t`, so [`JoinHandleExt`](crate::os::unix::thread::JoinHandleExt) returns
//!   `None` for it.
//! * [`JoinHandle::join_timeout`], [`park_until`], [`blocking`], bound threads, [`Priority`] and
//!   [`Builder::affinity`] are new.
//! * A thread can be [interrupted](Thread::interrupt), in waits that are called *interruptible*.
//!
//! `thread_local!`, and with it everything that uses it, is std's own: each green thread has its own values.

pub(crate) mod builder;
pub(crate) mod census;
mod current;
pub(crate) mod deadlock;
mod handle;
mod interruptible;
pub(crate) mod kernel;
mod no_preempt;
pub(crate) mod packet;
mod place;
#[cfg(unix)]
pub(crate) mod pthread;
mod scope;

use std::num::NonZeroUsize;
use std::{any, io};

use crate::shim;

pub use std::thread::{AccessError, LocalKey, panicking};

pub(crate) use self::builder::run_on;
pub use self::builder::{Builder, spawn, spawn_on};
pub use self::census::{KernelThreadInfo, ThreadInfo, ThreadState, Unstopped};
pub use self::current::{
    Thread, ThreadId, blocking, current, park, park_timeout, park_until, sleep, sleep_until, yield_now,
};
#[expect(deprecated, reason = "deprecated as in std")]
pub use self::current::{park_timeout_ms, sleep_ms};
pub use self::deadlock::{Blocked, Cycle, Deadlocks, EndsBy, OnDeadlock, Standstill, record_owners};
pub use self::handle::JoinHandle;
pub use self::interruptible::{
    interrupted, park_interruptible, park_interruptible_timeout, park_interruptible_until,
    sleep_interruptible, sleep_interruptible_until,
};
pub use self::no_preempt::no_preempt;
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use crate::park::interrupt::Interrupted;
pub use crate::park::priority::Priority;
pub use crate::park::reason::WaitReason;

/// What a thread leaves behind: its value, or the payload of its panic.
pub type Result<T> = std::result::Result<T, Box<dyn any::Any + Send + 'static>>;

/// How many threads can run at once: as many as the CPUs that the calling kernel thread may use (its affinity), but no more
/// than the control group's CPU quota pays for, rounded up.
///
/// This is the default of `mxn`'s concurrency. std's function of this name rounds a quota down, so that with one of 1.5 CPUs half a
/// CPU would stay unused.
///
/// # Examples
///
/// ```
/// assert!(selvedge::thread::available_parallelism()?.get() >= 1);
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// None on Linux; the type is that of std's function.
///
/// # Blocks
///
/// For some small files of `/proc` and `/sys` to be read: keep what it gives.
pub fn available_parallelism() -> io::Result<NonZeroUsize> {
    NonZeroUsize::new(shim::available_cpus()).ok_or_else(|| io::ErrorKind::Unsupported.into())
}
