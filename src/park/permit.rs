//! The one-token word of a thread, which `park` consumes and `unpark` posts.
//!
//! **Problem.** `unpark` before `park` must not be lost, an `unpark` during the thread's way into its sleep must end
//! that sleep, and what the unparking thread wrote before must be visible to the parked one after.
//!
//! **Rejected.** Sharing the token with the wait queue (a lock's hand-off would eat a user's token). A counter: `park`
//! returns at once after any number of `unpark`s, but only once.
//!
//! **Protocol.** A green thread is published as asleep first (`PARKED`) and leaves its stack after; from then on an
//! unpark makes it runnable, and whoever mounts it waits for its `mounted` flag (I2). A kernel thread spins on the
//! word while it still says `EMPTY` and publishes itself just before the futex wait, which compares the word again.
//! Whoever moves the word away from `PARKED` owns the one wake-up (I3).
//!
//! **Proof.** `unpark` is a swap, never a load that finds `NOTIFIED` and returns: each unpark's writes then happen
//! before the consuming swap, which reads the last of them in a chain of read-modify-writes (a release sequence).
//!
//! **Cost** in read-modify-writes: unpark 1; park 1 with a token; without one 2 (publish, consume). What an interrupt costs,
//! only those pay who can be interrupted (`interrupt.rs`).

use std::time::Instant;

use super::backend::Sleep;
use super::current::current;
use super::fork;
use super::interrupt::{self, Interrupted};
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::shim::atomic::{AtomicU32, Ordering};

/// A thread's token.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | `EMPTY` | no token; the thread runs, or is a kernel thread that spins | the thread: `PARKED`; anyone: `NOTIFIED`; an interrupt of a spinning thread: `INTERRUPTED` |
/// | `PARKED` | the thread is asleep | unpark: `NOTIFIED`, and wakes it; its deadline: `EMPTY`, and makes it runnable; an interrupt: `INTERRUPTED`, and wakes it |
/// | `NOTIFIED` | a token waits | the thread: `EMPTY` |
/// | `INTERRUPTED` | an interrupt has ended the sleep, and there is no token | the thread: `EMPTY`; unpark: `NOTIFIED`, and wakes nobody |
#[derive(Debug)]
pub(crate) struct Permit(AtomicU32);

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
/// The least value that says that a sleep is over.
const NOTIFIED: u32 = 2;
const INTERRUPTED: u32 = 3;

