//! The end of a runtime by a deadline, and the list of its threads with what each of them does.
//!
//! The list is read from the cores of all green threads and kernel threads of the process (`park/whereabouts.rs`), so spawning pays
//! a store for it. Where a green thread runs is told by its owner hint, which every mounting stores anyway: the LWP of that number has
//! not dispatched since, and the thread is mounted.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::Mxn;
use super::green::{self, Green};
use super::lwp::Lwp;
use super::sched::{INTERRUPTING, Scheduler};
use crate::park::owner::OwnerHint;
use crate::park::{current, registry};
use crate::shim::atomic::Ordering;
use crate::sys::task_state::{TaskState, Tasks};
use crate::thread::census::{Census, KernelThreadInfo, ThreadInfo, Unstopped, Whence, drain, see_off};
use crate::time;

impl Mxn {
    /// Waits for all threads of the runtime to end, for at most `timeout`, and then ends its kernel threads.
    ///
    /// With half of the time over, all threads are [interrupted](crate::thread::Thread::interrupt): from then on every wait of theirs that
    /// can be interrupted gives the error, each time anew, [`thread::interrupted`](crate::thread::interrupted) says `true`, and they start
    /// no more threads. A `timeout` of zero interrupts at once.
    ///
    /// The kernel threads run a little longer than the threads: destructors of pthread keys run there, and with
    /// [pinned](super::Builder::pinned) threads those of thread-locals. They get the time that is left, or a second if that is more.
    ///
    /// Called by one of the runtime's own threads, it waits for the others, and the runtime ends with the caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Mxn, Runtime, thread};
    /// use std::time::Duration;
    ///
    /// let rt = Mxn::new()?;
    /// rt.spawn(|| while thread::sleep_interruptible(Duration::from_secs(1)).is_ok() {});
    /// rt.shutdown(Duration::from_millis(100))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unstopped`], which lists the threads that have not ended, and what they do. They go on, and the runtime ends with the
    /// last of them, as if it had been dropped by one of its threads. Or the kernel threads, if all threads have ended. In a fork of the process that built the runtime, always, and
    /// at once.
    ///
    /// # Blocks
    ///
    /// The calling thread, until all others have ended or the time is over.
    pub fn shutdown(self, timeout: Duration) -> Result<(), Unstopped> {
        let scheduler = self.scheduler.forever();
        if !scheduler.life.process.is_mine() {
            return Err(Unstopped::in_fork());
        }
        scheduler.close();
        let deadline = time::after(timeout);
        let own = u64::from(self.is_own());
        let none_left = || scheduler.live_threads() <= own;
        if !drain(timeout, none_left, || scheduler.interrupt_all()) {
            let threads = scheduler.threads();
            // Otherwise the last ones have ended this moment, and are not counted yet.
            if !threads.is_empty() {
                self.let_go();
                return Err(Unstopped::new(threads));
            }
        }
        // Nothing is left to wait for but kernel threads on their way out. The crew goes when all threads are counted as gone.
        if own > 0 || see_off(deadline, || scheduler.crew.try_join_all() && scheduler.graveyard.try_close()) {
            return Ok(());
        }
        let crew = scheduler.crew.left().into_iter();
        let crew = crew.map(|it| KernelThreadInfo::new(None, Some(it.name.clone()), it.tid(), is_asleep));
        let ended = scheduler.graveyard.left().into_iter();
        let left = crew.chain(ended.map(|ended| KernelThreadInfo::of_ended(ended, is_asleep))).collect();
        self.let_go();
        Err(Unstopped::at_their_end(left))
    }

    /// Drops the runtime without waiting for its threads: the last of them ends it.
    fn let_go(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, out of a value that is not dropped.
        let scheduler: Arc<Scheduler> = unsafe { ptr::read(&this.scheduler) };
        scheduler.crew.detach_all();
    }
}

impl Scheduler {
    /// Where the cores of its threads say that they belong.
    pub(super) fn home(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Ends all waits of its threads that can be interrupted: those to come too.
    fn interrupt_all(&'static self) {
        // Release: what the caller did comes before what the threads do about it. Those who sleep get it with the lock of their place.
        self.life.phase.fetch_max(INTERRUPTING, Ordering::Release);
        let home = self.home();
        green::all().for_each(|green| green.thread().interrupt_one_of_all(home));
        registry::all().for_each(|kernel| kernel.thread().interrupt_one_of_all(home));
    }

    /// Its threads but the calling one, and what they do. It may allocate: not for dispatchers.
    pub(super) fn threads(&'static self) -> Vec<ThreadInfo> {
        let mut census = Census::default();
        let me = current::try_current();
        let home = self.home();
        for green in green::all().filter(|green| Some(green.thread()) != me) {
            if let Some((glimpse, whence)) = green.thread().glimpse(home, || self.whence(green)) {
                census.add(&green.core, glimpse, whence);
            }
        }
        census.add_kernel_threads(home, is_asleep);
        census.report()
    }

    /// Whether a thread that may be one of its own runs, and how its LWP does.
    fn whence(&'static self, green: &Green) -> Whence {
        let hint = OwnerHint::from_bits(green.core.owner_hint.load(Ordering::Relaxed));
        let runs_on = |lwp: &&Lwp| lwp.tick.hint() == hint;
        if !green.mounted.is_set() {
            return Whence::Queued;
        }
        // Acquire: as in the monitor's round.
        let tid = self.pool.lwps().find(runs_on).map(|lwp| lwp.tid.load(Ordering::Acquire));
        match tid {
            Some(tid) if is_asleep(tid) => Whence::InKernel(tid),
            tid => Whence::OnCpu(tid),
        }
    }
}

fn is_asleep(tid: u32) -> bool {
    Tasks::SHARED.state(tid.cast_signed()).is_ok_and(TaskState::is_asleep)
}
