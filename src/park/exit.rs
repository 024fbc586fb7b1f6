//! The end of a thread, and who waits for it.
//!
//! **Problem.** Every thread ends and most are joined, so this is a part of what a spawn costs. At most one thread waits for
//! an end (a join handle is used up by joining), with a deadline or without.
//!
//! **Rejected.** The wait queue, under the word's address: two bucket locks more, and a table that all threads share.
//! The joiner's own `park` token: a stray `unpark` of the user would be taken for the end.
//!
//! **Protocol.** `ThreadCore::exit` is the word:
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | null | the thread runs or will run, nobody waits | `wait_done`, which puts its [`Joiner`] there; `finish` to `DONE` |
//! | a joiner | the same, and that one sleeps; it stays until it has been taken out | `finish` to `DONE`; a deadline or an interrupt to null |
//! | `DONE` | all of it has run, its thread-local destructors included | `begin`, of the core's next life |
//!
//! Whoever takes the joiner out of the word has won its sleep (I3): `finish` by its swap, a deadline or an interrupt by a
//! compare-and-swap. Until then the joiner's frame is there, because its thread sleeps until it is settled.
//!
//! Cost in read-modify-writes: an end 1; a join that sleeps 1 (a kernel thread: 2), and none of a thread that has ended.

use std::ptr;
use std::time::Instant;

use super::backend::Sleep;
use super::current::current;
use super::interrupt::{self, Interrupted};
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{FIRST_SETTLED, SleepWord};
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};

/// `ThreadCore::exit`. See the table above.
#[derive(Debug)]
pub(super) struct Exit(AtomicPtr<Joiner>);

/// The word of an ended thread: an address that no joiner has.
const DONE: *mut Joiner = ptr::without_provenance_mut(1);

/// How a joiner's sleep was settled.
const ENDED: u32 = FIRST_SETTLED;
const EXPIRED: u32 = FIRST_SETTLED + 1;
const INTERRUPTED: u32 = FIRST_SETTLED + 2;

/// A thread that waits for the end of another. Lives on its own stack.
#[derive(Debug)]
pub(super) struct Joiner {
    word: SleepWord,
    thread: ThreadRef,
    exit: *const Exit,
    /// It spins, and enters the kernel by itself (`Backend::sleeps_in_kernel`).
    kernel: bool,
}

impl Exit {
    /// Of a core that no thread uses.
    pub(super) fn done() -> Self {
        Self(AtomicPtr::new(DONE))
    }

    /// For the next life of the core, which the caller has to itself.
    #[inline]
    pub(super) fn begin(&self) {
        // Relaxed: published with the core.
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        // Acquire: pairs with the swap of `finish`, so that what the thread did is visible.
        self.0.load(Ordering::Acquire) == DONE
    }
}

impl Sleep for Joiner {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.word.futex()
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        !self.word.is_settled()
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        self.word.commit_kernel()
    }

    fn expire(&self) -> bool {
        let won = self.take_out();
        if won {
            self.word.settle(EXPIRED);
        }
        won
    }

    fn interrupt(&self) -> bool {
        let won = self.take_out();
        if won && self.kernel {
            // It is woken whether or not it sleeps.
            let _ = self.word.settle_kernel(INTERRUPTED);
        } else if won {
            self.word.settle(INTERRUPTED);
        }
        won
    }
}

impl Joiner {
    /// Takes the joiner out of the word again; whether it was still there.
    fn take_out(&self) -> bool {
        // SAFETY: cores are type-stable, and this one's thread has not been released: the joiner has its handle.
        let exit = unsafe { &*self.exit };
        let me = ptr::from_ref(self).cast_mut();
        // Relaxed: nothing is passed on but the place.
        exit.0.compare_exchange(me, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl ThreadCore {
    /// Says that the thread has ended. Called once, by the thread itself or for it, after everything it will ever run; no
    /// queue lock held.
    #[inline]
    pub(crate) fn finish(&self) {
        // Release: pairs with the acquire of `is_done`, so that a joiner sees all that the thread did. Acquire: pairs with the
        // release of the joiner that put itself there.
        let joiner = self.exit.0.swap(DONE, Ordering::AcqRel);
        // SAFETY: null, or a joiner that we have taken out of the word: it sleeps until we settle it.
        if let Some(joiner) = unsafe { joiner.as_ref() } {
            let (thread, backend) = (joiner.thread, joiner.thread.backend());
            let word = ptr::from_ref(joiner.word.futex());
            let wake = if joiner.kernel {
                joiner.word.settle_kernel(ENDED)
            } else {
                joiner.word.settle(ENDED);
                true
            };
            // A kernel thread, and its core's life, may be gone from here on; a green thread sleeps until it is woken.
            if wake {
                backend.wake(thread, word);
            }
        }
    }

    /// Waits until the thread has ended; `false`: the deadline came first. One caller at a time.
    pub(crate) fn wait_done(&self, deadline: Option<Instant>) -> bool {
        self.is_done()
            || self.wait_end(|me, joiner| me.backend().block(me, joiner, deadline, WaitReason::Join)) == ENDED
    }

    /// [`wait_done`](Self::wait_done), which an interrupt ends too.
    pub(crate) fn wait_done_interruptible(&self, deadline: Option<Instant>) -> Result<bool, Interrupted> {
        interrupt::check()?;
        if self.is_done() {
            return Ok(true);
        }
        match self.wait_end(|me, joiner| interrupt::block(me, joiner, deadline, WaitReason::Join)) {
            INTERRUPTED => Err(interrupt::reported()),
            outcome => Ok(outcome == ENDED),
        }
    }

    /// Sleeps by `block` until the thread has ended, or the sleep is over for another reason; gives which.
    #[inline]
    fn wait_end(&self, block: impl FnOnce(&ThreadRef, &Joiner)) -> u32 {
        let me = current();
        let kernel = me.backend().sleeps_in_kernel();
        let joiner = Joiner { word: SleepWord::new(), thread: me, exit: &raw const self.exit, kernel };
        let place = ptr::from_ref(&joiner).cast_mut();
        // From its being published to its waking up (I9).
        let _no_preempt = NoPreempt::hold();
        // Release: `finish` reads the joiner. Acquire on failure: as in `is_done`.
        match self.exit.0.compare_exchange(ptr::null_mut(), place, Ordering::Release, Ordering::Acquire) {
            Ok(_) => {
                block(&me, &joiner);
                joiner.word.outcome()
            }
            Err(other) => {
                debug_assert_eq!(other, DONE, "two threads wait for the end of one");
                ENDED
            }
        }
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_exit.rs"]
mod loom_exit;
