//! The report of a shutdown: the threads that have not stopped, and how the caller waits for them.
//!
//! A shutdown neither kills nor frees what runs. It asks, waits, asks again by interrupts, and waits. At the
//! deadline it reports the threads that are left. It looks from time to time. Otherwise each thread that
//! ends would have to tell some other thread, and nearly always none asks.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::id::ThreadId;
use super::info::{ThreadInfo, ThreadState};
use crate::park::reaper::Ended;
use crate::park::wait::Wait;
use crate::park::{current, fork, permit};
use crate::time::{self, Moment};

/// The time between two looks at first. It is doubled each time.
const FIRST_NAP: Duration = Duration::from_micros(20);
/// The longest time between two looks, and the time between two interrupts.
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// The time that kernel threads get for their way out, if their threads have ended at the last moment. Next
/// to nothing is left to be done there, but the machine may be busy. It becomes a delay only if something
/// blocks there.
const WAY_OUT: Duration = Duration::from_secs(1);

/// Waits until `none_left`. From half of the time on, interrupts again and again. Returns `false` if the
/// time is over.
pub(crate) fn drain(timeout: Duration, none_left: impl Fn() -> bool, interrupt: impl Fn()) -> bool {
    let half = time::after(timeout / 2);
    look_until(time::after(timeout), || {
        let ended = none_left();
        if !ended && time::has_passed(half) {
            interrupt();
        }
        ended
    })
}

/// Waits until `all_gone`, which asks about kernel threads that have next to nothing left to do. It waits
/// until the `deadline` of a shutdown, but at least for [`WAY_OUT`]. Returns `false` if they are still
/// there.
pub(crate) fn see_off(deadline: Option<Moment>, all_gone: impl Fn() -> bool) -> bool {
    let at_least = time::after(WAY_OUT);
    look_until(deadline.max(at_least).filter(|_| deadline.is_some()), all_gone)
}

/// Waits until `over` or the deadline, and looks a last time then. Returns `true` if it is over.
fn look_until(deadline: Option<Moment>, over: impl Fn() -> bool) -> bool {
    let mut nap = FIRST_NAP;
    while !over() {
        if time::has_passed(deadline) {
            return over();
        }
        let next = time::after(nap);
        let _ = permit::sleep(Wait::by(next.into_iter().chain(deadline).min()));
        nap = LONGEST_NAP.min(2 * nap);
    }
    true
}

/// A kernel thread that is still there although the threads that it ran were seen to have ended.
///
/// It runs what the C library runs at its end: destructors of values under pthread keys. With
/// [pinned](crate::mxn::Builder::pinned) green threads, it also runs destructors of their thread-locals.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime};
/// use std::time::Duration;
///
/// let rt = Mxn::new()?;
/// rt.spawn(|| ());
/// if let Err(unstopped) = rt.shutdown(Duration::from_secs(10)) {
///     for kernel in unstopped.kernel_threads() {
///         eprintln!("{:?} is stuck at its end: {}", kernel.name(), kernel.state());
///     }
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct KernelThreadInfo {
    thread: Option<ThreadId>,
    name: Option<String>,
    state: ThreadState,
}

impl KernelThreadInfo {
    /// Creates the record of one that ran green threads, or helps the runtime.
    pub(crate) fn new(name: String, state: ThreadState) -> Self {
        Self { thread: None, name: Some(name), state }
    }

    /// Creates the record of one whose thread has ended. `is_asleep` asks the kernel about it.
    pub(crate) fn of_ended(ended: Ended, is_asleep: impl Fn(u32) -> bool) -> Self {
        let state = ThreadState::on_kernel_thread(ended.tid, is_asleep);
        Self { thread: Some(ThreadId::from_number(ended.id)), name: ended.name, state }
    }

    crate::shown::getters! {
        /// Returns the thread that it was, which has ended. `None`: it ran green threads, or was a helper of
        /// the runtime.
        fn thread(&self) -> Option<ThreadId> = self.thread;
        /// Returns the name of that thread, if it was given one. Otherwise the runtime's name for it.
        fn name(&self) -> Option<&str> = self.name.as_deref();
        /// Returns what it was doing: [`InKernel`](ThreadState::InKernel) or
        /// [`Running`](ThreadState::Running).
        fn state(&self) -> ThreadState = self.state;
    }
}

impl fmt::Display for KernelThreadInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("at its end")?;
        if let Some(thread) = self.thread {
            write!(f, ", of {thread:?}")?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, ": {}", self.state)
    }
}

/// The error of a shutdown: these threads had not ended by the deadline. They go on, and so does what is
/// left of their runtime, which ends with the last of them.
///
/// When displayed, it is a line for each thread.
#[derive(Clone, Debug)]
pub struct ShutdownTimeout {
    threads: Vec<ThreadInfo>,
    kernel_threads: Vec<KernelThreadInfo>,
    forked: bool,
}

impl ShutdownTimeout {
    fn new(threads: Vec<ThreadInfo>) -> Self {
        Self { threads, kernel_threads: Vec::new(), forked: false }
    }

    /// Creates the error for all of these threads but the calling one.
    pub(crate) fn without_caller(mut threads: Vec<ThreadInfo>) -> Self {
        let me = current::try_current().map(|me| ThreadId::from_number(me.id()));
        threads.retain(|thread| Some(thread.id()) != me);
        Self::new(threads)
    }

    /// Creates the error for kernel threads that have not ended although all threads have.
    pub(crate) fn at_their_end(kernel_threads: Vec<KernelThreadInfo>) -> Self {
        Self { threads: Vec::new(), kernel_threads, forked: false }
    }

    /// Creates the error of a fork of the process that has the threads.
    pub(crate) fn in_fork() -> Self {
        Self { threads: Vec::new(), kernel_threads: Vec::new(), forked: true }
    }

    crate::shown::getters! {
        /// Returns the threads, in the order of their identities. There are none in a fork of the process
        /// that has them, or if only [kernel threads](Self::kernel_threads) are left.
        fn threads(&self) -> &[ThreadInfo] = &self.threads;
        /// If all threads have ended, returns the kernel threads that have not: a destructor that the C
        /// library calls at their end has not returned. They are left to themselves, and nothing of the
        /// runtime depends on them any more.
        fn kernel_threads(&self) -> &[KernelThreadInfo] = &self.kernel_threads;
    }
}

impl fmt::Display for ShutdownTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forked {
            return fork::refusal().fmt(f);
        }
        let (threads, kernel) = (self.threads.len(), self.kernel_threads.len());
        let plural = |n| if n == 1 { "thread has" } else { "threads have" };
        if threads == 0 && kernel > 0 {
            write!(f, "all threads have stopped, but {kernel} kernel {} not:", plural(kernel))?;
            return self.kernel_threads.iter().try_for_each(|thread| write!(f, "\n  {thread}"));
        }
        write!(f, "{threads} {} not stopped", plural(threads))?;
        self.threads.iter().enumerate().try_for_each(|(n, thread)| {
            f.write_str(if n == 0 { ":" } else { "" })?;
            write!(f, "\n  {thread}")
        })
    }
}

impl Error for ShutdownTimeout {}

#[cfg(test)]
mod tests;