impl Permit {
    /// Without a token.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(EMPTY))
    }

    /// Takes the token away before the core's next life.
    pub(crate) fn reset(&self) {
        // Relaxed: nobody else has a reference yet.
        self.0.store(EMPTY, Ordering::Relaxed);
    }

    /// Whether the thread is asleep, as far as this word goes: a look from outside.
    pub(super) fn is_parked(&self) -> bool {
        self.0.load(Ordering::Acquire) == PARKED
    }

    /// Takes the token if there is one. By the thread itself.
    #[inline]
    #[must_use]
    fn try_consume(&self) -> bool {
        // Relaxed: only a look. Acquire on the swap: pairs with every `post` up to the one it reads.
        self.0.load(Ordering::Relaxed) == NOTIFIED && self.0.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// `EMPTY -> PARKED` by the thread itself; `false`: a token is there, or the sleep is over.
    #[inline]
    #[must_use]
    fn publish(&self) -> bool {
        // Release: pairs with the acquire of `post`: a waker sees what this thread did before it parked.
        // Relaxed on failure: the consuming swap comes after.
        self.0.compare_exchange(EMPTY, PARKED, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// `-> NOTIFIED` by anyone; `true`: the thread was asleep, and the caller wakes it.
    #[inline]
    #[must_use]
    fn post(&self) -> bool {
        // Release: pairs with `try_consume` and `finish`. Acquire: pairs with `publish`. Always a write (see above).
        self.0.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// `PARKED -> EMPTY` because the deadline has passed; `true`: the caller makes the thread runnable.
    #[must_use]
    fn expire(&self) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Relaxed on failure: an unpark has won.
        self.0.compare_exchange(PARKED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `from -> INTERRUPTED` because the thread was interrupted; `true`: the caller wakes it.
    #[must_use]
    fn interrupt(&self, from: u32) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Release: an unpark that comes next, and the thread, come after. Relaxed on
        // failure: somebody else has won, or the thread is committing.
        self.0.compare_exchange(from, INTERRUPTED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// `-> EMPTY` by the thread after its sleep; what it was.
    #[inline]
    fn finish(&self) -> u32 {
        // Acquire: pairs with `post` and `interrupt`. A swap, since a token may arrive right now.
        self.0.swap(EMPTY, Ordering::Acquire)
    }
}

/// One sleep on a thread's permit.
struct ParkSleep {
    me: ThreadRef,
    /// Published already: a green thread.
    published: bool,
}

impl Sleep for ParkSleep {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        &self.me.core().permit.0
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        // Acquire: what the waker wrote is visible after `false`.
        let word = self.me.permit.0.load(Ordering::Acquire);
        // A kernel thread is not published while it spins.
        if self.published { word == PARKED } else { word < NOTIFIED }
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        self.me.permit.publish().then_some(PARKED)
    }

    fn expire(&self) -> bool {
        self.me.permit.expire()
    }

    fn interrupt(&self) -> bool {
        // A kernel thread goes from the one to the other, never back while it sleeps.
        !self.published && self.me.permit.interrupt(EMPTY) || self.me.permit.interrupt(PARKED)
    }
}

/// Sleeps until the running thread's token is there, and takes it; `false` if the deadline came first. The deadline is asked for
/// if there is no token yet: with one, the clock would be most of the cost.
#[inline]
pub(crate) fn park(deadline: impl FnOnce() -> Option<Instant>, reason: WaitReason) -> bool {
    let me = current();
    if me.permit.try_consume() {
        return true;
    }
    let deadline = deadline();
    fork::check(deadline);
    let backend = me.backend();
    let kernel = backend.sleeps_in_kernel();
    // From its being published to its waking up (I9).
    let _no_preempt = NoPreempt::hold();
    if kernel || me.permit.publish() {
        backend.block(&me, &ParkSleep { me, published: !kernel }, deadline, reason);
    }
    me.permit.finish() == NOTIFIED
}

/// [`park`], which an interrupt ends too. A token that came first is taken, and the interrupt left for the next wait.
pub(crate) fn park_interruptible(
    deadline: impl FnOnce() -> Option<Instant>,
    reason: WaitReason,
) -> Result<bool, Interrupted> {
    interrupt::check()?;
    let me = current();
    if me.permit.try_consume() {
        return Ok(true);
    }
    let deadline = deadline();
    fork::check(deadline);
    let kernel = me.backend().sleeps_in_kernel();
    // From its being published to its waking up (I9).
    let _no_preempt = NoPreempt::hold();
    if kernel || me.permit.publish() {
        interrupt::block(&me, &ParkSleep { me, published: !kernel }, deadline, reason);
    }
    match me.permit.finish() {
        INTERRUPTED => Err(interrupt::reported()),
        word => Ok(word == NOTIFIED),
    }
}

/// Gives `thread` its token, and wakes it if it is parked. The caller holds a counted reference.
#[inline]
pub(crate) fn unpark(thread: ThreadRef) {
    // If the caller were preempted after it has posted, the thread would stay asleep for as long as others
    // run.
    let _no_preempt = NoPreempt::hold();
    if thread.permit.post() {
        // It may have woken by itself and gone on: its word lives in its core, which our reference keeps in this life.
        thread.backend().wake(thread, &raw const thread.core().permit.0);
    }
}

/// A sleep that nothing but its deadline, or an interrupt, ends.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | `NAPPING` | asleep | the deadline: `OVER`; an interrupt: `INTERRUPTED` |
/// | the others | over, and why | nobody |
struct Nap(AtomicU32);

const NAPPING: u32 = 0;
const OVER: u32 = 1;

impl Nap {
    /// `NAPPING -> why`; whether this call ended the sleep.
    fn end(&self, why: u32) -> bool {
        // AcqRel: one of several callers wins, and the sleeper sees what it did before.
        self.0.compare_exchange(NAPPING, why, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Sleep for Nap {
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn is_asleep(&self) -> bool {
        // Acquire: pairs with `end`.
        self.0.load(Ordering::Acquire) == NAPPING
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

/// Sleeps until `deadline`, for ever if there is none.
pub(crate) fn sleep_until(deadline: Option<Instant>) {
    let me = current();
    let _no_preempt = NoPreempt::hold();
    me.backend().block(&me, &Nap(AtomicU32::from(NAPPING)), deadline, WaitReason::Sleep);
}

/// [`sleep_until`], which an interrupt ends too.
pub(crate) fn sleep_interruptible(deadline: Option<Instant>) -> Result<(), Interrupted> {
    interrupt::check()?;
    let me = current();
    let nap = Nap(AtomicU32::from(NAPPING));
    interrupt::block(&me, &nap, deadline, WaitReason::Sleep);
    // Acquire: as in `is_asleep`.
    if nap.0.load(Ordering::Acquire) == INTERRUPTED { Err(interrupt::reported()) } else { Ok(()) }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_permit.rs"]
mod loom_permit;
