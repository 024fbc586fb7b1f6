//! A sleep that its owner makes known wherever it likes: in lists of its own, in several of them.
//!
//! **Problem.** Who waits for the first of several events stands in several lists, each with a lock of its own. Whoever takes it
//! off one of them cannot see whether somebody else has just taken it off another, and one of the two would give it something
//! that it never takes.
//!
//! **Rejected.** The wait queue under an address (`wait_queue.rs`): a waiter is in one queue. One lock for all lists: everybody who
//! uses anything that could be waited for would meet there. Settling the word by compare-and-swap: the one who won may have to
//! write more before the sleeper wakes, and until then the word must still say whether a kernel thread has committed.
//!
//! **Protocol.** The sleeper has a word, as every sleep (`sleep_word.rs`), and beside it a claim. A sleep that is known in one list
//! is won by who takes it out, with the list's lock held (I3). One that is known in several is won by who takes the claim. The
//! deadline and the interrupt win it in the same way: by `withdraw`, which the owner supplies. The winner settles the word, once,
//! when all that the sleeper is to find has been written, and then wakes the thread.
//!
//! **Proof.** *One winner*: the claim is swapped from free to taken, once in a sleep. *The sleeper is there*: whoever has won it and not
//! settled it knows that it sleeps. Whoever has lost must have looked with a list's lock held, under which the sleeper, once
//! awake, takes itself out before it leaves.
//!
//! **Cost** in read-modify-writes: none for the sleeper, but for a kernel thread its commit; a claim 1; a settlement none, of a kernel
//! thread 1.

use std::time::Instant;

use super::backend::{Backend, Sleep};
use super::current::current;
use super::fork;
use super::interrupt;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{FIRST_SETTLED, SleepWord};
use super::thread::ThreadRef;
use super::wait_queue::Grant;
use crate::shim;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

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
/// | `false` | nobody has won the sleep | anybody who may end it: `true` |
/// | `true` | it has a winner, who settles it | nobody |
struct Claim(AtomicBool);

impl Claim {
    #[inline]
    fn try_take(&self) -> bool {
        // Relaxed: it says who settles, and nothing of what that one finds or leaves; the lists' locks and the word do. A look first,
        // since those who lose leave the line alone.
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed)
    }
}

/// How to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) reason: WaitReason,
    pub(crate) deadline: Option<Instant>,
    /// Whether an interrupt ends the sleep.
    pub(crate) interruptible: bool,
    /// Whether a kernel thread may look at its word for a while before it enters the kernel.
    pub(crate) spin: bool,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Slept {
    /// With what the winner said.
    Granted(u32),
    /// The deadline won.
    Expired,
    /// An interrupt won. The thread's flag is still set.
    Interrupted,
}

const GRANTED: u32 = FIRST_SETTLED;
const EXPIRED: u32 = FIRST_SETTLED + 1;
const INTERRUPTED: u32 = FIRST_SETTLED + 2;
const CODE_SHIFT: u32 = 8;
/// What a winner says is below this.
pub(crate) const CODES: u32 = 1 << (u32::BITS - CODE_SHIFT);

impl Sleeper {
    /// Of the running thread. `endless`: it may sleep without a deadline, which panics where nothing could end that (`fork.rs`).
    #[inline]
    pub(crate) fn new(endless: bool) -> Self {
        let thread = current();
        if endless {
            fork::check(None);
        }
        Self {
            word: SleepWord::new(),
            claim: Claim(AtomicBool::from(false)),
            thread,
            backend: thread.backend(),
            kernel: thread.is_kernel(),
        }
    }

    /// Whether the caller has won the sleep, which is known in several lists. With the lock held of one that it is in.
    #[inline]
    #[must_use]
    pub(crate) fn try_claim(&self) -> bool {
        self.claim.try_take()
    }

    /// Whether somebody has claimed it.
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: only a look.
        self.claim.0.load(Ordering::Relaxed)
    }

    /// Whether it is a kernel thread.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// How urgent the thread is.
    #[inline]
    pub(crate) fn priority(&self) -> u8 {
        self.thread.priority.number()
    }

    /// Whether the thread is one of a parent process, and will never wake in this one.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        shim::fork::is_child() && self.thread.is_lost()
    }

    /// Settles the sleep, with something to say to the sleeper.
    ///
    /// # Safety
    /// The caller has won it, and settles it once.
    #[inline]
    pub(crate) unsafe fn settle(this: *const Self, code: u32) -> Grant {
        debug_assert!(code < CODES);
        // SAFETY: a sleeper that is not settled is there: its thread sleeps.
        let this = unsafe { &*this };
        let mut grant = Grant {
            thread: this.thread,
            backend: this.backend,
            word: this.word.futex(),
            wake: true,
            _no_preempt: NoPreempt::hold(),
        };
        if this.kernel {
            grant.wake = this.word.settle_kernel(GRANTED | code << CODE_SHIFT);
            // From here on it may be gone.
        } else {
            this.word.settle(GRANTED | code << CODE_SHIFT);
        }
        grant
    }

    /// Sleeps until somebody has settled it. It may be known to others already, and won, and settled. `withdraw` wins it, if nobody
    /// has; no queue lock is held when it is called. `at` says where it waits, to those who look from outside.
    #[inline]
    pub(crate) fn sleep(&self, _: &NoPreempt, how: &How, at: usize, withdraw: impl Fn() -> bool) -> Slept {
        self.thread.core().whereabouts.at(at);
        let bed = Bed { sleeper: self, spin: how.spin, withdraw };
        if how.interruptible {
            interrupt::block(&self.thread, &bed, how.deadline, how.reason);
        } else {
            self.backend.block(&self.thread, &bed, how.deadline, how.reason);
        }
        let word = self.word.outcome();
        match word & ((1 << CODE_SHIFT) - 1) {
            EXPIRED => Slept::Expired,
            INTERRUPTED => Slept::Interrupted,
            _ => Slept::Granted(word >> CODE_SHIFT),
        }
    }
}

/// What the backend sees of it.
struct Bed<'a, W> {
    sleeper: &'a Sleeper,
    spin: bool,
    withdraw: W,
}

impl<W: Fn() -> bool> Sleep for Bed<'_, W> {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.sleeper.word.futex()
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        !self.sleeper.word.is_settled()
    }

    #[inline]
    fn may_spin(&self) -> bool {
        self.spin
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        self.sleeper.word.commit_kernel()
    }

    fn expire(&self) -> bool {
        let won = (self.withdraw)();
        if won {
            self.sleeper.word.settle(EXPIRED);
        }
        won
    }

    fn interrupt(&self) -> bool {
        let won = (self.withdraw)();
        if won && self.sleeper.kernel {
            // It is woken whether or not it sleeps.
            let _ = self.sleeper.word.settle_kernel(INTERRUPTED);
        } else if won {
            self.sleeper.word.settle(INTERRUPTED);
        }
        won
    }
}
