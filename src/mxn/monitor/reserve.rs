//! The thread that keeps a reserve of spare LWPs: the one place that makes kernel threads while a runtime runs (I4).

use std::time::{Duration, Instant};

use crate::mxn::sched::Scheduler;
use crate::mxn::stack;
use crate::shim::atomic::Ordering;
use crate::shim::futex;

/// Spares that wait, beyond the LWPs that have slots, in a runtime that has needed none.
pub(crate) const RESERVE: usize = 2;
/// Spares made at most in one go, when they are used up as fast as they are made.
const LARGEST_BATCH: usize = 16;
/// Between two magazines of stacks whose memory is given back, which takes about a tenth of this.
const TRIM_PAUSE: Duration = Duration::from_millis(1);

impl Scheduler {
    /// Asks for the reserve to be looked at. Any context: a store and a futex wake.
    pub(crate) fn refill_reserve(&self) {
        self.watch.refill.store(1, Ordering::Release);
        futex::wake(&self.watch.refill, 1);
    }

    /// Sees to it that `spares` stand by from now on; `true`: they do, or there can be no more.
    pub(crate) fn widen_reserve(&self, spares: usize) -> bool {
        let spares = spares.max(RESERVE);
        // Relaxed: a number; the futex wake of `refill_reserve` comes after.
        if self.watch.reserve.swap(spares, Ordering::Relaxed) != spares {
            self.refill_reserve();
        }
        self.pool.spares() >= spares || !self.pool.has_room() || self.watch.refused.load(Ordering::Relaxed)
    }

    /// The life of the thread that fills the reserve; returns when the runtime stops.
    pub(crate) fn keep_reserve(&'static self) {
        let mut batch = RESERVE;
        while !self.is_stopping() {
            // Acquire: pairs with `refill_reserve`.
            if self.watch.refill.swap(0, Ordering::Acquire) == 0 {
                // Meanwhile, a little at a time, what too many ended threads have left.
                let pause = stack::trim().then(|| Instant::now() + TRIM_PAUSE);
                let _ = futex::wait(&self.watch.refill, 0, pause);
                continue;
            }
            let reserve = self.watch.reserve.load(Ordering::Relaxed).max(RESERVE);
            let missing = reserve.saturating_sub(self.pool.spares());
            if missing == 0 {
                batch = RESERVE;
                continue;
            }
            for _ in 0..batch.max(missing) {
                if !self.pool.has_room() || self.is_stopping() || self.add_lwp().is_err() {
                    // The bound, or the system's: sleepers come back, and their LWPs with them.
                    self.watch.starved.fetch_add(1, Ordering::Relaxed);
                    self.watch.refused.store(true, Ordering::Relaxed);
                    break;
                }
            }
            batch = (2 * batch).min(LARGEST_BATCH);
        }
    }
}
