//! The sleep of an async task that waits where threads wait: a [`Sleeper`] with a waker in the place of a
//! thread.
//!
//! **Problem.** A task waits in a list of threads, and is served in its turn. The party that serves it has
//! won its sleep, settles it, and wakes a thread by its backend. But a task has no thread, no frame that
//! stays while it sleeps, and may be dropped at any time.
//!
//! **Rejected.** A second kind of entry in each list, and of grant: each hand-off between threads would ask
//! which kind it has.
//!
//! **Protocol.** The sleep lies in counted memory. The list in which it is has one share. The party that
//! takes the sleep out of the list has won it, with that share. The backend of such sleeps is [`Tasks`]. Its
//! `wake` finds the memory again by the address of the sleep's word, and gives it the share
//! ([`TaskSleep::new`]'s `told`), which calls the waker.
//!
//! The sleep's thread is the one that polled the task first. It lends the task its priority. In a forked
//! child, a task of a thread that is not there is lost.

use std::mem::{self, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::backend::{Backend, Sleep};
use super::no_preempt::{self, NoPreempt};
use super::reason::WaitReason;
use super::sleeper::Sleeper;
use super::thread::ThreadRef;
use crate::shim::atomic::AtomicU32;
use crate::time::Moment;

/// The first field of a task's waiter, which is `repr(C)`.
#[repr(C)]
pub(crate) struct TaskSleep {
    sleeper: Sleeper,
    told: unsafe fn(*const TaskSleep),
}

/// How far behind the beginning of a [`TaskSleep`] the word of its sleep is.
const WORD: usize = offset_of!(TaskSleep, sleeper) + Sleeper::WORD;

impl TaskSleep {
    /// Creates the sleep of a task that the running thread polls. When the winner has settled it, `told` is
    /// called once, with its address and the winner's share, and with no lock held. It may run code of the
    /// user's, as wakers are. If it panics, only the panic's hook tells.
    pub(crate) fn new(told: unsafe fn(*const TaskSleep)) -> Self {
        Self { sleeper: Sleeper::of_task(&Tasks), told }
    }

    /// Lets the winner find the memory, of which this is the first field.
    pub(crate) fn expose(this: *const Self) {
        let _ = this.expose_provenance();
    }

    pub(crate) fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }
}

/// The backend of async tasks.
struct Tasks;

impl Backend for Tasks {
    fn block(&self, _: &ThreadRef, _: &dyn Sleep, _: Option<Moment>, _: WaitReason) {
        unreachable!("a task returns from its poll instead");
    }

    fn wake(&self, _target: ThreadRef, word: *const AtomicU32) {
        let sleep: *const TaskSleep = ptr::with_exposed_provenance(word.addr() - WORD);
        // SAFETY: the winner has a share of the memory, which was exposed. Only tasks have this backend.
        let told = unsafe { (*sleep).told };
        // The caller's `NoPreempt` is for threads, which it could leave asleep. A waker may take long.
        no_preempt::lower();
        // SAFETY: called once, by the winner.
        contained(|| unsafe { told(sleep) });
        mem::forget(NoPreempt::hold());
    }

    fn yield_now(&self, _: &ThreadRef) {}
}

/// Runs code of the user's for a caller that has other things to do after a panic. The panic has been
/// reported by its hook.
pub(crate) fn contained(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // What the panic has left may panic, too, and leave something again.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(again);
        }
    }
}
