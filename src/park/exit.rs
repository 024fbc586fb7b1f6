//! The end of a thread, who waits for it, and who of it and its handle goes last.
//!
//! **Problem.** Every thread ends and most are joined, so this is a part of what a spawn costs. At most one thread waits for
//! an end (a join handle is used up by joining), with a deadline or without. Thread and handle go in either order, and
//! whoever goes second disposes of what they share: the result, and one counted reference to the core.
//!
//! **Rejected.** The wait queue, under the word's address: two bucket locks more, and a table that all threads share.
//! The joiner's own `park` token: a stray `unpark` of the user would be taken for the end. A word for each of the three (the
//! end, the result, the reference): three read-modify-writes where the end alone takes one.
//!
//! **Protocol.** `ThreadCore::exit` is the word:
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | null | the thread runs or will run, nobody waits | `wait_done`, which puts its [`Joiner`] there; `detach` to `DETACHED`; `finish` to `DONE` |
//! | a joiner | the same, and that one sleeps; it stays until it has been taken out | `finish` to `DONE`; a deadline or an interrupt to null |
//! | a watch, with `SEVERAL` | the same, but the one that sleeps may leave | `finish` to `DONE`; its thread to null |
//! | any of these with `LEFT` | the same, and the result is the handle's for good | as above; `LEFT` stays until the thread ends or is detached |
//! | `DETACHED` | the handle is gone; the result and the shared reference are the thread's | `finish` to `DONE` |
//! | `DONE` | all of it has run, its thread-local destructors included; what is shared is the handle's, if there is one | `begin`, of the core's next life |
//!
//! Whoever takes the joiner out of the word has won its sleep (I3): `finish` by its swap, a deadline or an interrupt by a
//! compare-and-swap. Until then the joiner's frame is there, because its thread sleeps until it is settled.
//!
//! The result is written before the thread-local destructors run, and it could be borrowed from a scope that
//! does not wait for those. A thread of a scope therefore calls `leave_result` before it lets the scope go
//! on. From then on the thread does not touch the result, whatever becomes of the handle. If the handle is
//! dropped then, it disposes of the result before it gives up its reference. The result may lie in the core,
//! and the thread may release the core at once.
//!
//! Who waits for the first of several events puts a [`Watch`] there instead, marked by a bit. Its thread may be woken by another event
//! at any time, and then takes the watch out again. If the end came in between, the watch is in the hands of the thread that ends,
//! which says when it is through with it; until then the other stays. Both have a few steps to go, and neither can be preempted
//! by signal there.
//!
//! Cost in read-modify-writes: an end 1; a join that sleeps 1 (a kernel thread: 2), and none of a thread that has ended; a
//! handle that is dropped 1 (2 if the thread has left its result), or none after the end.

use std::ptr;
use std::time::Instant;

use super::backend::Sleep;
use super::current::current;
use super::interrupt::{self, Interrupted};
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{FIRST_SETTLED, SleepWord};
use super::sleeper::Sleeper;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use crate::shim::{spin_hint, yield_cpu};

/// `ThreadCore::exit`. See the table above.
#[derive(Debug)]
pub(super) struct Exit(AtomicPtr<Joiner>);

/// The word of an ended thread: an address that no joiner has.
const DONE: *mut Joiner = ptr::without_provenance_mut(1);
/// The word of a thread without a handle: likewise.
const DETACHED: *mut Joiner = ptr::without_provenance_mut(2);
/// A bit that is free in null and in the address of every joiner.
const LEFT: usize = 4;
const _: () = assert!(align_of::<Joiner>() > LEFT && align_of::<Watch>() > LEFT);
/// A bit that is free in the address of every watch. `DONE` has it too, but nothing else.
const SEVERAL: usize = 1;

/// How a joiner's sleep was settled.
const ENDED: u32 = FIRST_SETTLED;
const EXPIRED: u32 = FIRST_SETTLED + 1;
const INTERRUPTED: u32 = FIRST_SETTLED + 2;

