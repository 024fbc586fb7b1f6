//! How the monitor sleeps, and how others make it watch while they run.
//!
//! **The problem.** A runtime in which all threads sleep must not tick. One in which an LWP runs must,
//! because what that LWP leaves lying is found by no other (rule 6 of `sched::wake`). An LWP that wakes
//! cannot afford a system call to tell the monitor.
//!
//! **Rejected**:
//!
//! - A count of running LWPs that the monitor sleeps on. It takes a read-modify-write on a shared line at
//!   each sleep and wake-up of an LWP.
//! - A monitor that never sleeps. It wakes the CPU 100 times a second in an idle process.
//!
//! **Protocol.** The monitor stores DEEP, does a fence, looks once more whether all sleep (or the runtime is
//! closing), and only then sleeps. Another thread may take an LWP out of the set of sleepers, leave that set,
//! or end the runtime. It does so first, then does a fence, and then looks for DEEP. A thread that needs a
//! round in any case says so (`called`), does a fence, and wakes the monitor.
//!
//! DOZING is the same for long naps. The monitor's last look is for a thread that waits while a slot is BRIEF
//! (`region`). A thread that marks a slot, or queues a thread, looks for DOZING.
//!
//! **Proof.** One of the two fences comes first. If the monitor's does, the other side finds DEEP and wakes
//! it. Otherwise the monitor's last look finds that an LWP is awake. For DOZING, one thread marks and one
//! queues. The one with the later fence has made both visible.
//!
//! | `word` | means | next by |
//! |---|---|---|
//! | AWAKE | the monitor looks, or naps until its next round | the monitor: DEEP, DOZING |
//! | DEEP | it sleeps until it is woken, or is about to, and will look once more | any thread: AWAKE |
//! | DOZING | it naps for long, or is about to, and will look once more | the same |
//!
//! From DEEP and DOZING, the monitor itself may also go back to AWAKE. A DOZING monitor naps for so long that
//! no thread should wait for it.

use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::shim::futex;
use crate::time::Moment;

/// What others see of the monitor.
#[derive(Debug, Default)]
pub(crate) struct MonitorState {
    /// See the table in the header. It is also the futex that a sleeping monitor waits on.
    word: AtomicU32,
    /// There is to be a round, whether or not the monitor sleeps.
    called: AtomicBool,
}

const AWAKE: u32 = 0;
const DEEP: u32 = 1;
const DOZING: u32 = 2;

impl MonitorState {
    /// Makes the monitor watch again if it sleeps deeply, because an LWP has left the sleepers. As a rule,
    /// this is one fence and one load.
    #[inline]
    pub(crate) fn notice_activity(&self) {
        // Pairs with the fence of `sleep`; see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fence has ordered it.
        if self.word.load(Ordering::Relaxed) == DEEP {
            self.wake_up();
        }
    }

    /// Makes the monitor look soon if a thread `waits`, because a slot has been marked as BRIEF. As a rule,
    /// this is one fence and one load.
    #[inline]
    pub(crate) fn notice_region(&self, waits: impl FnOnce() -> bool) {
        // Pairs with the fence of `sleep`; see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fence has ordered it.
        if self.word.load(Ordering::Relaxed) == DOZING && waits() {
            self.wake_up();
        }
    }

    /// Makes the monitor look soon: a thread waits, and a slot may be BRIEF.
    #[cold]
    pub(crate) fn hurry(&self) {
        self.notice_region(|| true);
    }

    /// Wakes the monitor for a round, however it sleeps, because the caller has changed what it looks at.
    #[cold]
    pub(crate) fn wake(&self) {
        // Relaxed: the fence orders it.
        self.called.store(true, Ordering::Relaxed);
        // Pairs with the fence of `sleep`; see the proof.
        fence(Ordering::SeqCst);
        self.wake_up();
    }

    #[cold]
    fn wake_up(&self) {
        // Release: pairs with the acquire of `sleep`.
        self.word.store(AWAKE, Ordering::Release);
        futex::wake(&raw const self.word, 1);
    }

    /// Sleeps until the monitor is woken, or at most until `deadline`, if a last look says that it may.
    /// Monitor only.
    pub(in crate::mxn) fn sleep_deeply(&self, deadline: Option<Moment>, may_sleep: impl FnOnce() -> bool) {
        self.sleep(DEEP, deadline, may_sleep);
    }

    /// Naps for long, if a last look says that the monitor may. Returns `true` if it may not, or was woken.
    /// Monitor only.
    pub(in crate::mxn) fn doze(&self, until: Moment, may_doze: impl FnOnce() -> bool) -> bool {
        self.sleep(DOZING, Some(until), may_doze)
    }

    /// Returns `true` if the monitor may not sleep, or was woken.
    fn sleep(&self, how: u32, deadline: Option<Moment>, may_sleep: impl FnOnce() -> bool) -> bool {
        // Relaxed: the fence orders it.
        self.word.store(how, Ordering::Relaxed);
        // Pairs with the fences of `notice_activity`, `notice_region` and `wake`; see the proof.
        fence(Ordering::SeqCst);
        // Relaxed: the fences of `wake` and of this function order it.
        let may = may_sleep() && !self.called.swap(false, Ordering::Relaxed);
        // Acquire: pairs with the release of `wake_up`.
        while may && self.word.load(Ordering::Acquire) == how {
            if futex::wait(&self.word, how, deadline) == futex::Waited::TimedOut {
                // Relaxed: no thread acts on it.
                self.word.store(AWAKE, Ordering::Relaxed);
                return false;
            }
        }
        // Relaxed: no thread acts on it.
        self.word.store(AWAKE, Ordering::Relaxed);
        true
    }

    /// Naps until the next round, or until `wake`. Monitor only.
    pub(super) fn nap(&self, until: Moment) {
        // The word says AWAKE all the time. Only a wake-up ends the nap early, at the end of the runtime.
        let _ = futex::wait(&self.word, AWAKE, Some(until));
    }
}
