//! The 1:1 runtime: every thread is a kernel thread.
//!
//! [`OneToOne`] is the runtime as a value, and [`Builder`] has its settings. The
//! [guide](crate::guide::choosing) tells when to choose it.
//!
//! There is no scheduler here: the kernel's is used. This backend adds to a kernel thread what makes it a
//! thread of Selvedge: an identity, a permit, and a waiter for wait queues. It also adds an end that can be
//! waited for with a deadline. The code is in `thread/kernel.rs`, which the bound threads of `mxn` use too.
//!
//! A runtime is a count of its living threads and a default stack size. Its threads share it, so it exists as
//! long as one of them lives. The value that the program holds adds only the wait of its `drop`.

pub(crate) mod config;
pub(crate) mod inner;
mod shutdown;

use std::io;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

pub use self::config::Builder;
use self::inner::Inner;
use crate::backtrace::Unwinder;
use crate::interpose;
use crate::park::observed;
use crate::recorder::session;
use crate::runtime::registry::{self, Facts, Observed};
use crate::runtime::{LatencyHistogram, Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::sys::{self, task_state};
use crate::thread::deadlock::Deadlocks;
use crate::thread::kernel::Host;
use crate::thread::snapshot::{Looks, Position};
use crate::thread::{ThreadChanges, ThreadCursor, ThreadInfo, ThreadPage, ThreadsSeen};

/// The 1:1 runtime: each thread is a kernel thread, scheduled by the kernel.
///
/// Dropping it waits for all its threads. If one of its threads drops it, it is left to the last of them.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime, thread};
///
/// let rt = OneToOne::new()?;
/// let sum: u32 = rt.run(|| (1..=3).map(|n| thread::spawn(move || n)).map(|t| t.join().unwrap()).sum());
/// assert_eq!(sum, 6);
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// `drop` blocks the calling thread until all threads of the runtime have ended.
pub struct OneToOne {
    inner: Arc<Inner>,
}

impl OneToOne {
    /// Creates a runtime with the default settings: `OneToOne::builder().build()`.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::OneToOne::new()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an environment variable has a value that is not valid.
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::OneToOne::builder().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Creates the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::OneToOne;
    ///
    /// let error = OneToOne::builder().stack_size(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    ///
    /// # Errors
    ///
    /// If the stack size is 0 or more than 1 TiB, an environment variable is not valid, or there is no
    /// memory.
    pub fn build(self) -> io::Result<OneToOne> {
        Ok(OneToOne { inner: inner::start(self.resolve()?)? })
    }
}

impl sealed::Sealed for OneToOne {
    fn spawner(&self) -> sealed::SpawnerRef<'_> {
        sealed::SpawnerRef(&*self.inner)
    }
}

impl Runtime for OneToOne {
    const NAME: &'static str = "onetoone";

    fn info(&self) -> RuntimeInfo {
        self.inner.info()
    }

    fn stats(&self) -> RuntimeStats {
        Observed::stats(&*self.inner)
    }

    fn threads(&self) -> Vec<ThreadInfo> {
        self.inner.list_threads()
    }

    fn threads_page(&self, from: ThreadCursor, max: usize) -> ThreadPage {
        Observed::threads_page(&*self.inner, from, max, None)
    }

    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges {
        Observed::threads_changed(&*self.inner, seen, max)
    }

    fn deadlocks(&self) -> Deadlocks {
        Observed::deadlocks(&*self.inner)
    }
}

impl Observed for Inner {
    fn stats(&self) -> RuntimeStats {
        let mut stats = RuntimeStats::of_kernel_threads(&self.info());
        if self.process.is_mine() && observed::is_traced() {
            let mut latency = LatencyHistogram::default();
            if let Some((counts, sum)) = self.waits.look(session::current()) {
                latency.add(&counts, sum);
            }
            stats.run_queue_latency = Some(latency);
        }
        stats
    }

    fn threads_page(&self, from: ThreadCursor, max: usize, unwinder: Option<&mut Unwinder>) -> ThreadPage {
        if !self.process.is_mine() {
            return ThreadPage::in_fork(self.home(), from);
        }
        let mut looks = Looks::new(self.home(), unwinder);
        let next = looks.add_from(from.0, max.max(1), ask_kernel);
        ThreadPage::new(looks.into_infos(false), next)
    }

    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges {
        if !self.process.is_mine() {
            return ThreadChanges::in_fork(self.home());
        }
        seen.walk(self.home(), max.max(1), |looks, from, most| {
            looks.add_from(from, looks.len().saturating_add(most), ask_kernel)
        })
    }

    fn deadlocks(&self) -> Deadlocks {
        // In a fork, the runtime's threads do not exist.
        if self.process.is_mine() { Deadlocks::of(self.home()) } else { Deadlocks::default() }
    }

    fn lwp_times(&self, _: usize) -> Option<[Duration; 4]> {
        None
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn facts(&self) -> Facts {
        let info = self.info();
        let [lwps, concurrency] = [info.lwps, info.concurrency].map(|it| it as u64);
        Facts { number: self.number.into(), concurrency, lwps, slice: u64::MAX, ..Facts::default() }
    }

    /// Begins the count of waits. The rest of the trace of kernel threads is the process's.
    fn follow_trace(&self) {
        // Another thread may switch the trace off and on meanwhile.
        while observed::is_traced() {
            let session = session::current();
            self.waits.begin_once(session);
            if session == session::current() {
                break;
            }
        }
    }
}

impl Inner {
    /// Returns where the cores of its threads say that they belong.
    fn home(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns its threads, and what they do.
    fn list_threads(&self) -> Vec<ThreadInfo> {
        if !self.process.is_mine() {
            return Looks::in_fork(self.home());
        }
        let mut looks = Looks::new(self.home(), None);
        looks.add_from(Position::Start, usize::MAX, ask_kernel);
        looks.into_sorted()
    }

    fn info(&self) -> RuntimeInfo {
        let threads = self.threads();
        RuntimeInfo {
            model: OneToOne::NAME,
            thread_register: None,
            concurrency: sys::affinity::available(),
            lwps: threads,
            threads,
            interposed: interpose::is_on(),
            cpus: None,
        }
    }
}

/// Asks the kernel if a kernel thread is asleep, and for its CPU.
fn ask_kernel(tid: u32) -> Option<(bool, Option<u32>)> {
    task_state::look(tid).map(|look| (look.asleep, look.cpu))
}

impl Drop for OneToOne {
    fn drop(&mut self) {
        if !self.inner.process.is_mine() {
            // In a fork, nothing will ever end its threads.
            std::mem::forget(Arc::clone(&self.inner));
            return;
        }
        registry::ends(&*self.inner);
        if !self.inner.is_own() {
            self.inner.live.wait();
            self.inner.reaper.close();
        }
    }
}

crate::shown::debug! { [] OneToOne: "OneToOne", "threads": |runtime| runtime.inner.threads() }

#[cfg(test)]
mod tests;
