//! The end of a 1:1 runtime by a deadline.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::OneToOne;
use super::inner::Inner;
use crate::park::core_pool;
use crate::sys::task_state::is_asleep;
use crate::thread::kernel::Host;
use crate::thread::shutdown_report::{KernelThreadInfo, ShutdownTimeout, drain, see_off};
use crate::time;

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
