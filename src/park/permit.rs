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

use super::backend::Sleep;
use super::current::current;
use super::endless;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::thread::ThreadRef;
use super::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};

/// A thread's token.
///
/// | value | meaning | next by |
/// |---|---|---|
/// | `EMPTY` | no token; the thread runs, or is a kernel thread that spins | see below |
/// | `PARKED` | the thread is asleep | see below |
/// | `NOTIFIED` | a token waits | the thread: `EMPTY` |
/// | `INTERRUPTED` | an interrupt has ended the sleep; no token | the thread: `EMPTY`; unpark: `NOTIFIED` |
///
/// `EMPTY` becomes:
///
/// - `PARKED`, by the thread
/// - `NOTIFIED`, by any unpark
/// - `INTERRUPTED`, by an interrupt of a thread that spins
///
/// `PARKED` becomes:
///
/// - `NOTIFIED`, by an unpark, which wakes the thread
/// - `EMPTY`, by the deadline, which makes the thread runnable
/// - `INTERRUPTED`, by an interrupt, which wakes the thread
///
/// An unpark that changes `INTERRUPTED` wakes no thread.
#[derive(Debug)]
pub(crate) struct Permit(AtomicU32);

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
/// The lowest value that says that a sleep is over.
const NOTIFIED: u32 = 2;
const INTERRUPTED: u32 = 3;

impl Permit {
    /// Creates a permit without a token.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(EMPTY))
    }

    /// Takes the token away before the core's next life.
    pub(crate) fn reset(&self) {
        // Relaxed: no other thread has a reference yet.
        self.0.store(EMPTY, Ordering::Relaxed);
    }

    /// Returns `true` if this word says that the thread is asleep. A look from outside.
    pub(crate) fn is_parked(&self) -> bool {
        self.0.load(Ordering::Acquire) == PARKED
    }

    /// Takes the token if there is one. Called by the thread itself.
    #[inline]
    #[must_use]
    fn try_consume(&self) -> bool {
        // Relaxed: only a look. Acquire on the swap: pairs with every `post` up to the one it reads.
        self.0.load(Ordering::Relaxed) == NOTIFIED && self.0.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Changes `EMPTY` to `PARKED`. Called by the thread itself. Returns `false` if a token is there, or the
    /// sleep is over.
    #[inline]
    #[must_use]
    fn publish(&self) -> bool {
        // Release: pairs with the acquire of `post`, so a waker sees what this thread did before it parked.
        // Relaxed on failure: the consuming swap comes after.
        self.0.compare_exchange(EMPTY, PARKED, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Stores `NOTIFIED`. Called by any thread. Returns `true` if the thread was asleep; the caller then
    /// wakes it.
    #[inline]
    #[must_use]
    fn post(&self) -> bool {
        // Release: pairs with `try_consume` and `finish`. Acquire: pairs with `publish`. Always a write (see
        // the proof).
        self.0.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// Changes `PARKED` to `EMPTY`, because the deadline has passed. If it returns `true`, the caller makes
    /// the thread runnable.
    #[must_use]
    fn expire(&self) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Relaxed on failure: an unpark has won.
        self.0.compare_exchange(PARKED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Changes `from` to `INTERRUPTED`, because the thread was interrupted. If it returns `true`, the caller
    /// wakes the thread.
    #[must_use]
    fn interrupt(&self, from: u32) -> bool {
        // Acquire: pairs with `publish`, as in `post`. Release: the next unpark comes after it, and so does
        // the thread. Relaxed on failure: another party has won, or the thread is committing.
        self.0.compare_exchange(from, INTERRUPTED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Stores `EMPTY`. Called by the thread after its sleep. Returns what was there.
    #[inline]
    fn finish(&self) -> u32 {
        // Acquire: pairs with `post` and `interrupt`. A swap, since a token may arrive at this moment.
        self.0.swap(EMPTY, Ordering::Acquire)
    }
}

/// One sleep on a thread's permit.
struct ParkSleep {
    me: ThreadRef,
    /// Set for a green thread, which is already published.
    published: bool,
}

impl Sleep for ParkSleep {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        &self.me.core().permit.0
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        // Relaxed: what the waker wrote is visible after `finish`, which acquires.
        let word = self.me.permit.0.load(Ordering::Relaxed);
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
        // The word of a kernel thread goes from `EMPTY` to `PARKED`, and never back while it sleeps.
        !self.published && self.me.permit.interrupt(EMPTY) || self.me.permit.interrupt(PARKED)
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
    endless::check(wait.deadline);
    let backend = me.backend();
    let kernel = backend.sleeps_in_kernel();
    // From the publication to the wake-up (I9).
    let _no_preempt = NoPreempt::hold();
    if kernel || me.permit.publish() {
        wait.block(&me, backend, &ParkSleep { me, published: !kernel }, reason);
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
        thread.backend().wake(thread, &raw const thread.core().permit.0);
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
    let nap = Nap(AtomicU32::from(NAPPING));
    let _no_preempt = NoPreempt::hold();
    wait.block(&me, me.backend(), &nap, WaitReason::Sleep);
    if nap.0.load(Ordering::Relaxed) == INTERRUPTED { Err(WaitError::Interrupted) } else { Ok(()) }
}

#[cfg(all(test, loom))]
mod loom_permit;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_from_outside_finds_parked_threads() {
        let permit = Permit::new();
        assert!(!permit.is_parked());
        assert!(permit.publish() && permit.is_parked());
        assert!(permit.post() && !permit.is_parked());
        assert!(permit.try_consume() && !permit.is_parked());
        assert!(permit.publish() && permit.interrupt(PARKED) && !permit.is_parked());
    }
}
