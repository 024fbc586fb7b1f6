//! M:N: green threads with stacks of their own, over a pool of kernel threads (LWPs).
//!
//! [`Mxn`] is the runtime as a value. [`Builder`] has its settings, each with its default and the environment
//! variable that changes it. The chapters of the [guide](crate::guide) tell when to
//! [choose](crate::guide::choosing) it, and what happens to threads that [block](crate::guide::blocking) or
//! [never yield](crate::guide::time_slices).

mod backend;
mod backtrace;
pub(crate) mod config;
pub(crate) mod counter;
mod green;
mod kernel_threads;
mod life;
mod lwp;
mod lwp_set;
mod masks;
mod monitor;
mod preempt;
mod run_queue;
mod sched;
mod shutdown;
mod slots;
pub(crate) mod start;
mod stats;
mod threads;
mod timer;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use self::config::Builder;
use self::sched::Scheduler;
use crate::fiber::stack;
use crate::interpose;
use crate::park::current;
use crate::runtime::registry::Observed;
use crate::runtime::{Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::thread::deadlock::Deadlocks;
use crate::thread::{ThreadChanges, ThreadCursor, ThreadInfo, ThreadPage, ThreadsSeen};

/// Returns `true` if the caller is a dispatcher: on an LWP's own thread register, with no green thread
/// mounted. For the tests of I4.
#[doc(hidden)]
pub fn in_dispatcher() -> bool {
    // On `Pinned`, green threads share the register.
    lwp::dispatches().is_some() && current::try_current().is_none()
}

/// Gives the memory of free stacks back to the system, but of `keep` stacks of each size. Returns how many
/// stacks have lost theirs.
///
/// Stacks of green threads that have ended belong to the process. They keep their memory for the next
/// threads, up to 16,384 of each size. What is beyond that is given back in the background, and when a
/// runtime ends. So a program needs this only if it wants the rest back, too. It works without a runtime. A
/// few stacks are not found: each LWP has up to 128 of each size at hand, and of stacks of more than 1 MiB no
/// more than 128 MiB, or two.
///
/// It takes about a microsecond a stack, and blocks the calling kernel thread meanwhile.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, mxn, thread};
///
/// let rt = Mxn::new()?;
/// let crowd: Vec<_> = (0..1_000).map(|_| rt.spawn(thread::park)).collect();
/// for thread in crowd {
///     thread.thread().unpark();
///     thread.join().unwrap();
/// }
/// drop(rt);
/// assert!(mxn::trim_stacks(0) > 0);
/// # std::io::Result::Ok(())
/// ```
pub fn trim_stacks(keep: usize) -> usize {
    stack::trim_to(keep)
}

/// A runtime of green threads.
///
/// Dropping it waits for all of its threads and then ends its kernel threads. If one of its own threads drops
/// it, it lets go instead, and ends by itself with the last of them.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime};
///
/// let rt = Mxn::new()?;
/// let sum: u64 = (0..1000u64).map(|n| rt.spawn(move || n)).map(|t| t.join().unwrap()).sum();
/// assert_eq!(sum, 499_500);
/// # std::io::Result::Ok(())
/// ```
pub struct Mxn {
    scheduler: Arc<Scheduler>,
}

impl Mxn {
    /// Creates a runtime with the default settings, or those of the environment: `Mxn::builder().build()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Returns a builder that has every setting's default.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Starts the runtime: its LWPs, a reserve of spare ones, and its monitor.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::Mxn::builder().concurrency(2).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a setting, or the environment variable that stands in for one, is not valid.
    /// `Unsupported` if green threads cannot have thread registers of their own here. Otherwise the error
    /// that kept kernel threads or memory from being had.
    ///
    /// # Blocks
    ///
    /// The calling thread, for some kernel threads' starts.
    pub fn build(self) -> io::Result<Mxn> {
        Ok(Mxn { scheduler: start::start(self.resolve()?)? })
    }
}

impl Drop for Mxn {
    fn drop(&mut self) {
        self.scheduler.end();
    }
}

impl Runtime for Mxn {
    const NAME: &'static str = "mxn";

    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            model: Self::NAME,
            thread_register: Some(self.scheduler.rung),
            concurrency: self.concurrency(),
            lwps: self.scheduler.count_lwps(),
            threads: self.scheduler.count_threads().0,
            interposed: interpose::is_on(),
            cpus: self.scheduler.settings.cpus.clone(),
        }
    }

    fn stats(&self) -> RuntimeStats {
        self.scheduler.stats()
    }

    fn threads(&self) -> Vec<ThreadInfo> {
        self.scheduler.forever().threads()
    }

    fn threads_page(&self, from: ThreadCursor, max: usize) -> ThreadPage {
        Observed::threads_page(&*self.scheduler, from, max, None)
    }

    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges {
        Observed::threads_changed(&*self.scheduler, seen, max)
    }

    fn deadlocks(&self) -> Deadlocks {
        Observed::deadlocks(&*self.scheduler)
    }
}

impl sealed::Sealed for Mxn {
    fn spawner(&self) -> sealed::SpawnerRef<'_> {
        sealed::SpawnerRef(&*self.scheduler)
    }
}

impl fmt::Debug for Mxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mxn").field(&self.info()).finish()
    }
}

#[cfg(test)]
mod tests;
