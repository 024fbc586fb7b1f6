//! What can be seen of a scheduler from outside: every LWP, and the two kernel threads beside them.
//!
//! Nothing is counted for this that is not counted anyway. What an LWP does is read from its slot word and
//! its sleep word. If it has lost its slot, only the kernel knows whether it waits in the kernel or computes,
//! and is asked.

use std::time::Duration;

use super::kernel_threads::Helper;
use super::lwp::Lwp;
use super::sched::Scheduler;
use crate::backtrace::Unwinder;
use crate::park::{fork, observed};
use crate::recorder::account::{Look, State, Statement};
use crate::recorder::clock::{self, Scale};
use crate::recorder::session;
use crate::runtime::registry::{Facts, Observed};
use crate::runtime::{
    HelperStats, LatencyHistogram, LwpState, LwpStats, RunQueueLength, Runtime, RuntimeStats,
};
use crate::sys::preempt;
use crate::sys::task_state::{self, is_asleep};
use crate::thread::deadlock::Deadlocks;
use crate::thread::seen::{ThreadChanges, ThreadsSeen};
use crate::thread::snapshot::{ThreadCursor, ThreadPage};

impl Observed for Scheduler {
    fn stats(&self) -> RuntimeStats {
        self.stats()
    }

    fn threads_page(&self, from: ThreadCursor, max: usize, unwinder: Option<&mut Unwinder>) -> ThreadPage {
        self.forever().threads_page(from, max.max(1), unwinder)
    }

    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges {
        self.forever().threads_changed(seen, max.max(1))
    }

    fn deadlocks(&self) -> Deadlocks {
        // In a fork, the runtime's threads are not there.
        if self.life.is_here() { Deadlocks::of(self.home()) } else { Deadlocks::default() }
    }

    fn lwp_times(&self, lwp: usize) -> Option<[Duration; 4]> {
        let lwp = self.pool.lwps().find(|it| it.index as usize == lwp)?;
        let scale = Scale::at_once()?;
        let Look::Says(Statement { times, .. }) =
            lwp.trace.get()?.account().look(session::current(), clock::now())
        else {
            return None;
        };
        let states = [State::Running, State::Queued, State::Sleeping, State::Blocked];
        Some(states.map(|state| Duration::from_nanos(scale.span(times[state as usize]))))
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn facts(&self) -> Facts {
        Facts {
            number: self.number.into(),
            is_green: 1,
            concurrency: self.pool.wanted().into(),
            max_lwps: self.pool.most() as u64,
            lwps: self.count_lwps() as u64,
            bound_reached: self.reserve_state.bounded.get(),
            slice: self.slice,
            preempts: u64::from(self.signals),
            cpus: self.settings.cpus.as_ref().map_or(0, |cpus| cpus.len() as u64),
        }
    }

    fn follow_trace(&self) {
        self.forever().follow_trace();
    }
}

impl Scheduler {
    /// Returns how many threads live, and how many of them own a kernel thread.
    pub(super) fn count_threads(&self) -> (usize, usize) {
        if !self.life.is_here() {
            // A fork: a thread that went on here owns the kernel thread that it has.
            let left = fork::left_of(self.home());
            return (left, left);
        }
        let live = usize::try_from(self.live_threads()).unwrap_or(usize::MAX);
        (live, self.life.bound() as usize)
    }

    /// Returns how many LWPs there are. In a fork, none.
    pub(super) fn count_lwps(&self) -> usize {
        if self.life.is_here() { self.pool.len() } else { 0 }
    }

    /// Takes a snapshot. It may allocate: not for dispatchers.
    pub(super) fn stats(&self) -> RuntimeStats {
        let (moves, reserve) = (&self.moves, &self.reserve_state);
        // In a fork, none of the kernel threads is there, whatever their words say.
        let here = self.life.is_here();
        let lwps = self.pool.lwps().filter(|_| here).filter_map(|lwp| self.stats_of(lwp)).collect();
        let helpers = Helper::ALL
            .iter()
            .filter(|_| here)
            .map(|&helper| HelperStats::new(helper.name(), self.kernel_threads.helper_tid(helper)));
        let (threads, bound) = self.count_threads();
        RuntimeStats {
            model: super::Mxn::NAME,
            thread_register: Some(self.rung),
            threads,
            bound,
            concurrency: self.pool.wanted() as usize,
            max_lwps: Some(self.pool.most()),
            lwps,
            helpers: helpers.collect(),
            compensated: moves.compensated.get(),
            handed_off: moves.handed_off.get(),
            preempts_by_signal: here && self.signals && preempt::still_installed(),
            preempted: self.pool.all().map(|lwp| lwp.counters.preempted.get()).sum(),
            bound_reached: reserve.bounded.get(),
            not_started: reserve.not_started.get(),
            aged: reserve.aged.get(),
            run_queue: Some(if here { self.run_queue() } else { RunQueueLength::default() }),
            run_queue_latency: (here && observed::is_traced()).then(|| self.run_queue_latency()),
        }
    }

