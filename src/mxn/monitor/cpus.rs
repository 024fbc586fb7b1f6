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
    /// `None`: the first look holds forever.
    grant: Option<Grant>,
    processors: f64,
    /// When to look again, by the runtime's clock.
    next: u64,
}

impl Cpus {
    /// Takes the first look. The others need files that stay open. Without a table of descriptors of the
    /// monitor's own, these would be in the program's way, and the first look holds forever.
    pub(super) fn look_first(scheduler: &Scheduler, tasks: &Tasks) -> Self {
        let grant = Grant::find();
        let processors = grant.processors(scheduler.settings.cpus.as_deref());
        Self { grant: tasks.are_private().then_some(grant), processors, next: EVERY }
    }

    /// Returns the processors' time that the process can have.
    pub(super) fn processors(&self) -> f64 {
        self.processors
    }

    /// Looks again if it is time. Unless the program has set the concurrency, the runtime follows. Allocates
    /// nothing.
    pub(super) fn look(&mut self, scheduler: &Scheduler, time: u64) {
        let Some(grant) = self.grant.as_ref().filter(|_| time >= self.next) else { return };
        self.next = time + EVERY;
        let set = scheduler.settings.cpus.as_deref();
        self.processors = grant.processors(set);
        scheduler.set_on_one_cpu(affinity::is_single());
        let slots = at_once(self.processors).min(scheduler.pool.most());
        let changed = scheduler.pool.follow(u32::try_from(slots).unwrap_or(u32::MAX));
        if changed || set.is_some_and(affinity::strays_from) {
            scheduler.reserve_state.ask();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::mxn::tests::Model;
    use crate::sys::child_tests as child;

    /// A program may close what it does not know, and open a file of its own under that number.
    #[test]
    fn no_file_stays_open_in_the_table_of_the_process() {
        child::isolated(concat!(module_path!(), "::no_file_stays_open_in_the_table_of_the_process"), || {
            let model = Model::new(1, 0, 0);
            let open = || fs::read_dir("/proc/self/fd").unwrap().count();
            let before = open();
            let cpus = Cpus::look_first(model.scheduler, &Tasks::SHARED);
            assert!(open() == before && cpus.processors() > 0.0);
        });
    }
}
