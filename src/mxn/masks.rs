//! The signal masks of threads, and of LWPs that run none, as far as the runtime as a whole is concerned. The
//! rest is in `lwp/mask.rs`.

use std::time::Duration;

use super::lwp::Lwp;
use super::lwp::mask;
use super::sched::Scheduler;
use crate::shim;
use crate::shim::atomic::AtomicU32;
use crate::shim::futex;
use crate::sys::preempt::Mask;

/// Between two looks at LWPs that are to block a signal.
const PAUSE: Duration = Duration::from_micros(50);
/// How many looks there are. An LWP without a thread sleeps, or runs one, within microseconds.
const LOOKS: u32 = 20_000;

impl Scheduler {
    /// Returns what a thread blocks at first that was started with `mask`. The preemption signal is never in
    /// that.
    pub(super) fn first_mask(&self, mask: Option<u64>) -> Mask {
        mask.map_or_else(|| self.kernel_threads.usual_mask(), |mask| self.without_ours(mask))
    }

    fn without_ours(&self, mask: u64) -> Mask {
        let ours = self.settings.preemption_signal.filter(|_| self.signals);
        Mask::from_bits(mask & !ours.map_or(0, |signal| 1 << (signal - 1)))
    }

    /// Makes LWPs that run no threads block these signals. Returns when they block `added`. Others that they
    /// block, spares unblock soon, and idle LWPs when they next fall asleep. (The LWP of the thread that
    /// wants such a signal is the first. While any LWP runs, one naps; but if all run, spares alone can
    /// handle it.)
    pub(super) fn close_idle(&'static self, mask: u64, added: u64) {
        if !self.life.is_here() {
            return;
        }
        let mask = self.without_ours(mask);
        mask::set_idle(mask);
        let added = added & mask.bits();
        let is_open = |lwp: &Lwp| !lwp.mask.blocks(added);
        let is_shut = |lwp: &Lwp| !lwp.slot.is_held() && lwp.mask.get() != Some(mask);
        let mut in_set = false;
        for lwp in self.pool.lwps().filter(|lwp| is_open(lwp) || is_shut(lwp)) {
            in_set |= lwp.sleep.nudge();
        }
        if in_set {
            self.ring();
        }
        for lwp in self.pool.lwps().filter(|lwp| is_open(lwp)) {
            let word = AtomicU32::new(0);
            for _ in 0..LOOKS {
                if Self::is_closed(lwp, added) {
                    break;
                }
                let _ = futex::wait(&word, 0, Some(shim::now() + PAUSE));
            }
        }
    }

    /// Returns `true` if a signal of `added` is handled on that LWP only for a thread that runs there.
    fn is_closed(lwp: &Lwp, added: u64) -> bool {
        lwp.mask.blocks(added)
            || !lwp.life.lives()
            || lwp.running().is_some_and(|it| !it.core.is_done() && lwp.mask.get() == Some(it.mask()))
    }
}