    /// Returns how many threads wait in the run queues. Each length is of a moment of its own. So a thread
    /// that moves from one queue to another may be missing or counted twice.
    fn run_queue(&self) -> RunQueueLength {
        let mut length = RunQueueLength::default();
        for lwp in self.pool.lwps() {
            length.dispatchable += usize::from(!lwp.queue.next.is_empty()) + lwp.pinned.len();
            length.queued += lwp.queue.ring.len();
        }
        length.queued += self.inject.len() + self.preempted.len() + self.levels.len();
        length
    }

    /// Returns how long threads waited that LWPs have dispatched in this session. Those that have ended are
    /// among them.
    fn run_queue_latency(&self) -> LatencyHistogram {
        let mut latency = LatencyHistogram::default();
        let waits = self.pool.all().filter_map(|lwp| lwp.trace.get()?.waits().look(session::current()));
        waits.for_each(|(counts, sum)| latency.add(&counts, sum));
        latency
    }

    /// Returns the state of an LWP; `None`: it has no kernel thread.
    fn stats_of(&self, lwp: &Lwp) -> Option<LwpStats> {
        if !lwp.life.lives() {
            return None;
        }
        let tid = lwp.life.tid();
        Some(LwpStats {
            number: lwp.index as usize,
            tid,
            state: self.state_of(lwp, tid),
            thread: self.mounted_on(lwp),
            cpu: lwp.last_cpu().or_else(|| task_state::look(tid)?.cpu),
            dispatches: lwp.tick.dispatches(),
            steals: lwp.counters.steals.get(),
            wakes: lwp.counters.wakes.get(),
            spawned: lwp.counters.spawned.get(),
            ended: lwp.counters.ended.get(),
            queued: lwp.queue.len() + lwp.pinned.len(),
        })
    }

    fn state_of(&self, lwp: &Lwp, tid: u32) -> LwpState {
        let (holds, asleep) = (lwp.slot.is_held(), lwp.sleep.is_asleep());
        if tid == 0 {
            LwpState::Starting
        } else if lwp.slot.is_resting() {
            // Its thread may be back already, although the LWP has not dispatched since.
            if is_asleep(tid) { LwpState::InKernel } else { LwpState::Running }
        } else if lwp.slot.is_blocking() || lwp.slot.region().is_some() {
            LwpState::Blocking
        } else if asleep {
            if holds { LwpState::Idle } else { LwpState::Spare }
        } else if holds {
            if lwp.searches() { LwpState::Searching } else { LwpState::Running }
        } else if is_asleep(tid) {
            LwpState::InKernel
        } else {
            LwpState::WithoutSlot
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::tests::Model;
    use crate::park::priority::Priority;

    /// Each queue that a thread can wait in is looked at, and counts once.
    #[test]
    fn every_run_queue_counts() {
        let model = Model::new(2, 1, 7);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(1), |n| model.green(n).ptr());
        let length = || {
            let stats = scheduler.stats();
            let RunQueueLength { dispatchable, queued } = stats.run_queue.unwrap();
            (dispatchable, queued)
        };
        assert_eq!(length(), (0, 0));
        lwp.queue.next.fill(green(0));
        assert_eq!(length(), (1, 0));
        lwp.queue.ring.push(green(1)).unwrap();
        assert_eq!(length(), (1, 1));
        lwp.pinned.push(green(2), || Priority::Normal);
        assert_eq!(length(), (2, 1));
        scheduler.inject.push(green(3));
        assert_eq!(length(), (2, 2));
        scheduler.queue_preempted(model.green(4));
        assert_eq!(length(), (2, 3));
        for (at, level) in [(5, Priority::High), (6, Priority::Low)] {
            model.green(at).core.priority.set(level);
            scheduler.queue_shared(model.green(at));
        }
        assert_eq!(length(), (2, 5));
        let queued = scheduler.stats().lwps.iter().map(|lwp| (lwp.number, lwp.queued)).collect::<Vec<_>>();
        assert_eq!(queued, [(0, 0), (1, 3), (2, 0)]);
        assert!(lwp.queue.next.take().is_some() && lwp.queue.ring.pop().is_some());
        assert!(lwp.pinned.pop(Priority::Low).is_some());
        assert_eq!(length(), (0, 4));
    }
}
