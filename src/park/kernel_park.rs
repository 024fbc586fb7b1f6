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
use crate::shim::yield_cpu;
use crate::time;

/// The least that a spin is worth: about 1 us.
const LEAST_LOOKS: u16 = if FULL_LOOKS < 8 { FULL_LOOKS } else { 8 };

/// The looks with pauses between; the CPU is given away between the others. A turn that nobody takes lasts as long as the longest pause.
const EAGER: u16 = 5;

/// How long the turns of others may take together.
const PATIENCE: Duration = Duration::from_micros(100);

/// Sleeps without a spin, after it was for nothing however short it was. Range: 0 to below the looks of a full spin.
const RESTS: u16 = if FULL_LOOKS > 32 { 32 } else { 0 };

/// Turns that are given to others on trust, after one that was measured.
const TRUSTED: u16 = 8;

/// Gives others on the caller's CPU a turn, one of whom has what it waits for; unless that has taken long of late: there are so many, or they
/// compute, that who has only yielded is not back soon. `false`: no turn was given.
///
/// (5,000 pairs of kernel threads that play 100 rounds each: 3.6 s when each gives its turns in any case, 1.7 s so.)
pub(crate) fn give_turn(me: ThreadRef) -> bool {
    let record = KernelThread::of(me).turns();
    let before = record.get();
    if before > TRUSTED {
        record.set(if before - 1 > TRUSTED { before - 1 } else { 0 });
        return false;
    }
    if before > 0 {
        record.set(before - 1);
        yield_cpu();
        return true;
    }
    let began = time::now();
    yield_cpu();
    let late = time::now() - began >= PATIENCE;
    record.set(if late { TRUSTED + RESTS } else { TRUSTED });
    true
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
    fn turns_are_given_unless_they_were_long() {
        let me = current::current();
        let record = KernelThread::of(me).turns();
        record.set(TRUSTED);
        assert!((0..TRUSTED).all(|_| give_turn(me)));
        assert_eq!(record.get(), 0);
        // The next one is measured, whatever comes of it.
        assert!(give_turn(me) && record.get() >= TRUSTED);
        record.set(TRUSTED + RESTS);
        assert!(!(0..RESTS).any(|_| give_turn(me)));
        assert!(give_turn(me));
    }
}
