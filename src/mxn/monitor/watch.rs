//! How the monitor sleeps, and how others see to it that it watches while they run.
//!
//! **The problem.** A runtime in which all sleeps must not tick; one in which an LWP runs must, because what that LWP leaves
//! lying is found by nobody else (rule 6 of `sched::wake`). An LWP that wakes cannot afford a system call to tell the monitor.
//!
//! **Rejected**: a count of running LWPs that the monitor sleeps on (a read-modify-write on a shared line at each sleep and
//! wake-up of an LWP); a monitor that never sleeps (100 wake-ups of the CPU a second in an idle process).
//!
//! **Protocol.** The monitor stores DEEP, does a fence, looks once more whether all sleep (or the runtime is closing), and
//! only then sleeps. Whoever takes an LWP off the list of sleepers, or leaves it, or ends the runtime, does so first, then a
//! fence, and then looks for DEEP. Who wants a round at any rate says so (`called`), does a fence, and wakes it.
//!
//! The same with DOZING, where its nap is long: its last look is for somebody who waits while a slot is BRIEF (`region`); and who
//! marks a slot, or queues a thread, looks for DOZING.
//!
//! **Proof.** Of the two fences one comes first. If the monitor's does, the other side finds DEEP and wakes it; else the
//! monitor's last look finds that somebody is awake. For DOZING: of the two who mark and queue, the one whose fence comes later has seen to it
//! that both is to be seen.
//!
//! | `bed` | means | next by |
//! |---|---|---|
//! | AWAKE | the monitor looks, or naps until its next round | the monitor: DEEP, DOZING |
//! | DEEP | it sleeps until it is woken, or is about to, and will look once more | anybody: AWAKE; the monitor: AWAKE |
//! | DOZING | it naps for so long that nobody should wait for it, or is about to, and will look once more | the same |

use std::time::Instant;

use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::shim::futex;

/// What others see of the monitor.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// See the table in the header; the futex that a sleeping monitor waits on.
    bed: AtomicU32,
    /// There is to be a round, whether or not the monitor sleeps.
    called: AtomicBool,
    /// Slots moved to a spare LWP because their holder slept in the kernel.
    pub(crate) compensated: AtomicU64,
    /// Slots moved to a spare LWP because their holder computed on and would not leave.
    pub(crate) handed_off: AtomicU64,
    /// There was nobody to move a slot to.
    pub(crate) starved: AtomicU64,
    /// Times that there was neither a spare LWP nor room for one more.
    pub(crate) bounded: AtomicU64,
    /// That is so, and has been counted.
    pub(crate) at_bound: AtomicBool,
    /// LWPs that could not be started.
    pub(crate) not_started: AtomicU64,
    /// When a start last failed, by the runtime's clock; 0: never.
    pub(crate) failed_at: AtomicU64,
    /// LWPs that were spare for so long that their kernel threads were ended.
    pub(crate) aged: AtomicU64,
    /// The kernel threads of the monitor, and of the reserve; 0 until they run.
    pub(crate) tids: [AtomicU32; 2],
    /// Spares that are to stand by, if more than at the start.
    pub(crate) reserve: AtomicUsize,
    /// The reserve wants filling: the futex of its thread.
    pub(crate) refill: AtomicU32,
}

const AWAKE: u32 = 0;
const DEEP: u32 = 1;
const DOZING: u32 = 2;

impl Watch {
    /// An LWP is no longer among the sleepers: if the monitor sleeps deeply, it must watch again. One fence and one load,
    /// as a rule.
    #[inline]
    pub(crate) fn notice_activity(&self) {
        // Pairs with the fence of `sleep`: see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fence has ordered it.
        if self.bed.load(Ordering::Relaxed) == DEEP {
            self.rouse();
        }
    }

    /// A slot has been marked as BRIEF: if somebody `waits`, the monitor must look soon. One fence and one load, as a rule.
    #[inline]
    pub(crate) fn notice_region(&self, waits: impl FnOnce() -> bool) {
        // Pairs with the fence of `sleep`: see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fence has ordered it.
        if self.bed.load(Ordering::Relaxed) == DOZING && waits() {
            self.rouse();
        }
    }

    /// Somebody waits, and a slot may be BRIEF: the monitor must look soon.
    #[cold]
    pub(crate) fn hurry(&self) {
        self.notice_region(|| true);
    }

    /// Wakes the monitor for a round, however it sleeps: the caller has changed what it looks at.
    #[cold]
    pub(crate) fn wake(&self) {
        // Relaxed: the fence orders it.
        self.called.store(true, Ordering::Relaxed);
        // Pairs with the fence of `sleep`: see the proof.
        fence(Ordering::SeqCst);
        self.rouse();
    }

    #[cold]
    fn rouse(&self) {
        // Release: pairs with the acquire of `sleep`.
        self.bed.store(AWAKE, Ordering::Release);
        futex::wake(&raw const self.bed, 1);
    }

    /// The monitor sleeps until it is woken, or at most until `deadline`, if a last look says that it may.
    pub(in crate::mxn) fn sleep_deeply(&self, deadline: Option<Instant>, may_sleep: impl FnOnce() -> bool) {
        self.sleep(DEEP, deadline, may_sleep);
    }

    /// The monitor naps for long, if a last look says that it may. Gives whether it was not to, or is to no more.
    pub(in crate::mxn) fn doze(&self, until: Instant, may_doze: impl FnOnce() -> bool) -> bool {
        self.sleep(DOZING, Some(until), may_doze)
    }

    /// Gives whether it may not, or was woken.
    fn sleep(&self, how: u32, deadline: Option<Instant>, may_sleep: impl FnOnce() -> bool) -> bool {
        // Relaxed: the fence orders it.
        self.bed.store(how, Ordering::Relaxed);
        // Pairs with the fences of `notice_activity`, `notice_region` and `wake`: see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fences order it, `wake`'s and ours.
        let may = may_sleep() && !self.called.swap(false, Ordering::Relaxed);
        // Acquire: pairs with the release of `rouse`.
        while may && self.bed.load(Ordering::Acquire) == how {
            if futex::wait(&self.bed, how, deadline) == futex::Waited::TimedOut {
                // Relaxed: nobody acts on it.
                self.bed.store(AWAKE, Ordering::Relaxed);
                return false;
            }
        }
        // Relaxed: as above.
        self.bed.store(AWAKE, Ordering::Relaxed);
        true
    }

    /// The monitor naps until its next round, or until `wake`.
    pub(super) fn nap(&self, until: Instant) {
        // It says AWAKE all the time: only a wake-up, at the end of the runtime, ends the nap early.
        let _ = futex::wait(&self.bed, AWAKE, Some(until));
    }
}
