//! Sleeps in the kernel that no thread has announced, for the trace.
//!
//! The monitor alone sees them: when it asks the kernel about an LWP (`lwp_history`). Once it has found an
//! LWP asleep, and events are recorded, each round follows that LWP by its clock, which stands still while it
//! sleeps. When the LWP dispatches, its own events tell what its thread does.
//!
//! While events are not recorded, no LWP is followed.

use std::collections::VecDeque;

use super::lwp_history::Memory;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::park::observed;
use crate::sys::nap::is_napping;
use crate::sys::task_state::{Tasks, cpu_clock};

/// How many LWPs a round looks at, in turn. For each, the kernel is asked for one clock.
const AT_ONCE: usize = 64;

/// What the trace was told of an LWP.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// The LWP's tick then. It has run the same thread since.
    tick: u32,
    /// It sleeps.
    asleep: bool,
    /// Its clock at the last look, in ns; `None`: it could not be read.
    ran: Option<u64>,
}

/// The LWPs that are followed.
pub(super) struct KernelSleeps {
    /// Their numbers. What was told of each is in its [`Memory`].
    followed: VecDeque<u32>,
}

impl KernelSleeps {
    /// Makes room for `lwps`, so that the monitor never allocates.
    pub(super) fn new(lwps: usize) -> Self {
        Self { followed: VecDeque::with_capacity(lwps) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Notes that an LWP was found asleep in the kernel at this tick.
    pub(super) fn add(&mut self, scheduler: &Scheduler, lwp: &Lwp, tick: u32, memory: &mut Memory) {
        if !observed::are_events_recorded() || memory.told.is_some_and(|told| told.tick == tick) {
            return;
        }
        if memory.told.is_none() {
            self.followed.push_back(lwp.index);
        }
        let ran = cpu_clock(lwp.life.tid().cast_signed()).ok();
        memory.told = Some(Told { tick, asleep: true, ran });
        scheduler.trace_found(lwp, tick, true);
    }

    /// Looks at the LWPs that are followed, and records what has changed.
    pub(super) fn look(&mut self, scheduler: &'static Scheduler, memory: &mut [Memory], tasks: &Tasks) {
        let records = observed::are_events_recorded();
        let looks = if records { AT_ONCE } else { usize::MAX };
        for _ in 0..looks.min(self.followed.len()) {
            let Some(index) = self.followed.pop_front() else { return };
            let (lwp, told) = (scheduler.pool.lwp(index), &mut memory[index as usize].told);
            *told = told.filter(|_| records).and_then(|told| told.after_a_look(scheduler, lwp, tasks));
            if told.is_some() {
                self.followed.push_back(index);
            }
        }
    }
}

impl Told {
    /// Records what has changed. Returns `None` if the LWP need not be followed any more.
    fn after_a_look(mut self, scheduler: &Scheduler, lwp: &Lwp, tasks: &Tasks) -> Option<Self> {
        let tid = lwp.life.tid().cast_signed();
        if tid == 0 || lwp.tick.get() != self.tick || !lwp.sleep.is_awake() || is_napping(tid) {
            return None;
        }
        let ran = cpu_clock(tid).ok();
        let has_run = ran != self.ran;
        self.ran = ran;
        // It may have run for a moment only, or wait for a CPU.
        if has_run == self.asleep
            && let Ok(state) = tasks.state(tid)
            && state.is_asleep() != self.asleep
        {
            self.asleep = !self.asleep;
            scheduler.trace_found(lwp, self.tick, self.asleep);
        }
        Some(self)
    }
}
