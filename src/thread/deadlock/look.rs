//! From what can be seen of all threads to which thread waits for which.
//!
//! All threads are examined twice, and so are the records of owners, in turn: threads, holdings, threads,
//! holdings. What is the same in both looks was so all the time in between. The two intervals overlap, so
//! all of it was so at one moment (`observe/thread_snapshot.rs`). A thread with a changed wait counts as
//! running, and a changed owner as unknown.
//!
//! A list of threads states what was so a moment ago. So one look is enough for the owners that it names.

use std::collections::{HashMap, HashSet};

use super::graph::{Needs, Verdict, judge, waiters};
use super::shares::{self, Wants};
use super::{Blocked, Cycle, Deadlocks, EndsBy, Standstill};
use crate::observe::lock_owners::{self, Hold, Holder};
use crate::observe::names;
use crate::observe::thread_snapshot::{self, Snapshot};
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_state::WaitSnapshot;
use crate::park::{current, observed};
use crate::thread::id::ThreadId;

/// All threads at one moment.
struct Moment {
    threads: Vec<Snapshot>,
    /// By address: indices into `threads`, of holders that live.
    holders: HashMap<usize, Vec<(usize, Hold)>>,
    /// Read-write locks that let no more readers in for as long as a thread reads.
    closed_to_readers: HashSet<usize>,
    /// Set if there are no kernel threads except for those in `threads`, those of runtimes, and the
    /// caller's.
    closed: bool,
    /// The runtime of the calling thread, which is not in `threads`.
    asks: Option<usize>,
}

impl Deadlocks {
    /// Returns what is known of the threads of the runtime at `home`, except for the calling thread.
    pub(crate) fn of(home: usize) -> Self {
        deadlocks(Some(home))
    }
}

/// Returns what is known about one runtime, or without one, about the whole process.
pub(super) fn deadlocks(home: Option<usize>) -> Deadlocks {
    look(home, |_| ())
}

/// Does so. `after` runs after each of the looks but the last, with the number of it.
fn look(home: Option<usize>, after: impl FnMut(u32)) -> Deadlocks {
    let moment = Moment::find(after);
    let needs: Vec<Needs> = (0..moment.threads.len()).map(|n| moment.needs(n)).collect();
    let verdict = judge(&needs, moment.closed);
    moment.report(home, &needs, &verdict)
}

impl Moment {
    fn find(mut after: impl FnMut(u32)) -> Self {
        let asks = current::try_current();
        let before: HashMap<_, _> =
            thread_snapshot::all().into_iter().map(|snapshot| (snapshot.id, snapshot.wait)).collect();
        after(1);
        let held: HashSet<_> =
            lock_owners::all().into_iter().map(|(key, holder)| (key, holder.entry)).collect();
        after(2);
        let pool_threads = thread_snapshot::pool_threads();
        let tasks = kernel_threads();
        let same_threads = thread_snapshot::pool_threads() == pool_threads;
        let mut threads = thread_snapshot::all();
        after(3);
        // Read-write locks at which a thread was on its way in, or is. It may let others in with it.
        let mut busy = HashSet::new();
        for thread in &mut threads {
            let was = before.get(&thread.id).copied().flatten();
            let now = thread.wait;
            thread.wait = now.filter(|wait| wait.asleep && was == now);
            if thread.wait.is_none() {
                busy.extend(was.iter().chain(&now).filter(|wait| Wants::of(wait).is_some()).map(address));
            }
        }
        let waiting = threads.iter().filter(|thread| thread.kernel && thread.wait.is_some()).count();
        // A green caller runs on a kernel thread of its runtime.
        let asking = usize::from(asks.is_none_or(|me| me.is_kernel()));
        let closed = same_threads && tasks == Some(waiting + pool_threads.living() + asking);
        let home = threads.iter().find(|thread| Some(thread.thread) == asks).map(|thread| thread.home);
        threads.retain(|thread| Some(thread.thread) != asks);
        let index: HashMap<_, _> = threads.iter().enumerate().map(|(n, thread)| (thread.id, n)).collect();
        let mut holders: HashMap<usize, Vec<(usize, Hold)>> = HashMap::new();
        for (key, Holder { id, hold, entry, .. }) in lock_owners::all() {
            if let Some(&holder) = index.get(&id)
                && held.contains(&(key, entry))
            {
                holders.entry(key).or_default().push((holder, hold));
            }
        }
        // A joining thread waits at the address of the other thread's core.
        for (n, thread) in threads.iter().enumerate() {
            holders.insert(thread.thread.address(), vec![(n, Hold::Alone)]);
            // And a thread that ends a runtime waits for the threads of that runtime.
            if thread.home != 0 {
                holders.entry(thread.home).or_default().push((n, Hold::Shared));
            }
        }
        let closes = |wait: &&WaitSnapshot| {
            Wants::of(wait).is_some_and(Wants::closes_the_door) && !wait.timed && !wait.interruptible
        };
        let waits = threads.iter().filter_map(|thread| thread.wait.as_ref());
        let closed_to_readers = waits.filter(closes).map(address).filter(|at| !busy.contains(at)).collect();
        Self { threads, holders, closed_to_readers, closed, asks: home }
    }

