//! How kernel threads sleep: they look for a while, then wait on a futex.
//!
//! One backend serves bound threads, 1:1 threads and threads that Selvedge did not start.
//!
//! **Problem.** A futex sleep and its wake-up cost 30 us where a hand-off between two running threads costs 0.3. But
//! spinning burns a CPU that somebody else may need, most of all the one who is to wake us.
//!
//! **Rejected.** Always spinning for one wake-up's price: threads that wait long, or share their CPU with their waker,
//! pay it for nothing each time. Never spinning: every hand-off pays the kernel. A global estimate: threads differ.
//!
//! **Protocol.**
//! 1. Look at the word, with growing gaps, as often as this thread's own record allows: a spin that saw the end of
//!    the sleep restores it, one that was for nothing halves it, down to [`LEAST_LOOKS`], so that a thread that begins
//!    to be served fast finds out. A caller that knows better (a mutex that has spun already) says no to spinning.
//! 2. Commit: from now on the winner must wake us. The commit compares, so a winner that came first is seen.
//! 3. Futex wait on the committed value, until the word says that the sleep is over.
//! 4. After the deadline, expire the own sleep. If somebody else won meanwhile, wait for its word: it is coming.
//!
//! **Proof** of no lost wake-up: the winner's swap finds the commit (and wakes the futex, which compares the word
//! under the kernel's own lock) or comes before it (and the commit fails).

use std::time::Instant;

use super::backend::{Backend, Keeper, Sleep};
use super::current;
use super::ledger;
use super::reason::WaitReason;
use super::registry::{self, KernelThread};
use super::spin::{FULL_LOOKS, Spin};
use super::thread::ThreadRef;
use crate::shim::atomic::AtomicU32;
use crate::shim::futex::{self, Waited};
use crate::shim::yield_cpu;
use crate::time;

/// What remains of a spin after any number of failures: about 1 us.
const LEAST_LOOKS: u16 = 8;

/// The backend of all kernel threads.
#[derive(Debug)]
pub(crate) struct KernelPark;

/// Its one value.
pub(crate) static KERNEL_PARK: KernelPark = KernelPark;

impl Backend for KernelPark {
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, reason: WaitReason) {
        let thread = KernelThread::of(*me);
        thread.learn_cpu();
        if sleep.may_spin() && spin(thread, sleep, deadline) {
            return;
        }
        let Some(committed) = sleep.commit_kernel() else {
            return;
        };
        me.core().whereabouts.waits(reason, deadline.is_some());
        let mut deadline = deadline;
        while sleep.is_asleep() {
            if futex::wait(sleep.word(), committed, deadline) == Waited::TimedOut {
                if sleep.expire() {
                    break;
                }
                // Somebody has won, and settles the word any moment.
                deadline = None;
            }
        }
        me.core().whereabouts.goes_on();
        if ledger::is_on() {
            current::restamp();
        }
    }

    fn wake(&self, _target: ThreadRef, word: *const AtomicU32) {
        futex::wake(word, 1);
    }

    fn yield_now(&self, _me: &ThreadRef) {
        yield_cpu();
    }

    fn sleeps_in_kernel(&self) -> bool {
        true
    }
}

impl Keeper for KernelPark {
    fn joined(&self, ended: ThreadRef) {
        KernelThread::of(ended).remains().joined();
    }

    fn detached(&self, thread: ThreadRef) {
        // The kernel thread of a lost one was the parent's.
        if !thread.is_lost() {
            KernelThread::of(thread).remains().detached();
        }
    }

    fn recycle(&self, core: ThreadRef) {
        registry::give_back(core);
    }
}

/// Step 1; whether the sleep is over.
#[inline]
fn spin(thread: &KernelThread, sleep: &dyn Sleep, deadline: Option<Instant>) -> bool {
    if !sleep.is_asleep() {
        return true;
    }
    // The clock is read once: a spin is shorter than what a deadline promises.
    if time::has_passed(deadline) {
        return false;
    }
    let looks = thread.looks().get();
    let mut spin = Spin::new(looks);
    while spin.pause() {
        if !sleep.is_asleep() {
            thread.looks().set(FULL_LOOKS);
            return true;
        }
    }
    thread.looks().set(LEAST_LOOKS.max(looks / 2));
    false
}
