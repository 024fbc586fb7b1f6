//! All threads of the process, as they look at one moment, for those who look for deadlocks.
//!
//! **Problem.** A deadlock is a statement about several threads at once, and they can be looked at only one after the other, while they
//! run.
//!
//! **Protocol.** A look at a thread says in which of its waits it is, by number (`whereabouts.rs`). Two looks that find the same
//! wait have it hold all the time in between. So whoever looks at everybody, and then at everybody again, knows of a moment
//! at which all the waits that are in both looks held together: any moment between the two.
//!
//! A thread that has been granted what it waits for looks as if it waited until it runs. So a look also asks whether the sleep is one that
//! nobody has ended: the waiter is still in its queue, or the permit says parked. A waiter is listed with the queue that it is
//! in, which need not be the one that it went to: a condition variable moves waiters to its mutex.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use super::reason::WaitReason;
use super::registry;
use super::table;
use super::thread::ThreadRef;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::{OnceLock, global};

/// Calls back with every green thread's core, of whatever runtime, living or not.
type Greens = fn(&mut dyn FnMut(ThreadRef));

static GREENS: OnceLock<Greens> = OnceLock::new();

/// From now on, these are looked at too.
pub(crate) fn tell_of_greens(greens: Greens) {
    // The second time it is the same.
    let _ = GREENS.set(greens);
}

global! {
    static ENTERED: AtomicUsize = AtomicUsize::new(0);
}

global! {
    static LEFT: AtomicUsize = AtomicUsize::new(0);
}

/// A kernel thread of a runtime's that runs nobody's code but green threads', while it lives.
#[derive(Debug)]
pub(crate) struct CrewMember(());

impl CrewMember {
    pub(crate) fn enter() -> Self {
        // Relaxed, here and below: a figure.
        ENTERED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for CrewMember {
    fn drop(&mut self) {
        LEFT.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many such kernel threads there have been, and how many of them are gone. Where it is the same twice, it was in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crew {
    entered: usize,
    left: usize,
}

impl Crew {
    pub(crate) fn living(self) -> usize {
        self.entered.saturating_sub(self.left)
    }
}

pub(crate) fn crew() -> Crew {
    Crew { left: LEFT.load(Ordering::Relaxed), entered: ENTERED.load(Ordering::Relaxed) }
}

/// How a thread looked at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) thread: ThreadRef,
    pub(crate) id: NonZeroU64,
    /// The address of its runtime; 0: none.
    pub(crate) home: usize,
    /// It owns a kernel thread.
    pub(crate) kernel: bool,
    /// `None`: it does not wait.
    pub(crate) wait: Option<Wait>,
}

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Which of its waits this is.
    pub(crate) turn: u32,
    pub(crate) reason: WaitReason,
    /// The address of that; in a join, the place of the other thread's core.
    pub(crate) at: usize,
    /// It ends by itself.
    pub(crate) timed: bool,
    /// An interrupt would end it.
    pub(crate) interruptible: bool,
    /// Nobody has ended it yet.
    pub(crate) asleep: bool,
}

/// Calls back with the core of every thread, of whatever runtime or none, living or not. Neither allocates
/// nor takes a lock.
pub(super) fn each(f: &mut dyn FnMut(ThreadRef)) {
    registry::all().for_each(|kernel| f(kernel.thread()));
    if let Some(greens) = GREENS.get() {
        greens(f);
    }
}

/// All threads that live. It allocates, and takes the lock of each bucket of the wait queues in turn.
pub(crate) fn look() -> Vec<Sight> {
    let mut sights = Vec::new();
    let mut add = |thread: ThreadRef, kernel| {
        if let Some((id, home, wait)) = thread.sight() {
            sights.push(Sight { thread, id, home, kernel, wait });
        }
    };
    registry::all().for_each(|kernel| add(kernel.thread(), true));
    if let Some(greens) = GREENS.get() {
        greens(&mut |green| add(green, false));
    }
    // After the threads: who was granted before it was looked at is not in a queue.
    let queued: HashMap<usize, usize> = table::walk::everybody().into_iter().collect();
    let homes: HashSet<usize> = sights.iter().map(|sight| sight.home).collect();
    for Sight { thread, wait, .. } in &mut sights {
        let Some(wait) = wait else { continue };
        let queue = queued.get(&thread.place());
        wait.asleep = match wait.reason {
            WaitReason::Join | WaitReason::Sleep => true,
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
    sights
}
