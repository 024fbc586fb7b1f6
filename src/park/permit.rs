//! The one-token word of a thread, which `park` consumes and `unpark` posts.
//!
//! **Problem.** An `unpark` before `park` must not be lost. An `unpark` while the thread is on its way into
//! its sleep must end that sleep. What the unparking thread wrote before must be visible to the parked
//! thread after.
//!
//! **Rejected.** To share the token with the wait queue: a lock's hand-off would use up a user's token. A
//! counter: `park` returns at once after any number of `unpark`s, but only once.
//!
//! **Protocol.** A green thread is first published as asleep (`PARKED`), and then leaves its stack. From
//! then on an unpark makes it runnable, and the LWP that mounts it waits for its `mounted` flag (I2). A
//! kernel thread spins on the word while it still says `EMPTY`. It publishes itself just before the futex
//! wait, which compares the word again. The thread that changes the word from `PARKED` owns the one wake-up
//! (I3).
//!
//! **Proof.** `unpark` is a swap, never a load that finds `NOTIFIED` and returns. So the writes of each
//! unpark happen before the consuming swap, which reads the last one in a chain of read-modify-writes (a
//! release sequence).
//!
//! **Cost** in read-modify-writes: an unpark 1; a park 1 with a token, and 2 without one (publish, consume).
//! Only waits that can be interrupted pay for interrupts (`interrupt.rs`).

pub(super) mod word;

use self::word::{EMPTY, INTERRUPTED, NOTIFIED, PARKED, Permit};
use super::current::current;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::Sleep;
use super::thread::ThreadRef;
use super::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};

/// One sleep on a thread's permit.
struct ParkSleep<'a> {
    permit: &'a Permit,
    /// Set for a green thread, which is already published.
    published: bool,
}

impl Sleep for ParkSleep<'_> {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.permit.futex()
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        let word = self.permit.look();
        // A kernel thread is not published while it spins.
        if self.published { word == PARKED } else { word < NOTIFIED }
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        self.permit.publish().then_some(PARKED)
    }

    fn expire(&self) -> bool {
        self.permit.expire()
    }

    fn interrupt(&self) -> bool {
        // The word of a kernel thread goes from `EMPTY` to `PARKED`, and never back while it sleeps.
        !self.published && self.permit.interrupt(EMPTY) || self.permit.interrupt(PARKED)
    }
}

/// Sleeps until the running thread's token is there, and takes it. `wait` is called only if there is no token
/// yet: with a token, the clock would be most of the cost. If an interrupt ends the sleep, the thread's flag
/// is still set. If a token ends it before an interrupt does, the interrupt is left for the next wait.
#[inline]
pub(crate) fn park(wait: impl FnOnce() -> Wait, reason: WaitReason) -> Result<(), WaitError> {
    let me = current();
    if me.permit.try_consume() {
        return Ok(());
    }
    let wait = wait();
    wait.check_end_unless(|| me.permit.look() == NOTIFIED);
    let backend = me.backend();
    let kernel = me.is_kernel();
    // From the publication to the wake-up (I9).
    let _no_preempt = NoPreempt::hold();
    if kernel || me.permit.publish() {
        wait.block(&me, backend, &ParkSleep { permit: &me.core().permit, published: !kernel }, reason);
    }
    match me.permit.finish() {
        NOTIFIED => Ok(()),
        INTERRUPTED => Err(WaitError::Interrupted),
        _ => Err(WaitError::TimedOut),
    }
}

/// Gives `thread` its token, and wakes it if it is parked. The caller holds a counted reference.
#[inline]
pub(crate) fn unpark(thread: ThreadRef) {
    // If the caller were preempted after it has posted, the thread would stay asleep for as long as others
    // run.
    let _no_preempt = NoPreempt::hold();
    if thread.permit.post() {
        // The thread may have woken by itself and gone on. Its word is in its core, which the caller's
        // reference keeps in this life.
        thread.backend().wake(thread, thread.core().permit.futex());
    }
}

/// A sleep that only its deadline or an interrupt ends.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | `NAPPING` | asleep | the deadline: `OVER`; an interrupt: `INTERRUPTED` |
/// | the others | over, and why | none |
struct Nap(AtomicU32);

const NAPPING: u32 = 0;
const OVER: u32 = 1;

impl Nap {
    /// Changes `NAPPING` to `why`. Returns `true` if this call ended the sleep.
    fn end(&self, why: u32) -> bool {
        // Relaxed, here and below: it passes nothing on. A timer passes the sleeper on through a queue. An
        // interrupter holds a lock, which the sleeper acquires before its frame ends.
        self.0.compare_exchange(NAPPING, why, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Sleep for Nap {
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NAPPING
    }

    fn may_spin(&self) -> bool {
        false
    }

    fn commit_kernel(&self) -> Option<u32> {
        self.is_asleep().then_some(NAPPING)
    }

    fn expire(&self) -> bool {
        self.end(OVER)
    }

    fn interrupt(&self) -> bool {
        self.end(INTERRUPTED)
    }
}

/// Sleeps until the wait ends. Returns an error if an interrupt has ended it: the thread's flag is still set.
pub(crate) fn sleep(wait: Wait) -> Result<(), WaitError> {
    let me = current();
    wait.check_end();
    let nap = Nap(AtomicU32::from(NAPPING));
    let _no_preempt = NoPreempt::hold();
    wait.block(&me, me.backend(), &nap, WaitReason::Sleep);
    if nap.0.load(Ordering::Relaxed) == INTERRUPTED { Err(WaitError::Interrupted) } else { Ok(()) }
}
