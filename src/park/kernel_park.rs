//! How kernel threads sleep: they spin for a while, then wait on a futex.
//!
//! One backend serves bound threads, 1:1 threads and threads that Selvedge did not start.
//!
//! **Problem.** A futex sleep and its wake-up cost 30 us, where a hand-off between two running threads costs
//! 0.3. But spinning burns a CPU that another thread may need, above all the thread that will end the sleep.
//!
//! **Rejected.**
//!
//! - Always to spin for the price of one wake-up. Threads that wait long, or share their CPU with their
//!   waker, pay it for nothing each time.
//! - Never to spin: every hand-off pays for the kernel.
//! - One global estimate: threads differ.
//!
//! **Protocol.**
//!
//! 1. Look at the word, as often as this thread's own record allows. A spin that saw the end of the sleep
//!    restores the record. A spin that was for nothing halves it. From [`RESTS`] down, the record is a number
//!    of sleeps without a spin. After these, [`LEAST_LOOKS`] find out if the thread is served fast again. If
//!    the caller knows better, it forbids the spin; a mutex that has spun already does so.
//! 2. Commit: from now on the winner must wake this thread. The commit compares, so a winner that came first
//!    is seen.
//! 3. Wait on the futex with the committed value, until the word says that the sleep is over.
//! 4. After the deadline, expire the thread's own sleep. If another party has won meanwhile, wait for its
//!    word, which is about to come.
//!
//! **Gaps between the looks.** At first the gaps grow. Then each gap is a yield to the other threads of this
//! CPU, and one of them may be the thread that ends the sleep. If there are more threads than CPUs, they
//! hand things to and fro by one switch each, and the kernel puts no thread to sleep. Four threads at a
//! barrier on two CPUs take 30 us a round without these yields, and 3.5 with them. A round trip on one CPU
//! takes 3.7 us without, and 1.1 with them.
//!
//! But the other threads may compute instead. The kernel prefers a woken thread to them, but not a thread
//! that has only yielded. So if the yields take long, the spin ends, and some sleeps have none.
//!
//! **Proof** that no wake-up is lost. The winner's swap may find the commit; then the winner wakes the
//! futex, which compares the word under the kernel's own lock. Or the swap comes before the commit; then the
//! commit fails.

use std::mem;
use std::ops::Range;
use std::time::Duration;

use super::backend::Backend;
use super::core_pool::KernelThread;
use super::current;
use super::no_preempt;
use super::observed;
use super::reason::WaitReason;
use super::sleep_word::Sleep;
use super::spin::{FULL_LOOKS, Spin};
use super::thread::ThreadRef;
use super::traced;
use super::turns;
use crate::recorder::ring::Ring;
use crate::shim::atomic::AtomicU32;
use crate::shim::futex::{self, Waited};
use crate::shim::yield_cpu;
use crate::time::{self, Moment};

/// The least number of looks that is worth a spin: about 1 us.
const LEAST_LOOKS: u16 = if FULL_LOOKS < 8 { FULL_LOOKS } else { 8 };

/// The looks with pauses in between. Between the others, the CPU is yielded. If no other thread takes it,
/// a yield lasts as long as the longest pause.
const EAGER: u16 = 5;

/// How long the yields may take in total.
const MAX_YIELDED: Duration = Duration::from_micros(100);

/// The most sleeps without a spin: after the shortest spin was for nothing. At least 0, and below the looks
/// of a full spin.
const RESTS: u16 = if FULL_LOOKS > 32 { 32 } else { 0 };

/// The backend of all kernel threads.
#[derive(Debug)]
pub(crate) struct KernelPark;

/// The one value of its type.
pub(crate) static KERNEL_PARK: KernelPark = KernelPark;

impl Backend for KernelPark {
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, reason: WaitReason) {
        let thread = KernelThread::of(*me);
        current::learn_cpu();
        // Checked only once: a spin is shorter than the precision that a deadline promises. Without time, the
        // thread does not enter the kernel, which would take its time slice if other threads want the CPU.
        let mut is_late = time::has_passed(deadline);
        if !is_late && sleep.may_spin() && spin(thread, sleep) {
            return;
        }
        let Some(committed) = sleep.commit_kernel() else {
            return;
        };
        me.core().wait_state.waits(reason, deadline.is_some());
        if observed::is_traced() {
            traced::blocks(*me);
        }
        let mut deadline = deadline;
        while sleep.is_asleep() {
            let wait = || futex::wait(sleep.word(), committed, deadline);
            if mem::take(&mut is_late) || no_preempt::without(wait) == Waited::TimedOut {
                if sleep.expire() {
                    break;
                }
                // Another party has won, and settles the word at any moment.
                deadline = None;
            }
        }
        me.core().wait_state.goes_on();
        turns::begin(current::cpu_hint());
        if observed::is_any_after_sleep() {
            after_sleep(*me);
        }
    }

    fn wake(&self, target: ThreadRef, word: *const AtomicU32) {
        if observed::is_traced() {
            traced::readied(target, true);
        }
        futex::wake(word, 1);
    }

    fn yield_now(&self, _me: &ThreadRef) {
        yield_cpu();
    }

    fn stack_of(&self, thread: &ThreadRef) -> Option<Range<usize>> {
        let before = KernelThread::of(*thread).before()?;
        before.backend().stack_of(&before)
    }

    fn ring(&self, me: &ThreadRef) -> Option<&'static Ring> {
        Some(KernelThread::of(*me).ring.get()?.ring())
    }
}

/// Runs `call`, a system call in which the running thread, which owns a kernel thread, may wait for `reason`.
/// Looks from outside and the trace see it wait.
#[inline]
pub(crate) fn in_call<R>(me: ThreadRef, reason: WaitReason, timed: bool, call: impl FnOnce() -> R) -> R {
    me.core().wait_state.waits(reason, timed);
    if observed::is_traced() {
        traced::blocks(me);
    }
    let result = call();
    me.core().wait_state.goes_on();
    if observed::is_any_after_sleep() {
        after_sleep(me);
    }
    result
}

/// Does what observers have asked for, when the running thread has slept in the kernel.
#[cold]
fn after_sleep(me: ThreadRef) {
    if observed::is_traced() {
        traced::runs(me);
    }
    if observed::are_owners_recorded() {
        current::recache_hint();
    }
}

/// Does step 1. Returns `true` if the sleep is over.
#[inline]
fn spin(thread: &KernelThread, sleep: &dyn Sleep) -> bool {
    if !sleep.is_asleep() {
        return true;
    }
    let record = thread.looks();
    let looks = match record.get() {
        0 => LEAST_LOOKS,
        rests if rests <= RESTS => {
            record.set(rests - 1);
            return false;
        }
        looks => looks,
    };
    let mut spin = Spin::new(looks.min(EAGER));
    let mut yields = looks.saturating_sub(EAGER);
    let mut began = None;
    loop {
        let mut late = false;
        if !spin.pause() {
            if yields == 0 {
                break;
            }
            yields -= 1;
            let began = *began.get_or_insert_with(time::now);
            yield_cpu();
            late = time::now() - began >= MAX_YIELDED;
        }
        let over = !sleep.is_asleep();
        if over || late {
            record.set(if late { RESTS } else { FULL_LOOKS });
            return over;
        }
    }
    record.set(if looks / 2 < LEAST_LOOKS { RESTS } else { looks / 2 });
    false
}
