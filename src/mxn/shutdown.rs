//! The end of a runtime by a deadline.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::Mxn;
use super::green;
use super::sched::Scheduler;
use crate::park::core_pool;
use crate::runtime::registry;
use crate::sys::task_state::is_asleep;
use crate::thread::info::ThreadState;
use crate::thread::kernel::Host;
use crate::thread::shutdown_report::{KernelThreadInfo, ShutdownTimeout, drain, see_off};
use crate::time;

impl Mxn {
    /// Waits for all threads of the runtime to end, for at most `timeout`, and then ends its kernel threads.
    ///
    /// After half of that time, it [interrupts](crate::thread::Thread::interrupt) all threads. From then on,
    /// every wait of theirs that can be interrupted returns the error, each time anew.
    /// [`thread::take_interrupt`](crate::thread::take_interrupt) returns `true`, and the threads start no
    /// more threads. A `timeout` of zero interrupts at once.
    ///
    /// The kernel threads run a little longer than the threads: destructors of pthread keys run there, and
    /// with [pinned](super::Builder::pinned) threads those of thread-locals. They get the time that is left,
    /// or a second if that is more.
    ///
    /// If one of the runtime's own threads calls this, it waits for the others, and the runtime ends with the
    /// caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Mxn, Runtime, Wait, thread};
    /// use std::time::Duration;
    ///
    /// let rt = Mxn::new()?;
    /// let second = Duration::from_secs(1);
    /// rt.spawn(move || while thread::sleep_with(Wait::timeout(second).interruptible()).is_ok() {});
    /// rt.shutdown(Duration::from_millis(100))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ShutdownTimeout`], which lists the threads that have not ended, and what they do. They go on, and
    /// the runtime ends with the last of them, as if one of its threads had dropped it. If all threads have
    /// ended, the list is of kernel threads. In a fork of the process that built the runtime, always, and at
    /// once.
    ///
    /// # Blocks
    ///
    /// The calling thread, until all others have ended or the time is over.
    pub fn shutdown(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        let scheduler = self.scheduler.forever();
        if !scheduler.life.is_here() {
            return Err(ShutdownTimeout::in_fork());
        }
        registry::ends(scheduler);
        scheduler.close();
        let deadline = time::after(timeout);
        let own = u64::from(scheduler.is_own());
        let none_left = || scheduler.live_threads() <= own;
        if !drain(timeout, none_left, || scheduler.interrupt_all()) {
            let unstopped = ShutdownTimeout::without_caller(scheduler.threads());
            // Otherwise the last ones have ended at this moment, and are not counted yet.
            if !unstopped.threads().is_empty() {
                self.let_go();
                return Err(unstopped);
            }
        }
        // Nothing is left to wait for but kernel threads on their way out. The runtime's own go when all
        // threads are counted as gone.
        if own > 0
            || see_off(deadline, || scheduler.kernel_threads.try_join_all() && scheduler.reaper.try_close())
        {
            return Ok(());
        }
        let running = scheduler.kernel_threads.left().into_iter();
        let running = running.map(|it| {
            KernelThreadInfo::new(it.name.clone(), ThreadState::on_kernel_thread(it.tid(), is_asleep))
        });
        let ended = scheduler.reaper.left().into_iter();
        let left = running.chain(ended.map(|ended| KernelThreadInfo::of_ended(ended, is_asleep))).collect();
        self.let_go();
        Err(ShutdownTimeout::at_their_end(left))
    }

    /// Drops the runtime without waiting for its threads. The last of them ends it.
    fn let_go(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, out of a value that is not dropped.
        let scheduler: Arc<Scheduler> = unsafe { ptr::read(&this.scheduler) };
        scheduler.kernel_threads.detach_all();
    }
}

impl Scheduler {
    /// Ends all waits of its threads that can be interrupted, and those to come.
    fn interrupt_all(&'static self) {
        self.life.interrupt();
        let home = self.home();
        green::all().for_each(|green| green.thread().interrupt_one_of_all(home));
        core_pool::all().for_each(|kernel| kernel.thread().interrupt_one_of_all(home));
    }
}
