//! How many shared cache lines each operation touches with 2, 8 and 64 slots: the table in `docs/scaling.md`,
//! counted.
//!
//! The accesses are those of the code that ships, on a scheduler without kernel threads. A line is shared if
//! other LWPs write to it: those of the scheduler's written parts, and those of other LWPs. What is only read
//! after the start does not count, nor do the lines of the threads themselves.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Scheduler;
use super::policy::{CANDIDATES, MIN_AGE};
use crate::mxn::lwp::Lwp;
use crate::mxn::tests::{Model, Nap, run_on};
use crate::mxn::timer::Entry;
use crate::shim::record;

const LINE: usize = 64;
const CONCURRENCY: [usize; 3] = [2, 8, 64];

/// The lines that an operation touched, and whether it wrote to them.
fn lines(scheduler: &'static Scheduler, f: impl FnOnce()) -> BTreeMap<usize, bool> {
    let mut lines = BTreeMap::new();
    for (address, writes) in record(f) {
        if is_shared(scheduler, address) {
            *lines.entry(address / LINE).or_default() |= writes;
        }
    }
    lines
}

/// Returns `true` if LWPs other than the first write to this address.
fn is_shared(scheduler: &'static Scheduler, address: usize) -> bool {
    fn within<T>(part: &T, address: usize) -> bool {
        address.wrapping_sub(std::ptr::from_ref(part).addr()) < size_of::<T>()
    }
    let Scheduler { inject, preempted, shares, levels, idle, poller, pool, slots, moves, .. } = scheduler;
    let Scheduler { watch, reserve_state, life, .. } = scheduler;
    within(inject, address)
        || within(preempted, address)
        || within(shares, address)
        || within(levels, address)
        || within(idle, address)
        || within(poller, address)
        || within(pool, address)
        || within(slots, address)
        || within(moves, address)
        || within(watch, address)
        || within(reserve_state, address)
        || within(life, address)
        || idle.sleepers().place().contains(&address)
        || pool.active_set().place().contains(&address)
        || pool.lwps().skip(1).any(|lwp| within(lwp, address))
}

/// Puts an LWP to sleep.
fn lay(scheduler: &Scheduler, lwp: &Lwp) {
    lwp.sleep.prepare();
    scheduler.idle.enter(lwp.index, false);
}

/// An operation of the first LWP, with the state that it finds.
type Operation = (&'static str, fn(&Model) -> BTreeMap<usize, bool>);

const OPERATIONS: &[Operation] = &[
    ("wake a thread, which is next", |model| {
        all_sleep(model);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lines(scheduler, || run_on(lwp, model.green(0), || scheduler.ready(model.green(1))))
    }),
    ("wake a thread, which is queued", |model| {
        all_sleep(model);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lwp.skip.set(9);
        lwp.queue.next.fill(model.green(2).ptr());
        lines(scheduler, || run_on(lwp, model.green(0), || scheduler.ready(model.green(1))))
    }),
    ("start a thread", |model| {
        all_sleep(model);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lwp.skip.set(9);
        let me = model.green(0);
        lines(scheduler, || run_on(lwp, me, || scheduler.ready_new(Some(me), model.green(1))))
    }),
    ("wake a thread, and an LWP for it", |model| {
        all_sleep(model);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lwp.queue.next.fill(model.green(2).ptr());
        lines(scheduler, || run_on(lwp, model.green(0), || scheduler.ready(model.green(1))))
    }),
    ("wake a thread from outside, while an LWP searches", |model| {
        let scheduler = model.scheduler;
        assert!(scheduler.idle.begin_search(64));
        lines(scheduler, || scheduler.ready(model.green(1)))
    }),
    ("switch to the next thread", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lwp.queue.next.fill(model.green(1).ptr());
        lines(scheduler, || assert!(scheduler.pick_next(lwp).is_some()))
    }),
    ("take a thread that was woken outside", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        scheduler.inject.push(model.green(1).ptr());
        lines(scheduler, || assert!(scheduler.pick(lwp).is_some()))
    }),
    ("look for work once", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        lines(scheduler, || assert!(scheduler.look_around(lwp, 1, MIN_AGE).is_none()))
    }),
    ("steal from a given LWP", |model| {
        let (scheduler, lwp, victim) = (model.scheduler, model.lwp(0), model.lwp(1));
        victim.queue.next.fill(model.green(1).ptr());
        assert!(scheduler.steal(victim, lwp, 1, MIN_AGE).is_none());
        lines(scheduler, || assert!(scheduler.steal(victim, lwp, 1 + MIN_AGE, MIN_AGE).is_some()))
    }),
    ("go to sleep, and leave the list again", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        all_sleep(model);
        lines(scheduler, || {
            lay(scheduler, lwp);
            assert!(scheduler.idle.leave(lwp.index));
        })
    }),
    ("sleep until a deadline", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        let due = Entry::new(scheduler.clock.now(), model.green(1).thread(), &Nap);
        lines(scheduler, || {
            // SAFETY: it stays here until it has fired.
            unsafe { lwp.timers.arm(&due) };
            lwp.timers.disarm(&due);
        })
    }),
    ("lose a slice, and give the LWP to another such thread", |model| {
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        for other in 1..=CANDIDATES {
            scheduler.queue_preempted(model.green(other));
        }
        lines(scheduler, || {
            run_on(lwp, model.green(0), || scheduler.queue_preempted(model.green(0)));
            assert!(scheduler.pop_preempted().is_some());
        })
    }),
];

/// Puts all LWPs but the first to sleep; one of them watches.
fn all_sleep(model: &Model) {
    model.scheduler.pool.lwps().skip(1).for_each(|lwp| lay(model.scheduler, lwp));
    assert!(model.scheduler.idle.watch());
}

#[test]
fn shared_lines_are_as_the_documents_say() {
    let mut table = String::new();
    for (name, operation) in OPERATIONS {
        write!(table, "| {name} |").unwrap();
        for slots in CONCURRENCY {
            let model = Model::new(slots, 0, 1 + CANDIDATES);
            let lines = operation(&model);
            let written = lines.values().filter(|written| **written).count();
            write!(table, " {}, {written} |", lines.len()).unwrap();
        }
        table.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scaling.md");
    let documented = std::fs::read_to_string(path).unwrap();
    assert!(documented.contains(&table), "{path} is to have these rows:\n{table}");
}
