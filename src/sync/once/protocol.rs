//! How something is done once.
//!
//! **Problem.** Nearly every look finds that all is done, and should cost what a load costs. Before, one thread works and all
//! others wait; the one that works may fail, and it may need what it is just making.
//!
//! **Rejected.** A mutex beside a flag: a mutex that is never used again. Waiters chained through the word (std, before it used
//! futexes): the wait queue has the chain, with deadlines and interrupts. Four bytes without an owner (std, parking_lot): a
//! closure that needs its own result waits for itself for ever. Waiting awake while the closure runs: it may take any time.
//!
//! **Protocol.** One word: the state, whether anybody waits, and while the closure runs, the address of the core of the thread
//! that runs it.
//!
//! - *Run*: not begun, or failed and that does not matter -> running, by compare-and-swap. When the closure has returned or
//!   unwound, done or failed by a swap; if it finds `WAITERS`, all waiters are taken off the queue.
//! - *Wait*: with the bucket lock held, look again; if there is still something to wait for, set `WAITERS` and queue. Whoever
//!   is granted looks again: one who waits for the end of a closure is content with any end, one who waits for success
//!   only with that.
//!
//! **Proof.** No lost wake-up: `WAITERS` is set with the bucket lock held in a word that is not final, so whatever swaps that
//! word away sees the bit, and takes the lock after the waiter has been linked. That swap clears the bit, and those who wait
//! for another end set it again. A waiter that gives up leaves the bit: the queue is then looked at in vain, once. *Who runs is
//! known*: a thread cannot end, and its core not become another's, before its closure has returned (a forked child has another
//! core, and no thread to wait for: `park/fork.rs`).
//!
//! **Cost** in read-modify-writes: a look 0, the first call 2.

use std::time::Instant;

use super::word::{Seen, Word};
use super::{poisoned, recursive};
use crate::park::current::current;
use crate::park::interrupt::{self, Interrupted};
use crate::park::ledger::{self, Hold};
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::const_new;

pub(super) use super::word::Phase;

const ENDED: Token = Token(0);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Ended {
    Done,
    Expired,
    /// The flag is still set.
    Interrupted,
}

impl Ended {
    /// Of a wait that an interrupt ends.
    fn is_done(self) -> Result<bool, Interrupted> {
        match self {
            Self::Done => Ok(true),
            Self::Expired => Ok(false),
            Self::Interrupted => Err(interrupt::reported()),
        }
    }
}

/// What a `Once` is made of.
pub(super) struct Protocol {
    word: Word,
}

impl Protocol {
    const_new! {
        pub(super) const fn new(phase: Phase) -> Self {
            Self { word: Word::new(phase) }
        }
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

    /// Runs `f`, at most once, if it falls to this thread; else waits for who runs another. Whether one has ended; `false`: the deadline
    /// came first. `f` is told whether one has failed before, and says how it has ended itself. `what` this is, the panics say.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn call(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
        f: impl FnOnce(bool) -> Phase,
    ) -> bool {
        self.call_with(what, force, deadline, false, f) == Ended::Done
    }

