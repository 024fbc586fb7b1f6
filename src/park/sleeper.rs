//! A sleep that its owner publishes wherever it likes: in lists of its own, even in several of them.
//!
//! **Problem.** A thread that waits for the first of several events is in several lists, each with its own
//! lock. A thread that takes it off one list cannot see that another thread has just taken it off another
//! list. One of the two would give it something that it never takes.
//!
//! **Rejected.**
//!
//! - The wait queue under an address (`wait_queue.rs`): a waiter is in one queue only.
//! - One lock for all lists: all threads that use anything that could be waited for would meet there.
//! - To settle the word by compare-and-swap. The winner may have more to write before the sleeper wakes.
//!   Until then, the word must still say if a kernel thread has committed.
//!
//! **Protocol.** The sleeper has a word, as every sleep has (`sleep_word.rs`), and beside it a claim.
//!
//! - If the sleep is in one list, the thread that takes it out wins it, with the list's lock held (I3).
//! - If it is in several lists, the thread that takes the claim wins it.
//! - The deadline and the interrupt win it in the same way, by `withdraw`, which the owner supplies.
//!
//! The winner settles the word once, after it has written all that the sleeper is to find. Then it wakes the
//! thread.
//!
//! **Proof.** *One winner*: the claim is swapped from free to taken once in a sleep. *The sleeper is there*:
//! a winner that has not settled the sleep knows that its thread sleeps. A loser must have looked with a
//! list's lock held. The sleeper, once awake, takes itself out under that lock before it leaves.
//!
//! **Cost** in read-modify-writes: none for a sleeper that is green, and the commit for a kernel thread. A
//! claim takes one. A settlement takes none for a green thread, and one for a kernel thread.

use super::backend::Backend;
use super::current::current;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{CODE_SHIFT, EXPIRED, GRANTED, INTERRUPTED, OnWord, SleepWord};
use super::thread::ThreadRef;
use super::wait::{Wait, WaitError};
use super::waiter::{Grant, Settled};
use crate::shim;
use crate::shim::atomic::{AtomicBool, Ordering};

/// One sleep of the running thread, in its frame.
pub(crate) struct Sleeper {
    word: SleepWord,
    claim: Claim,
    thread: ThreadRef,
    backend: &'static dyn Backend,
    kernel: bool,
}

/// | value | meaning | next by |
/// |---|---|---|
/// | `false` | the sleep has no winner yet | any party that may end it: `true` |
/// | `true` | it has a winner, which settles it | none |
struct Claim(AtomicBool);

impl Claim {
    #[inline]
    fn try_take(&self) -> bool {
        // Relaxed: it decides which party settles. What that party finds and leaves is ordered by the lists'
        // locks and the word. The load comes first so that a loser leaves the cache line alone.
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed)
    }
}

/// How to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) reason: WaitReason,
    pub(crate) wait: Wait,
    /// Set if a kernel thread may watch its word for a while before it enters the kernel.
    pub(crate) spin: bool,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Slept {
    /// The winner settled it, with this code.
    Granted(u32),
    /// The deadline or an interrupt won. If an interrupt did, the thread's flag is still set.
    Ended(WaitError),
}

/// The codes of winners are below this.
pub(crate) const CODES: u32 = 1 << (u32::BITS - CODE_SHIFT);

impl Sleeper {
    /// Creates a sleep of the running thread. The caller sees to it that something can end it
    /// (`Wait::check_end`).
    #[inline]
    pub(crate) fn new() -> Self {
        let thread = current();
        Self {
            word: SleepWord::new(),
            claim: Claim(AtomicBool::from(false)),
            thread,
            backend: thread.backend(),
            kernel: thread.is_kernel(),
        }
    }

    /// Creates the sleep of an async task that the running thread polls. `backend` wakes it.
    pub(super) fn of_task(backend: &'static dyn Backend) -> Self {
        Self {
            word: SleepWord::new(),
            claim: Claim(AtomicBool::from(false)),
            thread: current(),
            backend,
            kernel: false,
        }
    }

    /// Where its word lies.
    pub(super) const WORD: usize = std::mem::offset_of!(Self, word);

