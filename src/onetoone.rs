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

use std::io;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

pub use self::config::Builder;
use self::inner::Inner;
use crate::backtrace::Unwinder;
use crate::interpose;
use crate::park::{core_pool, observed};
use crate::recorder::session;
use crate::runtime::registry::{self, Facts, Observed};
use crate::runtime::{LatencyHistogram, Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::sys;
use crate::sys::task_state::{self, is_asleep};
use crate::thread::deadlock::Deadlocks;
use crate::thread::kernel::Host;
use crate::thread::shutdown_report::{KernelThreadInfo, ShutdownTimeout, drain, see_off};
use crate::thread::snapshot::{Looks, Position};
use crate::thread::{ThreadChanges, ThreadCursor, ThreadInfo, ThreadPage, ThreadsSeen};
use crate::time;

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

impl OneToOne {
    /// Waits for all threads of the runtime to end, for at most `timeout`.
    ///
    /// After half of that time, it [interrupts](crate::thread::Thread::interrupt) all threads. From then on,
    /// every wait of theirs that can be interrupted returns the error, each time anew.
    /// [`thread::take_interrupt`](crate::thread::take_interrupt) returns `true`, and the threads start no
    /// more threads. A `timeout` of zero interrupts at once.
    ///
    /// Their kernel threads run a little longer: destructors of pthread keys run there. Those of detached
    /// threads get the time that is left, or a second if that is more.
    ///
    /// If one of the runtime's own threads calls this, it waits for the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, Wait, thread};
    /// use std::time::Duration;
    ///
    /// let rt = OneToOne::new()?;
    /// let second = Duration::from_secs(1);
    /// rt.spawn(move || while thread::sleep_with(Wait::timeout(second).interruptible()).is_ok() {});
    /// rt.shutdown(Duration::from_millis(100))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ShutdownTimeout`], which lists the threads that have not ended, and what they do. They go on. If all
    /// threads have ended, the list is of kernel threads. In a fork of the process that built the runtime,
    /// always, and at once.
    ///
    /// # Blocks
    ///
    /// The calling thread, until all others have ended or the time is over.
    pub fn shutdown(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        if !self.inner.process.is_mine() {
            return Err(ShutdownTimeout::in_fork());
        }
        let deadline = time::after(timeout);
        let own = usize::from(self.inner.is_own());
        let none_left = || self.inner.live.count() <= own;
        let home = self.inner.home();
        let interrupt = || {
            self.inner.interrupt();
            core_pool::all().for_each(|kernel| kernel.thread().interrupt_one_of_all(home));
        };
        if !drain(timeout, none_left, interrupt) {
            let unstopped = ShutdownTimeout::without_caller(self.inner.list_threads());
            // Otherwise the last ones have ended at this moment, and are not counted yet.
            if !unstopped.threads().is_empty() {
                self.let_go();
                return Err(unstopped);
            }
        }
        // Nothing is left to wait for but kernel threads on their way out.
        if own > 0 || see_off(deadline, || none_left() && self.inner.reaper.try_close()) {
            return Ok(());
        }
        let ended = self.inner.reaper.left().into_iter();
        let left = ended.map(|ended| KernelThreadInfo::of_ended(ended, is_asleep)).collect();
        self.let_go();
        Err(ShutdownTimeout::at_their_end(left))
    }

    /// Drops the runtime without waiting for its threads. They keep what they share.
    fn let_go(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, out of a value that is not dropped.
        drop(unsafe { ptr::read::<Arc<Inner>>(&this.inner) });
    }
}

#[cfg(test)]
mod tests;