/// What a dropped handle finds. `R` is what it got from dropping the result, if the result was the handle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Detached<R> {
    /// The thread runs: the result and the shared reference are its own from here on.
    Runs,
    /// The thread runs, but had left its result to the handle. The shared reference is the thread's now.
    HasLeft(R),
    /// The thread has ended. Both were the handle's, and the reference still is.
    HasEnded(R),
}

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
        // Release: pairs with `is_done`, for those who look from outside (`whereabouts.rs`). Others get the core published.
        self.0.store(ptr::null_mut(), Ordering::Release);
    }

    /// In the child of a fork, whose only thread this is: whoever joined it is not here.
    pub(super) fn survive_fork(&self) {
        // Relaxed: there is no other thread.
        let word = self.0.load(Ordering::Relaxed);
        if word != DETACHED {
            self.0.store(ptr::without_provenance_mut(word.addr() & LEFT), Ordering::Relaxed);
        }
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
        let me = ptr::from_ref(self).addr();
        // Relaxed, all: nothing is passed on but the place.
        let mut seen = exit.0.load(Ordering::Relaxed);
        while seen.addr() & !LEFT == me {
            let without_me = ptr::without_provenance_mut(seen.addr() & LEFT);
            match exit.0.compare_exchange(seen, without_me, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                // `LEFT` has come, or the end.
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// A thread that waits for the end of another, among other things. Lives on its own stack.
#[derive(Debug)]
pub(crate) struct Watch {
    exit: *const Exit,
    sleeper: *const Sleeper,
    /// What to say to the sleeper.
    code: u32,
    /// The ending thread will not touch it any more.
    through: AtomicBool,
}

impl Watch {
    /// Of the end of `thread`, for `sleeper`, which is told `code`.
    pub(crate) fn new(thread: ThreadRef, sleeper: &Sleeper, code: u32) -> Self {
        Self { exit: &raw const thread.core().exit, sleeper, code, through: AtomicBool::from(false) }
    }

    fn exit(&self) -> &Exit {
        // SAFETY: cores are type-stable, and this one's thread has not been released: who watches has its handle.
        unsafe { &*self.exit }
    }

    /// `false`: the thread has ended.
    ///
    /// # Safety
    /// The watch stays where it is until [`leave`](Self::leave) has returned, or until the sleeper has been settled by it. The
    /// caller has the thread's handle to itself.
    pub(crate) unsafe fn enter(&self) -> bool {
        let place = ptr::from_ref(self).cast::<Joiner>().cast_mut();
        let mut seen: *mut Joiner = ptr::null_mut();
        // Release: `tell` reads the watch. Acquire on failure: as in `is_done`.
        while let Err(now) = self.exit().0.compare_exchange(
            seen,
            place.map_addr(|watch| watch | SEVERAL | seen.addr()),
            Ordering::Release,
            Ordering::Acquire,
        ) {
            if now == DONE {
                return false;
            }
            debug_assert!(now.addr() == LEFT, "two threads wait for the end of one");
            seen = now;
        }
        true
    }

    /// Takes it back, unless it has settled the sleeper (which it has not, if another event has). It had been entered.
    pub(crate) fn leave(&self) {
        let me = ptr::from_ref(self).addr() | SEVERAL;
        // Relaxed: nothing is passed on but the place.
        let mut seen = self.exit().0.load(Ordering::Relaxed);
        while seen.addr() & !LEFT == me {
            let without_me = ptr::without_provenance_mut(seen.addr() & LEFT);
            match self.exit().0.compare_exchange(seen, without_me, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                // `LEFT` has come, or the end.
                Err(now) => seen = now,
            }
        }
        // Acquire: pairs with `tell`, which comes before all that is done with this memory next.
        while !self.through.load(Ordering::Acquire) {
            spin_hint();
            yield_cpu();
        }
    }

    /// # Safety
    /// The caller has taken the watch out of the exit word.
    #[cold]
    unsafe fn tell(watch: *const Self) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: it stays until it is said to be through, or its sleeper settled.
        let this = unsafe { &*watch };
        // SAFETY: as above.
        if unsafe { &*this.sleeper }.try_claim() {
            // SAFETY: won just now, and settled once.
            unsafe { Sleeper::settle(this.sleeper, this.code) }.wake();
        } else {
            // Release: pairs with `leave`.
            this.through.store(true, Ordering::Release);
        }
    }
}

impl ThreadCore {
    /// Whether the handle is gone. Of use to the thread alone: only then is it a lasting truth.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        // Relaxed: a look, and a handle that is gone has left nothing to be seen.
        self.exit.0.load(Ordering::Relaxed) == DETACHED
    }

    /// By the thread, which has written its result and will not touch it again: from here on that is the handle's. `false`:
    /// the handle is gone, and the result is the thread's to drop.
    #[cold]
    pub(crate) fn leave_result(&self) -> bool {
        let mut seen = ptr::null_mut();
        // Release: pairs with the acquire of `detach`, so that the handle that drops the result sees it. Acquire on
        // failure: not needed, and not dearer.
        while let Err(now) = self.exit.0.compare_exchange(
            seen,
            seen.map_addr(|joiner| joiner | LEFT),
            Ordering::Release,
            Ordering::Acquire,
        ) {
            if now == DETACHED {
                return false;
            }
            seen = now;
        }
        true
    }

    /// Called by the handle, which is being dropped and does not wait. If the result is the handle's, calls
    /// `discard`, which drops it.
    ///
    /// The result may lie in the core's own memory. If the thread finds `DETACHED` at its end, it releases
    /// that memory for another thread at once. So the result is dropped first, and the word changes after
    /// that.
    pub(crate) fn detach<R>(&self, discard: impl FnOnce() -> R) -> Detached<R> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        // Acquire: pairs with the release of `leave_result` and `finish`, so that the handle sees the result
        // that it drops. Release: pairs with the acquire of `finish`, so that the core is used again only
        // after all that was done with the handle.
        let seen = match self.exit.0.compare_exchange(ptr::null_mut(), DETACHED, success, failure) {
            Ok(_) => return Detached::Runs,
            Err(seen) => seen,
        };
        let discarded = discard();
        if seen == DONE {
            return Detached::HasEnded(discarded);
        }
        debug_assert!(seen.addr() == LEFT, "a handle is dropped while it waits");
        match self.exit.0.compare_exchange(seen, DETACHED, success, failure) {
            Ok(_) => Detached::HasLeft(discarded),
            // The thread has ended in between.
            Err(_) => Detached::HasEnded(discarded),
        }
    }

    /// Says that the thread has ended. Called once, by the thread itself or for it, after everything it will ever run; no
    /// queue lock held. `true`: the handle is gone, and what they shared is the thread's. Else the core may be used again
    /// at once, unless the caller has a counted reference of its own.
    #[inline]
    #[must_use]
    pub(crate) fn finish(&self) -> bool {
        // Release: pairs with the acquire of `is_done`, so that a joiner sees all that the thread did. Acquire: pairs with the
        // release of the joiner that put itself there, and of `detach`.
        let old = self.exit.0.swap(DONE, Ordering::AcqRel);
        if old == DETACHED {
            return true;
        }
        let joiner = old.map_addr(|joiner| joiner & !LEFT);
        if joiner.addr() & SEVERAL != 0 {
            // SAFETY: a watch that we have taken out of the word: it is there until we are through with it.
            unsafe { Watch::tell(joiner.map_addr(|watch| watch & !SEVERAL).cast()) };
            return false;
        }
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
        false
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
        let kernel = me.is_kernel();
        let joiner = Joiner { word: SleepWord::new(), thread: me, exit: &raw const self.exit, kernel };
        let place = ptr::from_ref(&joiner).cast_mut();
        me.core().whereabouts.at(self.place());
        // From its being published to its waking up (I9).
        let _no_preempt = NoPreempt::hold();
        let mut seen: *mut Joiner = ptr::null_mut();
        // Release: `finish` reads the joiner. Acquire on failure: as in `is_done`.
        while let Err(now) = self.exit.0.compare_exchange(
            seen,
            place.map_addr(|joiner| joiner | seen.addr()),
            Ordering::Release,
            Ordering::Acquire,
        ) {
            if now == DONE {
                return ENDED;
            }
            debug_assert!(now.addr() == LEFT, "two threads wait for the end of one");
            seen = now;
        }
        block(&me, &joiner);
        joiner.word.outcome()
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_exit.rs"]
mod loom_exit;
