//! The 1:1 runtime: every thread is a kernel thread.
//!
//! [`OneToOne`] is the runtime as a value, and [`Builder`] has its settings. The
//! [guide](crate::guide::choosing) tells when to choose it.
//!
//! There is no scheduler here: the kernel's is used. This backend adds to a kernel thread what makes it a
//! thread of Selvedge: an identity, a permit, a waiter for wait queues, and an end that can be waited for
//! with a deadline. The code is in `thread/kernel.rs`, which the bound threads of `mxn` use too.
//!
//! A runtime is a count of its living threads and a default stack size. Its threads share it, so it exists as
//! long as one of them lives. The value that the program holds adds only the wait of its `drop`.

mod config;
mod live;
mod shutdown;

use std::fmt;
use std::io;
use std::ptr;
use std::sync::{Arc, Weak};

pub use self::config::Builder;
use self::live::Live;
use crate::park::backend::{Cpus, SpawnOptions, Spawner, Task, TaskRef};
use crate::park::thread::ThreadRef;
use crate::park::{core_pool, current, fork};
use crate::runtime::{Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::sys;
use crate::sys::fork::Generation;
use crate::sys::once::OnceLock;
use crate::thread::deadlock::Deadlocks;
use crate::thread::kernel::{self, Host, Reaper};

/// The kernel keeps the futexes of a process in a hash table of 16 buckets for each CPU, until it is asked
/// for more. With this many, thousands of threads sleep without meeting in one bucket. A power of two.
const FUTEX_SLOTS: u32 = 16_384;

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

/// What the threads of a runtime share with it.
struct Inner {
    me: Weak<Inner>,
    live: Live,
    reaper: Reaper,
    stack_size: usize,
    /// All threads are to end.
    interrupting: AtomicBool,
    /// The process that has the threads.
    process: Generation,
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

    fn start(stack_size: usize) -> io::Result<Self> {
        static GROW_HASH: OnceLock<()> = OnceLock::new();
        GROW_HASH.get_or_init(|| {
            // A kernel that cannot do this is slower with thousands of sleepers, but still right.
            sys::futex::grow_hash(FUTEX_SLOTS);
        });
        let process = fork::watch()?;
        let inner = Arc::new_cyclic(|me| Inner {
            me: Weak::clone(me),
            live: Live::new(),
            reaper: Reaper::new(),
            stack_size,
            interrupting: AtomicBool::new(false),
            process,
        });
        Ok(Self { inner })
    }

    /// Returns `true` if the calling thread is one of this runtime.
    fn is_mine(&self) -> bool {
        let mine = Arc::as_ptr(&self.inner);
        let caller = current::try_current().and_then(|me| me.spawner());
        caller.is_some_and(|spawner| ptr::addr_eq(spawner, mine))
    }
}

impl Inner {
    /// Returns how many threads live; in a fork, how many of them are there.
    fn threads(&self) -> usize {
        if self.process.is_mine() { self.live.count() } else { fork::left_of(ptr::from_ref(self).addr()) }
    }
}

impl Spawner for Inner {
    fn interrupts_all(&self) -> bool {
        // Relaxed: a thread that misses it is interrupted in its sleep.
        self.interrupting.load(Ordering::Relaxed)
    }

    fn spawn(&self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if !self.process.is_mine() {
            return Err(fork::refusal());
        }
        if self.interrupts_all() {
            return Err(io::Error::other("the runtime is shutting down: it starts no more threads"));
        }
        let host =
            self.me.upgrade().expect("the spawner owns a share: the runtime's value or a thread of it");
        // What the new thread maps by itself must still fit after its stack.
        sys::mmap::check_headroom(options.stack_size.unwrap_or(self.stack_size))?;
        let counted = host.live.enter();
        let spawned = kernel::spawn(&host, task, options, host.stack_size)?;
        counted.stays();
        Ok(spawned)
    }
}

impl Host for Inner {
    fn thread_ended(&self) {
        self.live.leave();
    }

    fn is_here(&self) -> bool {
        self.process.is_mine()
    }

    fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    fn pin(&self, cpus: &Cpus) -> io::Result<()> {
        sys::affinity::pin(&cpus.0)
    }

    fn run(&self, me: ThreadRef, task: Task) {
        core_pool::tell_tid(me, sys::kthread::gettid().cast_unsigned());
        sys::sigstack::watched(me.name(), Some(me.id().get()), || task.run_for_good(me));
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
        let threads = self.inner.threads();
        RuntimeInfo {
            model: Self::NAME,
            thread_register: None,
            concurrency: sys::affinity::available(),
            lwps: threads,
            threads,
        }
    }

    fn stats(&self) -> RuntimeStats {
        RuntimeStats::of_kernel_threads(&self.info())
    }

    fn deadlocks(&self) -> Deadlocks {
        if !self.inner.process.is_mine() {
            // In a fork, the runtime's threads do not exist.
            return Deadlocks::default();
        }
        Deadlocks::of(Arc::as_ptr(&self.inner).addr())
    }
}

impl Drop for OneToOne {
    fn drop(&mut self) {
        if !self.inner.process.is_mine() {
            // In a fork, nothing will ever end its threads.
            std::mem::forget(Arc::clone(&self.inner));
            return;
        }
        if !self.is_mine() {
            self.inner.live.wait();
            self.inner.reaper.close();
        }
    }
}

impl fmt::Debug for OneToOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneToOne").field("threads", &self.inner.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