    /// [`call`](Self::call) whose wait an interrupt ends. It does not end `f`.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn call_interruptible(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
        f: impl FnOnce(bool) -> Phase,
    ) -> Result<bool, Interrupted> {
        interrupt::check()?;
        self.call_with(what, force, deadline, true, f).is_done()
    }

    #[inline(always)]
    #[track_caller]
    fn call_with(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
        interruptible: bool,
        f: impl FnOnce(bool) -> Phase,
    ) -> Ended {
        let seen = self.word.look();
        let turn = if seen.is_fresh()
            && let Some(mine) = self.begin(seen, current())
        {
            mine
        } else {
            self.turn(what, force, deadline, interruptible)
        };
        match turn {
            Turn::Mine { poisoned, recorded } => {
                // Failed, if anything unwinds.
                let mut end = End { protocol: self, recorded, phase: Phase::Failed };
                end.phase = f(poisoned);
                Ended::Done
            }
            Turn::Ended(ended) => ended,
        }
    }

    /// Waits until the running thread is the one that runs its closure, or need not.
    #[track_caller]
    fn turn(&self, what: &str, force: bool, deadline: Option<Instant>, interruptible: bool) -> Turn {
        let me = current();
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Turn::Ended(Ended::Done),
                Phase::Failed if !force => poisoned(what),
                Phase::Fresh | Phase::Failed => {
                    if let Some(mine) = self.begin(seen, me) {
                        return mine;
                    }
                }
                Phase::Runs if seen.is_run_by(me.place()) => recursive(what),
                Phase::Runs => {
                    let kind = if interruptible { Options::interruptible } else { Options::new };
                    let options = kind(WaitReason::Once, deadline);
                    match self.queue(&options, |phase| phase == Phase::Runs) {
                        Some(Woken::Expired { .. }) => return Turn::Ended(Ended::Expired),
                        Some(Woken::Interrupted { .. }) => return Turn::Ended(Ended::Interrupted),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The turn of the running thread `me`, if the word is still as `seen`: nobody's.
    #[inline]
    fn begin(&self, seen: Seen, me: ThreadRef) -> Option<Turn> {
        // Before the read-modify-write: what is loaded after it waits for it, and the next one for that.
        let recorded = ledger::is_on();
        if !self.word.try_run(seen, me.place()) {
            return None;
        }
        if recorded {
            ledger::took(self.key(), Hold::Alone, || true);
        }
        Some(Turn::Mine { poisoned: seen.phase() == Phase::Failed, recorded })
    }

    /// Sleeps until a closure ends, if `waits` says so of the phase; `None`: it does not.
    #[inline(never)]
    fn queue(&self, options: &Options, waits: impl Fn(Phase) -> bool) -> Option<Woken> {
        wait_queue::wait(self.key(), options, || self.word.announce(waits), || ()).ok()
    }

    /// Waits until this is done; `false`: the deadline came first. Panics if it is poisoned, unless that does not matter.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, force: bool, deadline: Option<Instant>) -> bool {
        self.wait_with(what, force, &Options::new(WaitReason::Once, deadline)) == Ended::Done
    }

    /// [`wait`](Self::wait) that an interrupt ends.
    #[track_caller]
    pub(super) fn wait_interruptible(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
    ) -> Result<bool, Interrupted> {
        interrupt::check()?;
        self.wait_with(what, force, &Options::interruptible(WaitReason::Once, deadline)).is_done()
    }

    #[cold]
    #[track_caller]
    fn wait_with(&self, what: &str, force: bool, options: &Options) -> Ended {
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Ended::Done,
                Phase::Failed if !force => poisoned(what),
                Phase::Runs if seen.is_run_by(current().place()) => recursive(what),
                _ => {}
            }
            let waits = |phase| phase != Phase::Done && (force || phase != Phase::Failed);
            match self.queue(options, waits) {
                Some(Woken::Expired { .. }) => return Ended::Expired,
                Some(Woken::Interrupted { .. }) => return Ended::Interrupted,
                _ => {}
            }
        }
    }
}

/// What becomes of a call.
enum Turn {
    /// The word says that the running thread runs its closure: an [`End`] is due.
    Mine { poisoned: bool, recorded: bool },
    /// Nothing is to be run, or not by this thread.
    Ended(Ended),
}

/// The end of a closure, whether it returns or unwinds.
struct End<'a> {
    protocol: &'a Protocol,
    /// It is written down that the running thread runs it.
    recorded: bool,
    phase: Phase,
}

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        let key = self.protocol.key();
        if self.recorded {
            ledger::leaves(key, Hold::Alone);
        }
        if self.protocol.word.end(self.phase) {
            wake_all(key);
        }
    }
}

/// A closure has ended that others have waited for. (By the key only: whoever sees the end may drop the rest.)
#[cold]
fn wake_all(key: usize) {
    if let Some(all) = wait_queue::grant_all(key, ENDED, || true) {
        all.wake_all();
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_once.rs"]
mod loom_once;
