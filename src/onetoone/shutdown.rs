//! The end of a 1:1 runtime by a deadline.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::{Inner, OneToOne};
use crate::park::registry;
use crate::shim::atomic::Ordering;
use crate::sys::task_state::{TaskState, task_state};
use crate::thread::census::{Census, Unstopped, drain};

impl OneToOne {
    /// Waits for all threads of the runtime to end, for at most `timeout`.
    ///
    /// With half of the time over, all threads are [interrupted](crate::thread::Thread::interrupt): from then on every wait of theirs that
    /// can be interrupted gives the error, each time anew, [`thread::interrupted`](crate::thread::interrupted) says `true`, and they start
    /// no more threads. A `timeout` of zero interrupts at once.
    ///
    /// Called by one of the runtime's own threads, it waits for the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, thread};
    /// use std::time::Duration;
    ///
    /// let rt = OneToOne::new()?;
    /// rt.spawn(|| while thread::sleep_interruptible(Duration::from_secs(1)).is_ok() {});
    /// rt.shutdown(Duration::from_millis(100))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unstopped`], which lists the threads that have not ended, and what they do. They go on. In a fork of the process that built
    /// the runtime, always, and at once.
    ///
    /// # Blocks
    ///
    /// The calling thread, until all others have ended or the time is over.
    pub fn shutdown(self, timeout: Duration) -> Result<(), Unstopped> {
        if !self.inner.process.is_mine() {
            return Err(Unstopped::in_fork());
        }
        let own = usize::from(self.is_mine());
        let none_left = || self.inner.live.count() <= own;
        let home = Arc::as_ptr(&self.inner).addr();
        let interrupt = || {
            // Release: what the caller did comes before what the threads do about it.
            self.inner.interrupting.store(true, Ordering::Release);
            registry::all().for_each(|kernel| kernel.thread().interrupt_one_of_all(home));
        };
        if drain(timeout, none_left, interrupt) {
            return Ok(());
        }
        let mut census = Census::default();
        census.add_kernel_threads(home, |tid| task_state(tid.cast_signed()).is_ok_and(TaskState::is_asleep));
        let threads = census.report();
        if threads.is_empty() {
            // The last ones have ended this moment, and are not counted yet.
            return Ok(());
        }
        // The threads keep what they share.
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, out of a value that is not dropped.
        drop(unsafe { ptr::read::<Arc<Inner>>(&this.inner) });
        Err(Unstopped::new(threads))
    }
}