    /// Returns the threads that hold what `n` waits for, as far as they are known.
    fn owners(&self, n: usize, wait: &WaitSnapshot) -> Vec<usize> {
        match Wants::of(wait) {
            Some(wants) => shares::others(wants, n, self.at(wait)).map(|(owner, _)| owner).collect(),
            None => self.at(wait).iter().map(|&(owner, _)| owner).collect(),
        }
    }

    /// Returns those of them that must all go on before `n` does.
    fn needed(&self, n: usize, wait: &WaitSnapshot) -> Vec<usize> {
        let closed = || self.closed_to_readers.contains(&address(wait));
        match Wants::of(wait) {
            Some(wants) => shares::needed(wants, n, self.at(wait), closed()),
            None => self.owners(n, wait),
        }
    }

    fn at(&self, wait: &WaitSnapshot) -> &[(usize, Hold)] {
        match wait.reason {
            WaitReason::Join
            | WaitReason::Mutex
            | WaitReason::Once
            | WaitReason::Scope
            | WaitReason::RwLock => self.holders.get(&address(wait)).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    fn needs(&self, n: usize) -> Needs {
        match self.threads[n].wait {
            None => Needs::Nothing,
            Some(wait) if wait.timed || wait.reason.is_outside() => Needs::Nothing,
            Some(wait) if wait.interruptible => Needs::AnyThread,
            Some(wait) => match self.needed(n, &wait) {
                // The other thread has ended, and this one is about to run.
                needed if needed.is_empty() && wait.reason == WaitReason::Join => Needs::Nothing,
                needed if needed.is_empty() => Needs::AnyThread,
                needed => Needs::All(needed),
            },
        }
    }

    fn report(&self, home: Option<usize>, needs: &[Needs], verdict: &Verdict) -> Deadlocks {
        let mine = |n: &usize| home.is_none_or(|home| self.threads[*n].home == home);
        let mut stuck = vec![false; self.threads.len()];
        verdict.stuck.iter().for_each(|&n| stuck[n] = true);
        let mut in_cycle = vec![false; self.threads.len()];
        let mut cycles = Vec::new();
        for cycle in &verdict.cycles {
            cycle.iter().for_each(|&n| in_cycle[n] = true);
            // A thread of the runtime is in the cycle, or waits for it. The second is looked at only if need
            // be: that takes as long as there are threads, for each cycle.
            if cycle.iter().any(mine) || waiters_of(needs, cycle).iter().any(mine) {
                let blocked = cycle.iter().filter_map(|&n| self.blocked(n, needs, &stuck)).collect();
                cycles.push(Cycle { blocked });
            }
        }
        let others = (0..self.threads.len()).filter(mine).filter(|&n| !in_cycle[n]);
        let (lost, waiting): (Vec<_>, Vec<_>) = others
            .filter_map(|n| self.blocked(n, needs, &stuck))
            .partition(|blocked| blocked.ends_by == EndsBy::Nothing);
        let of_home = || (0..self.threads.len()).filter(mine);
        let asks = home.is_some() && self.asks == home;
        let all_wait = !asks && of_home().next().is_some() && of_home().all(|n| needs[n] != Needs::Nothing);
        let standstill = match (all_wait, of_home().all(|n| stuck[n])) {
            (false, _) => Standstill::None,
            (true, true) => Standstill::Forever,
            (true, false) => Standstill::UnlessWokenFromOutside,
        };
        Deadlocks {
            cycles,
            stuck: lost,
            waiting,
            standstill,
            owners_recorded: observed::are_owners_recorded(),
        }
    }

    /// Returns what is reported of a thread that waits.
    fn blocked(&self, n: usize, needs: &[Needs], stuck: &[bool]) -> Option<Blocked> {
        let Snapshot { thread, id, .. } = self.threads[n];
        let wait = self.threads[n].wait?;
        let at = wait.reason.known_address(wait.at);
        let owners = self.owners(n, &wait);
        let ends_by = match &needs[n] {
            _ if stuck[n] => EndsBy::Nothing,
            Needs::Nothing if wait.reason.is_outside() => EndsBy::Outside,
            Needs::Nothing => EndsBy::Deadline,
            Needs::AnyThread if wait.interruptible => EndsBy::Interrupt,
            Needs::AnyThread if must_be_one(wait.reason) => EndsBy::UnknownOwner,
            Needs::AnyThread => EndsBy::AnyThread,
            Needs::All(_) => EndsBy::Owner,
        };
        Some(Blocked {
            id: ThreadId::from_number(id),
            name: thread.name_of(id),
            reason: wait.reason,
            at,
            called: at.and_then(names::of),
            owners: owners.iter().map(|&owner| self.called(owner)).collect(),
            ends_by,
        })
    }

    fn called(&self, n: usize) -> (ThreadId, Option<String>) {
        let Snapshot { thread, id, .. } = self.threads[n];
        (ThreadId::from_number(id), thread.name_of(id))
    }
}

/// Returns the threads of a cycle, and those that wait for one of it, directly or not.
fn waiters_of(needs: &[Needs], cycle: &[usize]) -> Vec<usize> {
    let waiters = waiters(needs);
    let mut met = vec![false; needs.len()];
    let mut found = Vec::new();
    let mut next = cycle.to_vec();
    while let Some(n) = next.pop() {
        if !std::mem::replace(&mut met[n], true) {
            found.push(n);
            next.extend(&waiters[n]);
        }
    }
    found
}

/// Returns the address of what is waited for.
fn address(wait: &WaitSnapshot) -> usize {
    wait.reason.object(wait.at)
}

/// Returns `true` if only a certain thread can end such a wait.
fn must_be_one(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Mutex | WaitReason::RwLock | WaitReason::Once | WaitReason::Join)
}

/// Returns the number of kernel threads of the process, or `None` if the system does not tell.
fn kernel_threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Returns `true` if what is waited for has owners that may be recorded.
pub(in crate::thread) fn has_owners(reason: WaitReason) -> bool {
    must_be_one(reason) && reason != WaitReason::Join
}

/// Returns which of the recorded `holders` is to be named as the owner, if `me` waits like this. A thread
/// that holds the lock alone is named before one that shares it.
pub(in crate::thread) fn owner_of<'a>(
    me: ThreadRef,
    wait: &WaitSnapshot,
    holders: &'a [Holder],
) -> Option<&'a Holder> {
    let shares: Vec<_> = holders.iter().enumerate().map(|(n, holder)| (n, holder.hold)).collect();
    // The share that the waiter may upgrade.
    let own = holders.iter().position(|holder| holder.thread == me && holder.hold == Hold::Upgradable);
    let wants = Wants::of(wait).unwrap_or(Wants::Write);
    shares::others(wants, own.unwrap_or(usize::MAX), &shares)
        .filter(|&(n, _)| holders[n].thread.lives_as(holders[n].id))
        .min_by_key(|&(_, hold)| hold != Hold::Alone)
        .map(|(n, _)| &holders[n])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::park::core_pool;
    use crate::park::tests::until;
    use crate::park::word_queues::{READERS, UPGRADER};
    use crate::sync::Mutex;
    use crate::{OneToOne, Runtime, thread};

    /// Waits until so many threads of a runtime are known to wait.
    fn until_waiting(rt: &impl Runtime, count: usize) {
        until(|| rt.deadlocks().waiting().len() == count);
    }

    /// Has two threads wait for locks of the caller. Then each gets its lock, gives it back, and takes that of
    /// the other. They never wait for each other, but the third look and the last one alone would say so.
    fn locks_change_hands(rt: &impl Runtime) {
        let [one, other] = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let [gave, have] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let may_end = Arc::new(AtomicBool::new(false));
        let mut held = Some((one.lock(), other.lock()));
        let start = |first: &Arc<Mutex<()>>, second: &Arc<Mutex<()>>| {
            let (first, second) = (Arc::clone(first), Arc::clone(second));
            let (gave, have, may_end) = (Arc::clone(&gave), Arc::clone(&have), Arc::clone(&may_end));
            rt.spawn(move || {
                drop(first.lock());
                gave.fetch_add(1, Ordering::Relaxed);
                while gave.load(Ordering::Relaxed) < 2 {
                    thread::yield_now();
                }
                let _second = second.lock();
                have.fetch_add(1, Ordering::Relaxed);
                while !may_end.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            })
        };
        let threads = [start(&one, &other), start(&other, &one)];
        until_waiting(rt, 2);
        let found = look(None, |looks| {
            if looks == 3 {
                held.take();
                until(|| have.load(Ordering::Relaxed) == 2);
            }
        });
        may_end.store(true, Ordering::Relaxed);
        let ids = threads.each_ref().map(|thread| thread.thread().id());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let blocked = found.cycles().iter().flat_map(Cycle::threads);
        assert_eq!(blocked.filter(|blocked| ids.contains(&blocked.id())).count(), 0, "{found}");
    }

    #[test]
    fn locks_that_change_hands_between_the_looks_are_in_no_cycle() {
        lock_owners::begin();
        // Elsewhere there are no green threads.
        #[cfg(unix)]
        locks_change_hands(&crate::Mxn::builder().concurrency(2).build().unwrap());
        locks_change_hands(&OneToOne::new().unwrap());
    }

    /// Has a thread wait in all looks, but for another wake-up in the last ones. Such a thread may have woken
    /// the others.
    fn wait_ends(rt: &impl Runtime) {
        let went_on = Arc::new(AtomicBool::new(false));
        let goes_on = Arc::clone(&went_on);
        let thread = rt.spawn(move || {
            thread::park();
            goes_on.store(true, Ordering::Relaxed);
            thread::park();
        });
        let id = thread.thread().id();
        let is_found = |found: &Deadlocks| found.waiting().iter().any(|blocked| blocked.id() == id);
        until_waiting(rt, 1);
        assert!(is_found(&look(None, |_| ())));
        let found = look(None, |looks| {
            if looks == 2 {
                thread.thread().unpark();
                until(|| went_on.load(Ordering::Relaxed));
                until_waiting(rt, 1);
            }
        });
        thread.thread().unpark();
        thread.join().unwrap();
        assert!(!is_found(&found), "{found}");
    }

    #[test]
    fn a_thread_whose_wait_has_changed_between_the_looks_counts_as_running() {
        // Elsewhere there are no green threads.
        #[cfg(unix)]
        wait_ends(&crate::Mxn::builder().concurrency(1).build().unwrap());
        wait_ends(&OneToOne::new().unwrap());
    }

    #[test]
    fn a_sole_holder_is_named_before_others_and_never_the_waiter_for_its_own_share() {
        let [me, other, writer] = std::array::from_fn(|_| core_pool::take(1, None, None));
        let holder = |thread: ThreadRef, hold| Holder { thread, id: thread.id(), hold, entry: 1 };
        let wait = |reason, queue| WaitSnapshot {
            serial: 1,
            reason,
            at: 0x1000 + queue,
            timed: false,
            interruptible: false,
            asleep: false,
        };
        let named = |wait, holders: &[Holder]| owner_of(me, &wait, holders).map(|holder| holder.thread);
        let (upgrades, reads) = (wait(WaitReason::RwLock, UPGRADER), wait(WaitReason::RwLock, READERS));
        let shared = [holder(me, Hold::Upgradable), holder(other, Hold::Shared)];
        assert_eq!(named(upgrades, &shared), Some(other));
        assert_eq!(named(upgrades, &shared[..1]), None);
        assert_eq!(named(reads, &[shared[1], holder(writer, Hold::Alone)]), Some(writer));
        let locks = wait(WaitReason::Mutex, 0);
        assert_eq!(named(locks, &[holder(me, Hold::Alone)]), Some(me), "it waits for itself");
        let left = holder(other, Hold::Alone);
        let _ = other.finish();
        assert_eq!(named(locks, &[left]), None, "the owner has ended");
        assert!(has_owners(WaitReason::Mutex) && !has_owners(WaitReason::Join));
        [me, other, writer].into_iter().for_each(|thread| thread.release());
    }
}
