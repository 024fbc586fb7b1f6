//! What comes by the handle of a green thread: a change of its priority, and the end of its core.
//!
//! A handle may outlive the runtime of its thread. So code that comes by a handle first visits the runtime:
//! while it does, the runtime does not end.

use super::green::{self, Green};
use super::sched::Scheduler;
use crate::park::backend::CorePool;
use crate::park::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::global;

global! {
    // Orders visits, which come by a thread's handle, with the end of the runtime.
    static VISITS: QueueLock<()> = QueueLock::new(Rank::Pool, ());
}

/// Keeps a runtime from ending while code that came by the handle of one of its threads uses it.
pub(crate) struct Visit(&'static Scheduler);

impl Visit {
    /// Visits the runtime of a green thread, unless that has ended. The caller has a counted reference.
    pub(crate) fn of(thread: ThreadRef) -> Option<Self> {
        if thread.is_lost() {
            // Its runtime is a parent process's.
            return None;
        }
        // A runtime that ends counts all its threads as ended, takes this lock, and then must see no visitor.
        // If it takes the lock after this code, it sees the visitor. If it took it before, `is_done` says so.
        VISITS.with(|()| {
            if thread.is_done() {
                return None;
            }
            let scheduler = Scheduler::of(thread);
            scheduler.life.enter_locked();
            Some(Self(scheduler))
        })
    }

    /// Returns the runtime.
    pub(crate) fn scheduler(&self) -> &'static Scheduler {
        self.0
    }

    /// Makes the lock usable in a child of a fork, where no visit is under way.
    ///
    /// # Safety
    /// Called by the child's only thread, which is not inside [`Visit::of`].
    pub(crate) unsafe fn forget_all() {
        // SAFETY: the caller's promise.
        unsafe { VISITS.mend(|(), _| ()) };
    }

    /// Makes all later visits see that the threads have ended. Called at the end of a runtime.
    pub(crate) fn close() {
        VISITS.with(|()| ());
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.life.leave();
    }
}

/// The pool of the cores of all green threads, of all runtimes.
#[derive(Debug)]
pub(crate) struct Greens;

impl CorePool for Greens {
    fn reprioritized(&self, thread: ThreadRef) {
        if current::try_current() == Some(thread) {
            // It runs, so it is in no queue.
            return;
        }
        let _no_preempt = NoPreempt::hold();
        if let Some(visit) = Visit::of(thread) {
            // SAFETY: this is the pool of green threads' cores alone.
            visit.scheduler().reprioritize(unsafe { Green::of(thread) });
        }
    }

    fn recycle(&self, core: ThreadRef) {
        // SAFETY: this is the pool of green threads' cores alone.
        let green = unsafe { Green::of(core) };
        let _no_preempt = NoPreempt::hold();
        let me = current::try_current().filter(|me| !me.is_kernel());
        // SAFETY: only green threads own no kernel thread.
        match me.and_then(|me| unsafe { Green::of(me) }.lwp.get()) {
            Some(lwp) => lwp.greens.give_back(green),
            None => green::give_back_global(green),
        }
    }
}
