//! How something is done once.
//!
//! **Problem.** Nearly every look finds that all is done, and should cost what a load costs. Before that,
//! one thread works and all others wait. The thread that works may fail, and it may need what it is
//! making.
//!
//! **Rejected.**
//!
//! - A mutex beside a flag: a mutex that is never used again.
//! - Waiters chained through the word (std, before it used futexes): the wait queue has the chain, with
//!   deadlines and interrupts.
//! - Four bytes without an owner (std, parking_lot): a closure that needs its own result waits for itself
//!   forever.
//! - Waiting awake while the closure runs: it may take any time.
//!
//! **Protocol.** One word holds the state, and a bit, `WAITERS`. While the closure runs, it also holds
//! the address of the core of the thread that runs it.
//!
//! - *Run*: by compare-and-swap to running, if no closure has begun, or one has failed and that does not
//!   matter. When the closure has returned or unwound, a swap to done or failed. If the swap finds
//!   `WAITERS`, all waiters are taken off the queue.
//! - *Wait*: with the bucket lock held, look again. If there is still something to wait for, set
//!   `WAITERS` and queue. A thread that is granted looks again. If it waits for the end of a closure, any
//!   end will do; if it waits for success, only that.
//!
//! **Proof.** *No lost wake-up.* `WAITERS` is set with the bucket lock held in a word that is not final.
//! The swap that replaces the word sees the bit, and its thread takes the lock after the waiter has been
//! linked. That swap clears the bit, and threads that wait for another end set it again. A waiter that
//! gives up leaves the bit: the queue is then looked at in vain, once.
//!
//! *The thread that runs it is known.* Before its closure has returned, a thread cannot end, and its core
//! cannot become another's. (A forked child has another core, and no thread to wait for: `park/fork.rs`.)
//!
//! **Cost** in read-modify-writes: a look 0, the first call 2.

use super::word::{Seen, Word};
use super::{poisoned, recursive};
use crate::observe::lock_owners::{self, Hold};
use crate::park::current::current;
use crate::park::observed;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Token, Woken};

pub(super) use super::word::Phase;

const ENDED: Token = Token(0);

/// The algorithm of a `Once`.
pub(super) struct Protocol {
    word: Word,
}

impl Protocol {
    pub(super) const fn new(phase: Phase) -> Self {
        Self { word: Word::new(phase) }
    }

    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.word.is_done()
    }

    pub(super) fn phase(&self) -> Phase {
        self.word.look().phase()
    }

    /// Runs `f`, at most once, if it is this thread's turn. Otherwise waits for the thread that runs a
    /// closure. Fails if the wait ends before that closure; an interrupt is then still to be reported. `f`
    /// is told if a closure has failed before, and returns how it has ended itself. `what` is the name for
    /// panics.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn call(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        f: impl FnOnce(bool) -> Phase,
    ) -> Result<(), WaitError> {
        let seen = self.word.look();
        let admission = if seen.is_fresh()
            && let Some(mine) = self.begin(seen, current())
        {
            mine
        } else {
            self.wait_to_run(what, force, wait)
        };
        match admission {
            Admission::Mine { poisoned, recorded } => {
                // Failed, if anything unwinds.
                let mut end = End { protocol: self, recorded, phase: Phase::Failed };
                end.phase = f(poisoned);
                Ok(())
            }
            Admission::Ended(outcome) => outcome,
        }
    }

    /// Waits until it is the running thread's turn to run its closure, or there is no need.
    #[track_caller]
    fn wait_to_run(&self, what: &str, force: bool, wait: Wait) -> Admission {
        let me = current();
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Admission::Ended(Ok(())),
                Phase::Failed if !force => poisoned(what),
                Phase::Fresh | Phase::Failed => {
                    if let Some(mine) = self.begin(seen, me) {
                        return mine;
                    }
                }
                Phase::Runs if seen.is_run_by(me.address()) => recursive(what),
                Phase::Runs => {
                    if let Err(why) = self.queue(wait, |phase| phase == Phase::Runs) {
                        return Admission::Ended(Err(why));
                    }
                }
            }
        }
    }

    /// Begins the turn of the running thread `me`, if the word is still as `seen`, which is of no running
    /// closure.
    #[inline]
    fn begin(&self, seen: Seen, me: ThreadRef) -> Option<Admission> {
        // Loaded before the read-modify-write. A load after it would wait for it, and the next
        // read-modify-write for the load.
        let recorded = observed::are_owners_recorded();
        if !self.word.try_run(seen, me.address()) {
            return None;
        }
        if recorded {
            lock_owners::took(self.key(), Hold::Alone, || true);
        }
        Some(Admission::Mine { poisoned: seen.phase() == Phase::Failed, recorded })
    }

    /// Sleeps until a closure ends, if `waits` returns `true` for the phase.
    #[inline(never)]
    fn queue(&self, wait: Wait, waits: impl Fn(Phase) -> bool) -> Result<(), WaitError> {
        let options = Options::new(WaitReason::Once, wait);
        let is_over = || !waits(self.word.look().phase());
        let announce = || self.word.announce(&waits);
        match wait_queue::wait_unless(self.key(), &options, is_over, announce, || ()) {
            Ok(Woken::Ended { why, .. }) => Err(why),
            _ => Ok(()),
        }
    }

    /// Waits until this is done. Fails if the wait ends before; an interrupt is then still to be reported.
    /// Panics if it is poisoned, unless that does not matter.
    #[cold]
    #[track_caller]
    pub(super) fn wait(&self, what: &str, force: bool, wait: Wait) -> Result<(), WaitError> {
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Ok(()),
                Phase::Failed if !force => poisoned(what),
                Phase::Runs if seen.is_run_by(current().address()) => recursive(what),
                _ => {}
            }
            self.queue(wait, |phase| phase != Phase::Done && (force || phase != Phase::Failed))?;
        }
    }
}

/// The outcome of the wait to run the closure.
enum Admission {
    /// The word says that the running thread runs its closure: it must make an [`End`].
    Mine { poisoned: bool, recorded: bool },
    /// Nothing is to be run, or not by this thread.
    Ended(Result<(), WaitError>),
}

/// The end of a closure, whether it returns or unwinds.
struct End<'a> {
    protocol: &'a Protocol,
    /// `true` if the record has an entry that the running thread runs it.
    recorded: bool,
    phase: Phase,
}

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        let key = self.protocol.key();
        if self.recorded {
            lock_owners::leaves(key, Hold::Alone);
        }
        if self.protocol.word.end(self.phase) {
            wake_all(key);
        }
    }
}

/// Wakes all threads that have waited for the closure. It gets the key only: a thread that sees the end
/// may drop the rest.
#[cold]
fn wake_all(key: usize) {
    if let Some(all) = wait_queue::grant_all(key, ENDED, || true) {
        all.wake_all();
    }
}

#[cfg(all(test, loom))]
mod loom_once;
