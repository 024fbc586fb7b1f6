//! A view of all threads of the process at one moment, for the search for deadlocks.
//!
//! **Problem.** A deadlock is a statement about several threads at once. But threads can be examined only
//! one after the other, while they run.
//!
//! **Protocol.** A look at a thread returns the number of its current wait (`wait_state.rs`). If two looks
//! find the same wait, it lasted all the time in between. So after two looks at all threads, the waits that
//! are in both looks are known to have lasted together. They did so at any moment between the two looks.
//!
//! A thread that has been granted what it waits for still appears to wait until it runs. So a look also
//! checks that the sleep has not been ended: the waiter is still in its queue, or the permit says parked. A
//! waiter is listed with the queue that it is in at the moment. That may not be the one that it joined: a
//! condition variable moves waiters to its mutex.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_state::WaitSnapshot;
use crate::park::{all_threads, fork, table};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::global;

global! {
    static ENTERED: AtomicUsize = AtomicUsize::new(0);
    static LEFT: AtomicUsize = AtomicUsize::new(0);
}

/// One of the kernel threads of a runtime that run only green threads' code, while it lives.
#[derive(Debug)]
pub(crate) struct PoolThread(());

impl PoolThread {
    pub(crate) fn enter() -> Self {
        // Relaxed, here and below: only a count.
        ENTERED.fetch_add(1, Ordering::Relaxed);
        fork::tell_children(all_left);
        Self(())
    }
}

/// Forgets those of the parent. Called in the child of a fork.
fn all_left() {
    LEFT.store(ENTERED.load(Ordering::Relaxed), Ordering::Relaxed);
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        LEFT.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many such kernel threads have started, and how many of them have ended. If two reads are equal, both
/// numbers were constant in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolThreads {
    entered: usize,
    left: usize,
}

impl PoolThreads {
    pub(crate) fn living(self) -> usize {
        self.entered.saturating_sub(self.left)
    }
}

pub(crate) fn pool_threads() -> PoolThreads {
    PoolThreads { left: LEFT.load(Ordering::Relaxed), entered: ENTERED.load(Ordering::Relaxed) }
}

/// What one look at a thread found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) thread: ThreadRef,
    pub(crate) id: NonZeroU64,
    /// The address of its runtime; 0 for none.
    pub(crate) home: usize,
    /// Set if it owns a kernel thread.
    pub(crate) kernel: bool,
    /// `None` if it does not wait.
    pub(crate) wait: Option<WaitSnapshot>,
}

