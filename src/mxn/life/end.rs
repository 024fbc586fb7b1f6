//! When a runtime stops, how its LWPs are told, and what keeps it from that: visits.
//!
//! A handle may outlive the runtime of its thread. So code that comes by a handle first visits the runtime:
//! while it does, the runtime does not end.

use crate::mxn::sched::Scheduler;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{Ordering, fence};
use crate::shim::global;

impl Scheduler {
    /// Returns `true` if the runtime was dropped and has no thread, and no visitor is in it.
    pub(in crate::mxn) fn may_stop(&self) -> bool {
        if !self.life.is_closed() || self.live_threads() > 0 {
            return false;
        }
        Visit::close();
        // After the counts of threads: a visitor owned a thread when it came.
        self.life.is_left()
    }

    /// Returns how many threads have been spawned and have not ended.
    ///
    /// Ends are read before spawns, each from counters that only grow. If the sums are equal, no thread was
    /// alive at a moment between the two reads. A runtime that was dropped gets threads only from its
    /// threads.
    pub(crate) fn live_threads(&self) -> u64 {
        let ended: u64 = self.pool.all().map(|lwp| lwp.counters.ended.get()).sum();
        let ended = ended + self.life.ended_elsewhere();
        fence(Ordering::SeqCst);
        let spawned: u64 = self.pool.all().map(|lwp| lwp.counters.spawned.get()).sum();
        spawned + self.life.spawned_elsewhere() - ended
    }

    /// Tells all LWPs to end.
    pub(crate) fn stop(&self) {
        self.life.stop();
        // Pairs with the fences of `Idle::enter` and `wait_for_slot`. An LWP may prepare to sleep after it
        // was woken here, or may not be known here yet. It then sees that it must not sleep.
        fence(Ordering::SeqCst);
        self.reserve_state.ask();
        for lwp in self.pool.lwps() {
            self.wake_lwp(lwp);
        }
    }
}

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
