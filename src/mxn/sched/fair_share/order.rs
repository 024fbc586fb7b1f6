//! How a scheduler counts the run time of its threads, and which preempted thread goes next. The header of
//! `fair_share` has the rules.

use std::ptr::NonNull;

use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::policy::{CANDIDATES, GRAIN};
use crate::mxn::sched::{Scheduler, deref};

impl Scheduler {
    /// Adds the time since the last dispatch to the thread that this LWP runs.
    #[cold]
    pub(crate) fn count_share(&self, lwp: &'static Lwp) {
        let now = self.clock.now();
        let since = lwp.counted.replace(now).max(self.shares.counted_since());
        let Some(running) = lwp.running() else { return };
        let more = now.saturating_sub(since);
        let ran = self.shares.add(running.ran(), more);
        running.set_ran(ran);
        running.set_ahead(self.shares.is_ahead(ran));
        let in_all = lwp.shared_out.get() + more;
        if in_all >= GRAIN {
            self.shares.advance(in_all, ran);
        }
        lwp.shared_out.set(if in_all >= GRAIN { 0 } else { in_all });
    }

    /// Does the same for the dispatcher, if it counts.
    #[inline]
    pub(in crate::mxn::sched) fn count_if_told(&self, lwp: &'static Lwp) {
        if lwp.flags.counts() {
            self.count_share(lwp);
        }
    }

    /// Takes a preempted thread: of the oldest, the one that has run least.
    #[cold]
    pub(in crate::mxn::sched) fn pop_preempted(&'static self) -> Option<NonNull<Green>> {
        self.pop_of(CANDIDATES, u64::MAX)
    }

    /// Takes the preempted thread that has waited longest.
    #[cold]
    pub(in crate::mxn::sched) fn pop_oldest(&'static self) -> Option<NonNull<Green>> {
        self.pop_of(1, u64::MAX)
    }

    /// Returns `true` if a preempted thread is to go before a fresh thread that has run for `ran`.
    #[inline]
    pub(in crate::mxn::sched) fn is_one_behind(&self, ran: u64) -> bool {
        self.preempted.len() > 0 && self.shares.least() < self.shares.goes_behind(ran)
    }

    /// Takes a preempted thread if one is to go before a fresh thread that has run for `ran`.
    #[inline]
    pub(in crate::mxn::sched) fn pop_behind(&'static self, ran: u64) -> Option<NonNull<Green>> {
        if !self.is_one_behind(ran) {
            return None;
        }
        self.pop_of(CANDIDATES, self.shares.goes_behind(ran))
    }

    /// Returns `true` if the next preempted thread has had its share.
    pub(in crate::mxn::sched) fn preempted_have_their_share(&self) -> bool {
        self.shares.least() > self.shares.fair()
    }

    #[inline]
    fn pop_of(&'static self, candidates: usize, below: u64) -> Option<NonNull<Green>> {
        if self.preempted.len() == 0 {
            return None;
        }
        let ran = |green: NonNull<Green>| deref(green).ran();
        let green = self.preempted.take_least(candidates, below, ran, |left| self.shares.set_least(left))?;
        deref(green).set_ahead(false);
        Some(green)
    }
}
