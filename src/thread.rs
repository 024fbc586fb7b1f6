//! Threads, as in `std::thread`, on the runtime of the calling thread.
//!
//! If a program replaces `use std::thread` by `use selvedge::thread`, it runs on green threads or on kernel
//! threads without another change. The differences from std:
//!
//! * Stacks are 256 KiB for green threads and 2 MiB for bound and 1:1 ones, unless a builder says otherwise.
//! * The thread that [`run`](crate::run) makes for a program's `main` has such a stack, too. The main thread
//!   of std has 8 MiB as a rule.
//! * If a name has a zero byte, or a stack size is impossible, a `Builder`'s `spawn` returns an error. (std
//!   panics for the name, and accepts a stack size of 0.)
//! * A green thread has no `pthread_t`, so [`JoinHandleExt`](crate::os::unix::thread::JoinHandleExt) returns
//!   `None` for it.
//! * The panic message of a green thread calls it `<unnamed>`, because std prints only names that it knows.
//! * [`JoinHandle::join_timeout`], [`park_until`], [`blocking`], bound threads, [`Priority`] and
//!   [`Builder::affinity`] are new.
//! * A thread can be [interrupted](Thread::interrupt), in [interruptible](crate::Wait::interruptible) waits.
//!
//! `thread_local!`, and with it everything that uses it, is std's own: each green thread has its own values.

pub(crate) mod builder;
pub(crate) mod current;
pub(crate) mod deadlock;
pub(crate) mod handle;
pub(crate) mod id;
pub(crate) mod info;
mod join_future;
pub(crate) mod kernel;
mod map_headroom;
#[cfg(unix)]
pub(crate) mod pthread;
mod scope;
pub(crate) mod seen;
pub(crate) mod shutdown_report;
pub(crate) mod snapshot;
pub(crate) mod spawning;
pub(crate) mod task;
mod task_group;

use std::io;
use std::num::NonZeroUsize;

use crate::park::current::try_current;
use crate::park::no_preempt::{NoPreempt, is_allowed};
use crate::shim;

pub use std::thread::{AccessError, LocalKey, panicking};

pub use self::builder::{Builder, spawn, spawn_on};
pub use self::current::{
    Thread, blocking, current, park, park_timeout, park_until, park_with, sleep, sleep_until, sleep_with,
    take_interrupt, yield_now,
};
#[expect(deprecated, reason = "deprecated as in std")]
pub use self::current::{park_timeout_ms, sleep_ms};
pub use self::deadlock::watch::OnDeadlock;
pub use self::deadlock::{Blocked, Cycle, Deadlocks, EndsBy, Standstill, record_owners};
pub use self::handle::JoinHandle;
pub use self::id::ThreadId;
pub use self::info::{StackUse, ThreadInfo, ThreadState, ThreadTimes};
pub use self::join_future::{JoinFuture, ScopedJoinFuture};
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use self::seen::{ThreadChanges, ThreadsSeen};
pub use self::shutdown_report::{KernelThreadInfo, ShutdownTimeout};
pub use self::snapshot::{ThreadCursor, ThreadPage};
pub use self::task::Result;
pub use self::task_group::{TaskGroup, TaskGroupBuilder, TaskHandle, task_group};
pub use crate::park::interrupt::Interrupted;
pub use crate::park::priority::Priority;
pub use crate::park::reason::WaitReason;

/// Returns how many threads can run at once: the number of CPUs that the calling kernel thread may use (its
/// affinity). It is no more than the control group's CPU quota pays for, rounded up.
///
/// This is the default of `mxn`'s concurrency. The function of this name in std rounds a quota down: of 1.5
/// CPUs, half a CPU would stay unused.
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
/// While some small files of `/proc` and `/sys` are read. Callers should keep the result.
pub fn available_parallelism() -> io::Result<NonZeroUsize> {
    NonZeroUsize::new(shim::available_cpus()).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Runs `f` without taking the thread's time slice away.
///
/// This is for the few instructions around something that other threads would spin for: a spinlock, a
/// sequence of stores to a device. `f` must not compute for long. Its LWP's slot would be handed to another
/// LWP, and for a while more kernel threads than slots would run. `f` may wait, as any code may, and then
/// gives its LWP up. Calls may be nested. If the slice was over meanwhile, the thread gives way at the end.
///
/// On the 1:1 runtime, for bound threads and foreign ones, only the kernel decides, and `f` just runs.
/// (Solaris had the same as `schedctl_start` and `schedctl_stop`.)
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// assert_eq!(thread::no_preempt(|| 7), 7);
/// ```
///
/// # Blocks
///
/// What `f` blocks.
pub fn no_preempt<F, T>(f: F) -> T
where
    F: FnOnce() -> T,
{
    let _section = Section { held: Some(NoPreempt::hold()) };
    f()
}

/// Ends a section, even if `f` unwinds.
struct Section {
    held: Option<NoPreempt>,
}

impl Drop for Section {
    fn drop(&mut self) {
        self.held = None;
        if is_allowed()
            && let Some(me) = try_current()
        {
            me.backend().leave_if_asked(&me);
        }
    }
}
