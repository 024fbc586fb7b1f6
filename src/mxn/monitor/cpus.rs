//! The CPUs that the process may use, as the monitor knows them.
//!
//! An affinity mask and the quota of a control group change while a program runs: a container is given less,
//! a process is moved. A runtime that kept to its first look would take a lower quota for other processes'
//! load, and run more threads at once than there are CPUs.
//!
//! **Rejected**: a watch on the group's files (`inotify`), which says nothing of the affinity mask.
//!
//! **So** the monitor looks each second, in some ten system calls. While the runtime sleeps, it does not
//! look.
//!
//! It looks at its own mask. What changes the mask of each thread changes this one, too: a tool that goes
//! through all threads, or the kernel, if a `cpuset` changes. (Rejected: the mask of the process's first
//! thread. The program may have pinned that one to a CPU.) If the program has given the runtime a set of
//! CPUs, the mask is that set at first. Later it may have fewer of these CPUs, or others besides. Linux
//! before 6.2 forgets masks when a `cpuset` changes. The reserve's thread then takes all back to the set.

use crate::mxn::sched::Scheduler;
use crate::sys::affinity::{self, Grant, at_once};
use crate::sys::task_state::Tasks;

/// How often the monitor looks, in ns.
const EVERY: u64 = 1_000_000_000;

/// What the last look has found.
pub(super) struct Cpus {
    grant: Grant,
    processors: f64,
    /// When to look again, by the runtime's clock.
    next: u64,
}

impl Cpus {
    /// Takes the first look. The others need files that stay open: without a table of descriptors of the
    /// monitor's own, the first holds forever.
    pub(super) fn look_first(scheduler: &Scheduler, tasks: &Tasks) -> Self {
        let grant = Grant::find();
        let next = if tasks.are_private() { EVERY } else { u64::MAX };
        Self { processors: grant.processors(scheduler.settings.cpus.as_deref()), grant, next }
    }

    /// Returns the processors' time that the process can have.
    pub(super) fn processors(&self) -> f64 {
        self.processors
    }

    /// Looks again if it is time. Unless the program has set the concurrency, the runtime follows. Allocates
    /// nothing.
    pub(super) fn look(&mut self, scheduler: &Scheduler, time: u64) {
        if time < self.next {
            return;
        }
        self.next = time + EVERY;
        let set = scheduler.settings.cpus.as_deref();
        self.processors = self.grant.processors(set);
        scheduler.set_on_one_cpu(affinity::is_single());
        let slots = at_once(self.processors).min(scheduler.pool.most());
        let changed = scheduler.pool.follow(u32::try_from(slots).unwrap_or(u32::MAX));
        if changed || set.is_some_and(affinity::strays_from) {
            scheduler.reserve_state.ask();
        }
    }
}
