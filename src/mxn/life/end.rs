//! When a runtime stops, and how its LWPs are told.

use crate::mxn::sched::Scheduler;
use crate::mxn::visit::Visit;
use crate::shim::atomic::{Ordering, fence};

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
