//! How far a runtime's life has come, and what keeps it from ending.
//!
//! A runtime ends once it was dropped, all its threads have ended, and no thread outside is in it. Threads
//! are counted where they are spawned and where they end, by counters that only grow. Each LWP has two, and
//! [`Life`] has two for all other places. A *visitor* is a thread outside the runtime that makes one of its
//! threads runnable at this moment. It may still touch the runtime after that thread has run and ended.

pub(super) mod end;

use std::io;

use crate::park::fork;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sys::fork::Generation;

/// The phases, in order. A runtime's phase only grows.
///
/// Threads may be spawned from anywhere.
const OPEN: u32 = 0;
/// The runtime was dropped. Its threads go on, and it stops when the last has ended.
const CLOSING: u32 = 1;
/// As `CLOSING`, and its threads are to end. They spawn no more, and waits that can be interrupted are.
const INTERRUPTING: u32 = 2;
/// No thread is left, and the LWPs and the monitor end.
const STOPPING: u32 = 3;

/// The phase of a runtime, and the counts that decide when it may end.
#[derive(Debug)]
pub(crate) struct Life {
    phase: AtomicU32,
    /// The process that has the LWPs.
    process: Generation,
    /// Threads spawned from outside the LWPs of this runtime, and bound threads.
    spawned_elsewhere: AtomicU64,
    /// Bound threads that have ended.
    ended_elsewhere: AtomicU64,
    /// Bound threads that live.
    bound: AtomicU32,
    visitors: AtomicU32,
}

impl Life {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            phase: AtomicU32::new(OPEN),
            process: fork::watch()?,
            spawned_elsewhere: AtomicU64::new(0),
            ended_elsewhere: AtomicU64::new(0),
            bound: AtomicU32::new(0),
            visitors: AtomicU32::new(0),
        })
    }

    /// Returns `true` if this process has the LWPs. It has not in a child of a fork.
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_mine()
    }

    /// Returns `true` if the runtime was not dropped, at this moment.
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: a fence orders it where that matters (`may_sleep_deeply`).
        self.phase.load(Ordering::Relaxed) == OPEN
    }

    /// Notes that the runtime was dropped. If a start has failed, it has stopped already.
    pub(crate) fn close(&self) {
        // Release: pairs with the acquire of `may_stop`.
        self.phase.fetch_max(CLOSING, Ordering::Release);
    }

    /// Notes that the threads are to end.
    pub(crate) fn interrupt(&self) {
        // Release: what the caller did comes before what the threads do about it. Sleeping threads get it
        // with the lock of the place where they wait.
        self.phase.fetch_max(INTERRUPTING, Ordering::Release);
    }

    /// Returns `true` if the threads are to end.
    pub(crate) fn is_interrupting(&self) -> bool {
        // Acquire: pairs with `interrupt`.
        self.phase.load(Ordering::Acquire) >= INTERRUPTING
    }

    /// Returns `true` if waits that can be interrupted are to end, at this moment.
    pub(crate) fn interrupts_waits(&self) -> bool {
        // Relaxed: a thread that misses it is interrupted in its sleep.
        self.phase.load(Ordering::Relaxed) >= INTERRUPTING
    }

    /// Returns `true` if the runtime was dropped, and its LWPs have not been told to end.
    fn is_closed(&self) -> bool {
        // Acquire: pairs with `close` and `interrupt`.
        matches!(self.phase.load(Ordering::Acquire), CLOSING | INTERRUPTING)
    }

    /// Notes that no thread is left.
    pub(super) fn stop(&self) {
        // Release: pairs with the acquire of `is_stopping`.
        self.phase.store(STOPPING, Ordering::Release);
    }

    /// Returns `true` if the LWPs are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire: pairs with `stop`.
        self.phase.load(Ordering::Acquire) == STOPPING
    }

    /// Counts a thread that is spawned from outside the LWPs.
    pub(crate) fn count_spawn(&self) {
        self.spawned_elsewhere.fetch_add(1, Ordering::Release);
    }

    /// Counts a bound thread.
    pub(crate) fn count_bound(&self) {
        self.count_spawn();
        // Relaxed: for looks from outside.
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a bound thread off.
    pub(crate) fn end_bound(&self) {
        self.bound.fetch_sub(1, Ordering::Relaxed);
        // Release: what the thread did comes before the runtime's end.
        self.ended_elsewhere.fetch_add(1, Ordering::Release);
    }

    /// Returns how many threads were counted here as spawned.
    fn spawned_elsewhere(&self) -> u64 {
        // Acquire: pairs with `count_spawn`.
        self.spawned_elsewhere.load(Ordering::Acquire)
    }

    /// Returns how many threads were counted here as ended.
    fn ended_elsewhere(&self) -> u64 {
        // Acquire: pairs with `end_bound`.
        self.ended_elsewhere.load(Ordering::Acquire)
    }

    /// Returns how many bound threads live, at this moment.
    pub(crate) fn bound(&self) -> u32 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Counts a visitor. The caller owns a thread of the runtime until it has done so.
    pub(crate) fn enter(&self) {
        // SeqCst: `may_stop` reads it after the counts of threads.
        self.visitors.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a visitor that entered under the lock of visits (`mxn/life/end.rs`).
    pub(crate) fn enter_locked(&self) {
        // Relaxed: ordered by the lock.
        self.visitors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a visitor off.
    pub(crate) fn leave(&self) {
        // Release: if `may_stop` reads zero, it sees all that the visitor did.
        self.visitors.fetch_sub(1, Ordering::Release);
    }

    /// Returns `true` if there is no visitor, after a look at the counts of threads.
    fn is_left(&self) -> bool {
        // SeqCst: pairs with `enter`, which comes while the visitor owns a thread.
        self.visitors.load(Ordering::SeqCst) == 0
    }

    /// Returns `true` if there is a visitor, at this moment.
    pub(crate) fn has_visitors(&self) -> bool {
        // Relaxed: a look.
        self.visitors.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, loom))]
mod loom_end;