/// Returns all living threads of this process. Allocates, and takes the lock of each bucket of the wait
/// queues in turn.
pub(crate) fn all() -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let mut add = |thread: ThreadRef, kernel| {
        if let Some((id, home, wait)) = thread.snapshot()
            && !fork::is_parents(id, kernel)
        {
            snapshots.push(Snapshot { thread, id, home, kernel, wait });
        }
    };
    all_threads::each(&mut add);
    // After the threads: if a thread was granted before the look at it, it is not in a queue here.
    let queued: HashMap<usize, usize> = table::all_waiters().into_iter().collect();
    let homes: HashSet<usize> = snapshots.iter().map(|snapshot| snapshot.home).collect();
    for Snapshot { thread, wait, .. } in &mut snapshots {
        let Some(wait) = wait else { continue };
        let queue = queued.get(&thread.address());
        wait.asleep = match wait.reason {
            // A thread that waits for a future needs no other thread, as far as can be known.
            WaitReason::Join | WaitReason::Sleep | WaitReason::Future => true,
            // In the kernel, for the end of a runtime (`until_all_end`).
            WaitReason::Scope if homes.contains(&wait.at) => true,
            _ => queue.is_some() || thread.permit.is_parked(),
        };
        if let Some(&queue) = queue
            && queue != wait.at
            && wait.reason == WaitReason::Condvar
        {
            (wait.reason, wait.at) = (WaitReason::Mutex, queue);
        }
    }
    snapshots
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::observe::lock_owners;
    use crate::park::current::{current, try_current};
    use crate::park::permit::sleep;
    use crate::park::tests::watched;
    use crate::park::wait_queue::{self, Options, Token, Woken};
    use crate::park::wait_state::until_all_end;
    use crate::sys::child_tests as child;

    #[test]
    fn a_crew_is_counted() {
        child::isolated(concat!(module_path!(), "::a_crew_is_counted"), || {
            let before = pool_threads();
            assert_eq!(before.living(), 0);
            let (one, other) = (PoolThread::enter(), PoolThread::enter());
            assert_eq!(pool_threads().living(), 2);
            drop(one);
            assert_eq!(pool_threads().living(), 1);
            drop(other);
            assert_eq!(pool_threads().living(), 0);
            assert_ne!(pool_threads(), before, "others may have come and gone");
        });
    }

    /// The threads and the crew of a parent are not in its child.
    #[cfg(unix)]
    #[test]
    fn a_fork_has_no_thread_of_its_parent_but_one() {
        use crate::park::core_pool;
        let name = "::a_fork_has_no_thread_of_its_parent_but_one";
        child::isolated(&[module_path!(), name].concat(), || {
            let (me, other) = (current(), core_pool::take(1, None, None));
            let has = |thread| all().iter().any(|snapshot| snapshot.thread == thread);
            let _crew = PoolThread::enter();
            assert!(has(me) && has(other) && pool_threads().living() == 1);
            child::forked(|| {
                assert!(has(me) && !has(other));
                assert_eq!(pool_threads().living(), 0);
                let _crew = PoolThread::enter();
                assert_eq!(pool_threads().living(), 1);
            });
            other.release();
        });
    }

    #[test]
    fn each_thread_is_looked_at() {
        let (me, mut found) = (current(), 0);
        all_threads::each(&mut |thread, _| found += u32::from(thread == me));
        assert_eq!(found, 1);
    }

    #[test]
    fn green_threads_are_looked_at_when_they_have_been_told_of() {
        child::isolated(
            concat!(module_path!(), "::green_threads_are_looked_at_when_they_have_been_told_of"),
            || {
                let me = current();
                let times = || {
                    let mut found = 0;
                    all_threads::each(&mut |thread, _| found += u32::from(thread == me));
                    (found, all().iter().filter(|snapshot| snapshot.thread == me).count())
                };
                assert_eq!(times(), (1, 1));
                // As if this thread were green, too.
                all_threads::tell_of_greens(|f| f(current()));
                assert_eq!(times(), (2, 2));
            },
        );
    }

    /// Returns the wait of `thread`, when it waits.
    fn wait_of(thread: ThreadRef) -> WaitSnapshot {
        loop {
            let snapshot = all().into_iter().find(|snapshot| snapshot.thread == thread);
            if let Some(wait) = snapshot.and_then(|snapshot| snapshot.wait) {
                return wait;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_sleep_lasts_until_it_is_over() {
        let _watched = watched();
        let (tell, told) = mpsc::channel();
        let sleeps = std::thread::spawn(move || {
            tell.send(current()).unwrap();
            crate::park::wait::Wait::forever().interruptible().run(sleep)
        });
        let thread = told.recv().unwrap();
        let wait = wait_of(thread);
        assert_eq!((wait.reason, wait.asleep), (WaitReason::Sleep, true));
        assert!(wait.interruptible && !wait.timed);
        thread.interrupt();
        assert!(sleeps.join().unwrap().is_err());
    }

    /// A condition variable moves its waiters to the mutex.
    #[test]
    fn a_waiter_waits_where_it_was_moved() {
        let _watched = watched();
        let words = [0u64; 2];
        let [from, to] = words.each_ref().map(|word| std::ptr::from_ref(word).addr());
        let (tell, told) = mpsc::channel();
        let waits = std::thread::spawn(move || {
            let options = Options::new(WaitReason::Condvar, crate::park::wait::Wait::forever());
            wait_queue::wait(from, &options, || true, || tell.send(current()).unwrap())
        });
        let thread = told.recv().unwrap();
        let seen = || {
            let wait = wait_of(thread);
            (wait.reason, wait.at, wait.asleep)
        };
        assert_eq!(seen(), (WaitReason::Condvar, from, true));
        assert_eq!(wait_queue::requeue(from, to, |_| true), 1);
        assert_eq!(seen(), (WaitReason::Mutex, to, true));
        wait_queue::grant_one(to, |_| Token(1)).unwrap().wake();
        assert_eq!(waits.join().unwrap(), Ok(Woken::Granted(Token(1))));
    }

    /// The kernel thread that ends a runtime is asleep in the kernel, as long as that runtime has threads.
    #[test]
    fn threads_that_end_a_runtime_are_seen() {
        /// How a thread looks that waits for the end of the runtime at `home`.
        fn seen(home: usize) -> WaitSnapshot {
            let (tell, told) = mpsc::channel();
            let (end, ends) = mpsc::channel::<()>();
            let waits = std::thread::spawn(move || {
                until_all_end(home, || {
                    tell.send(current()).unwrap();
                    ends.recv().unwrap_err();
                });
                assert!(current().snapshot().unwrap().2.is_none());
            });
            let thread = told.recv().unwrap();
            let snapshot = all().into_iter().find(|snapshot| snapshot.thread == thread).expect("it lives");
            drop(end);
            waits.join().unwrap();
            snapshot.wait.expect("it waits")
        }
        child::isolated(concat!(module_path!(), "::threads_that_end_a_runtime_are_seen"), || {
            // While no search for deadlocks is on, it costs nothing.
            let unknown = || until_all_end(8, || try_current().is_none());
            assert!(std::thread::spawn(unknown).join().unwrap());
            lock_owners::turn_on();
            // These threads' own home is 0, and no thread is at home at 8.
            for (home, asleep) in [(0, true), (8, false)] {
                let wait = seen(home);
                assert_eq!((wait.reason, wait.at, wait.timed), (WaitReason::Scope, home, false));
                assert_eq!(wait.asleep, asleep, "{home}");
            }
        });
    }
}
