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
//! 1. Look at the word, as often as this thread's own record allows: a spin that saw the end of the sleep restores it, one
//!    that was for nothing halves it, down to [`LEAST_LOOKS`], and then there is none for some sleeps ([`RESTS`]), so that a
//!    thread that begins to be served fast finds out. At first with growing gaps; then each gap is a turn for others on this
//!    CPU, one of which may be the one who is to wake us: where there are more threads than CPUs, they hand things to and fro by one
//!    switch each, and the kernel puts nobody to sleep (four threads at a barrier on two CPUs: 30 us a round, then 3.5; a round trip
//!    on one CPU: 3.7 us, then 1.1). Others may as well compute, and who has only yielded to them is not preferred to them as one
//!    is that was woken: a spin whose turns take long ends, and there is none for some sleeps.
//!    A caller that knows better (a mutex that has spun already) says no to spinning.
//! 2. Commit: from now on the winner must wake us. The commit compares, so a winner that came first is seen.
//! 3. Futex wait on the committed value, until the word says that the sleep is over.
//! 4. After the deadline, expire the own sleep. If somebody else won meanwhile, wait for its word: it is coming.
//!
//! **Proof** of no lost wake-up: the winner's swap finds the commit (and wakes the futex, which compares the word
//! under the kernel's own lock) or comes before it (and the commit fails).

use std::time::{Duration, Instant};

use super::backend::{Backend, Keeper, Sleep};
use super::current;
use super::ledger;
use super::reason::WaitReason;
use super::registry::{self, KernelThread};
use super::spin::{FULL_LOOKS, Spin};
use super::thread::ThreadRef;
use crate::shim::atomic::AtomicU32;
use crate::shim::futex::{self, Waited};
use crate::shim::{OFTEN, yield_cpu};
use crate::time;

/// The least that a spin is worth: about 1 us.
const LEAST_LOOKS: u16 = if FULL_LOOKS < 8 { FULL_LOOKS } else { 8 };

/// The looks with pauses between; the CPU is given away between the others. A turn that nobody takes lasts as long as the longest pause.
const EAGER: u16 = 5;

/// How long the turns of others may take together.
const PATIENCE: Duration = Duration::from_micros(100);

/// Sleeps without a spin, after it was for nothing however short it was. Range: 0 to below the looks of a full spin.
const RESTS: u16 = if FULL_LOOKS > 32 { 32 } else { 0 };

/// Gives others on the caller's CPU a turn, one of whom has what it waits for, if it has met such a one a moment ago, too: then things are
/// handed to and fro here, and a turn is cheaper than a sleep. `false`: no turn was given.
///
/// Who meets a preempted owner once in a while sleeps: the kernel takes from who yields what is left of his slice, some 3 ms, and of threads that
/// compute, those that met more such owners got fewer of the CPUs (sixteen of them, two seconds: 25 % behind, asleep instead 11). And who has
/// waited long for his turn, or slept long, is not one of two that hand things to and fro: each turn may go to thousands of others.
pub(crate) fn give_turn(me: ThreadRef) -> bool {
    let now = time::now();
    let last = KernelThread::of(me).last_meeting().replace(Some(now));
    let often = last.is_some_and(|last| now - last < OFTEN);
    if often {
        yield_cpu();
    }
    often
}

/// The backend of all kernel threads.
#[derive(Debug)]
pub(crate) struct KernelPark;

/// Its one value.
pub(crate) static KERNEL_PARK: KernelPark = KernelPark;

impl Backend for KernelPark {
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, reason: WaitReason) {
        let thread = KernelThread::of(*me);
        current::learn_cpu();
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
    // Not asked again: a spin is shorter than what a deadline promises.
    if time::has_passed(deadline) {
        return false;
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
    let mut turns = looks.saturating_sub(EAGER);
    let mut began = None;
    loop {
        let mut late = false;
        if !spin.pause() {
            if turns == 0 {
                break;
            }
            turns -= 1;
            let began = *began.get_or_insert_with(time::now);
            yield_cpu();
            late = time::now() - began >= PATIENCE;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_by_who_does_so_often() {
        let me = current::current();
        let last = KernelThread::of(me).last_meeting();
        last.set(None);
        assert!(!give_turn(me));
        // Another moment, whatever else the machine does.
        assert!((0..1_000).any(|_| give_turn(me)));
        last.set(time::now().checked_sub(OFTEN));
        assert!(!give_turn(me));
    }
}