    /// Returns the winner's code, if the winner has settled the sleep, which is a task's.
    pub(crate) fn settled(&self) -> Option<u32> {
        self.word.is_settled().then(|| self.word.outcome() >> CODE_SHIFT)
    }

    /// Tries to win the sleep, which is in several lists. Returns `true` if the caller has won it. Called
    /// with the lock of one of these lists held.
    #[inline]
    #[must_use]
    pub(crate) fn try_claim(&self) -> bool {
        self.claim.try_take()
    }

    /// Returns `true` if the sleep has been claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: only a look.
        self.claim.0.load(Ordering::Relaxed)
    }

    /// Returns `true` if it is a kernel thread.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// Returns the priority of the thread.
    #[inline]
    pub(crate) fn priority(&self) -> u8 {
        self.thread.priority.number()
    }

    /// Returns `true` if the thread belongs to a parent process, so that it will never wake in this one.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        shim::fork::is_child() && self.thread.is_lost()
    }

    /// Settles the sleep, with a code for the sleeper.
    ///
    /// # Safety
    /// The caller has won it, and settles it once.
    #[inline]
    pub(crate) unsafe fn settle(this: *const Self, code: u32) -> Grant {
        debug_assert!(code < CODES);
        // SAFETY: the sleep is not settled, so its thread sleeps and the sleeper is there.
        let this = unsafe { &*this };
        let settled =
            Settled { thread: this.thread, backend: this.backend, word: this.word.futex(), wake: true };
        let mut grant = Grant { settled, _no_preempt: NoPreempt::hold() };
        grant.settled.wake = this.word.settle_for(this.kernel, GRANTED | code << CODE_SHIFT);
        // From here on a kernel thread's sleeper may be gone.
        grant
    }

    /// Sleeps until the sleep is settled. Other threads may already know the sleep, and may have won and
    /// settled it. `withdraw` wins it if it has no winner yet. It is called with no queue lock held. `at`
    /// says to looks from outside where the thread waits.
    #[inline]
    pub(crate) fn sleep(&self, _: &NoPreempt, how: &How, at: usize, withdraw: impl Fn() -> bool) -> Slept {
        self.thread.core().wait_state.at(at);
        let sleep = WordSleep { sleeper: self, spin: how.spin, withdraw };
        how.wait.block(&self.thread, self.backend, &sleep, how.reason);
        let word = self.word.outcome();
        match word & ((1 << CODE_SHIFT) - 1) {
            EXPIRED => Slept::Ended(WaitError::TimedOut),
            INTERRUPTED => Slept::Ended(WaitError::Interrupted),
            _ => Slept::Granted(word >> CODE_SHIFT),
        }
    }
}

/// The sleep as the backend sees it.
struct WordSleep<'a, W> {
    sleeper: &'a Sleeper,
    spin: bool,
    withdraw: W,
}

impl<W: Fn() -> bool> OnWord for WordSleep<'_, W> {
    fn word(&self) -> &SleepWord {
        &self.sleeper.word
    }

    fn is_kernel(&self) -> bool {
        self.sleeper.kernel
    }

    fn may_spin(&self) -> bool {
        self.spin
    }

    fn withdraw(&self) -> bool {
        (self.withdraw)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::priority::Priority;

    #[test]
    fn what_others_see_of_a_sleeper() {
        let sleeper = Sleeper::new();
        assert!(sleeper.is_kernel() && !sleeper.is_lost() && !sleeper.is_claimed());
        assert!(sleeper.try_claim() && sleeper.is_claimed() && !sleeper.try_claim());
        for priority in [Priority::High, Priority::Low, Priority::Normal] {
            sleeper.thread.priority.begin(priority);
            assert_eq!(sleeper.priority(), priority as u8);
        }
    }

    #[cfg(unix)]
    #[test]
    fn those_of_a_parent_are_lost() {
        use crate::park::core_pool;
        use crate::sys::child_tests as child;
        child::isolated(concat!(module_path!(), "::those_of_a_parent_are_lost"), || {
            let mine = Sleeper::new();
            let theirs = Sleeper { thread: core_pool::take(1, None, None), ..Sleeper::new() };
            assert!(!mine.is_lost() && !theirs.is_lost());
            child::forked(|| assert!(!mine.is_lost() && theirs.is_lost()));
        });
    }
}
