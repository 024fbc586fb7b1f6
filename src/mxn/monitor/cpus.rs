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

use crate::mxn::sched::Scheduler;
use crate::sys::affinity::{self, Grant};
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
    pub(super) fn look_first(tasks: &Tasks) -> Self {
        let grant = Grant::find();
        let next = if tasks.are_private() { EVERY } else { u64::MAX };
        Self { processors: grant.processors(), grant, next }
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
        self.processors = self.grant.processors();
        scheduler.set_on_one_cpu(affinity::is_single());
        let slots = self.grant.threads().min(scheduler.pool.most());
        if scheduler.pool.follow(u32::try_from(slots).unwrap_or(u32::MAX)) {
            scheduler.reserve_state.ask();
        }
    }
}
