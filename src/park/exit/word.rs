//! The word of a thread's end: its states, and what each party changes in it.
//!
//! A waiter is an address here. `exit.rs` says what is there.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, Ordering};

/// `ThreadCore::exit`. See the table in `exit.rs`.
#[derive(Debug)]
pub(in crate::park) struct Exit(AtomicPtr<()>);

/// The word of an ended thread: an address that no joiner has.
const DONE: *mut () = ptr::without_provenance_mut(1);
/// The word of a thread without a handle: an address that no joiner has.
const DETACHED: *mut () = ptr::without_provenance_mut(2);
/// A bit that is free in null and in the address of every joiner.
pub(super) const LEFT: usize = 4;
/// A bit that is free in the address of every watch. `DONE` has it too, but nothing else.
pub(super) const SEVERAL: usize = 1;
/// A bit that is free in the address of every awaiter. `DETACHED` has it too, but nothing else.
pub(super) const AWAITED: usize = 2;

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

impl Exit {
    /// Creates the word of a core that no thread uses.
    pub(in crate::park) fn done() -> Self {
        Self(AtomicPtr::new(DONE))
    }

    /// Resets the word for the next life of the core, which the caller has to itself.
    #[inline]
    pub(in crate::park) fn begin(&self) {
        // Release: pairs with `is_done`, so that a look from outside (`wait_state.rs`) sees the home and
        // the id of this life. All others get the core published.
        self.0.store(ptr::null_mut(), Ordering::Release);
    }

    /// Removes a joiner, which stayed in the parent process. Called in the child of a fork, by its only
    /// thread. The word is that thread's own, so it is not `DONE`.
    pub(in crate::park) fn survive_fork(&self) {
        // Relaxed: there is no other thread.
        let word = self.0.load(Ordering::Relaxed);
        if word != DETACHED {
            self.0.store(ptr::without_provenance_mut(word.addr() & LEFT), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(in crate::park) fn is_done(&self) -> bool {
        // Acquire: pairs with the swap of `finish`, so that what the thread did is visible.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Returns `true` if the handle is gone.
    #[inline]
    pub(super) fn is_detached(&self) -> bool {
        // Relaxed: only a look. A handle that is gone has left nothing to be seen.
        self.0.load(Ordering::Relaxed) == DETACHED
    }

    /// Puts `waiter` into the word. Returns `false` if the thread has ended.
    #[inline]
    pub(super) fn enter(&self, waiter: *mut ()) -> bool {
        // Release: the code that takes the waiter out reads it. Acquire on failure: as in `is_done`.
        let enter =
            |seen, waiter| self.0.compare_exchange(seen, waiter, Ordering::Release, Ordering::Acquire);
        match enter(ptr::null_mut(), waiter) {
            Ok(_) => true,
            Err(now) => {
                debug_assert!(now == DONE || now.addr() == LEFT, "two threads wait for the end of one");
                // If the second attempt fails, the thread has ended: nothing else changes the word.
                now != DONE && enter(now, waiter.map_addr(|waiter| waiter | LEFT)).is_ok()
            }
        }
    }

    /// Takes `waiter` out of the word again. Returns `true` if it was still there.
    pub(super) fn take_out(&self, waiter: *mut ()) -> bool {
        // Relaxed, all: only the address is passed on.
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen.addr() & !LEFT == waiter.addr() {
            let without_it = ptr::without_provenance_mut(seen.addr() & LEFT);
            match self.0.compare_exchange(seen, without_it, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                // `LEFT` has come, or the end.
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Gives the result to the handle for good. Returns `false` if the handle is gone.
    pub(super) fn leave_result(&self) -> bool {
        let mut seen = ptr::null_mut();
        // Release: pairs with the acquire of `detach`, so that the handle that drops the result sees it.
        // Relaxed on failure: a handle that is gone has left nothing to be seen.
        while let Err(now) = self.0.compare_exchange(
            seen,
            seen.map_addr(|waiter| waiter | LEFT),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            if now == DETACHED {
                return false;
            }
            seen = now;
        }
        true
    }

    /// Gives up the handle. If the result is the handle's, calls `discard`, which drops it.
    ///
    /// The result may lie in the core's own memory. If the thread finds `DETACHED` at its end, it releases
    /// that memory for another thread at once. So the result is dropped first, and the word changes after
    /// that.
    pub(super) fn detach<R>(&self, discard: impl FnOnce() -> R) -> Detached<R> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        // Acquire: pairs with the release of `leave_result` and `finish`, so that the handle sees the result
        // that it drops. Release: pairs with the acquire of `finish`, so that the core is used again only
        // after all that was done with the handle.
        let seen = match self.0.compare_exchange(ptr::null_mut(), DETACHED, success, failure) {
            Ok(_) => return Detached::Runs,
            Err(seen) => seen,
        };
        let discarded = discard();
        if seen == DONE {
            return Detached::HasEnded(discarded);
        }
        debug_assert!(seen.addr() == LEFT, "a handle is dropped while it waits");
        match self.0.compare_exchange(seen, DETACHED, success, failure) {
            Ok(_) => Detached::HasLeft(discarded),
            // The thread has ended in between.
            Err(_) => Detached::HasEnded(discarded),
        }
    }

    /// Stores `DONE`. Returns the waiter that it has taken out, or null, or `None` if the handle is gone.
    #[inline]
    pub(super) fn finish(&self) -> Option<*mut ()> {
        // Release: pairs with the acquire of `is_done`, so that a joiner sees all that the thread did.
        // Acquire: pairs with the release of the waiter that put itself there, and of `detach`.
        let old = self.0.swap(DONE, Ordering::AcqRel);
        (old != DETACHED).then(|| old.map_addr(|waiter| waiter & !LEFT))
    }
}

#[cfg(all(test, loom))]
mod loom_awaiter;
#[cfg(all(test, loom))]
mod loom_exit;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::core_pool;
    use crate::park::current::current;
    use crate::park::exit::Joiner;
    use crate::park::sleep_word::Sleep;
    use crate::park::sleep_word::{OnWord, SleepWord};

    #[test]
    fn an_interrupt_leaves_a_joiner_alone_that_the_end_has_taken_out() {
        let thread = core_pool::take(1, None, None);
        for kernel in [true, false] {
            let (word, exit) = (SleepWord::new(), &raw const thread.core().exit);
            let joiner = Joiner { word, thread: current(), exit, kernel };
            assert!(!joiner.interrupt());
            assert!(joiner.is_asleep());
        }
        thread.release();
    }

    #[test]
    fn an_interrupted_joiner_leaves_what_the_thread_has_said() {
        let thread = core_pool::take(1, None, None);
        let exit = &thread.core().exit;
        for kernel in [true, false] {
            let joiner = Joiner { word: SleepWord::new(), thread: current(), exit, kernel };
            for left in [LEFT, 0] {
                exit.0.store(joiner.link().map_addr(|joiner| joiner | left), Ordering::Relaxed);
                assert!(joiner.withdraw());
                assert_eq!(exit.0.load(Ordering::Relaxed).addr(), left, "only the joiner is gone");
            }
        }
        exit.0.store(ptr::null_mut(), Ordering::Relaxed);
        thread.release();
    }

    /// A joiner stays in the parent. The child's word still says if the handle is gone, and which side owns
    /// the result.
    #[test]
    fn what_is_left_of_an_exit_word_in_a_child() {
        let joiner = |bits| ptr::without_provenance_mut(4096 | bits);
        let left = ptr::without_provenance_mut(LEFT);
        let words = [
            (ptr::null_mut(), ptr::null_mut()),
            (left, left),
            (joiner(0), ptr::null_mut()),
            (joiner(LEFT), left),
            (joiner(SEVERAL), ptr::null_mut()),
            (DETACHED, DETACHED),
        ];
        for (before, after) in words {
            let exit = Exit(AtomicPtr::new(before));
            exit.survive_fork();
            assert_eq!(exit.0.load(Ordering::Relaxed), after, "{before:?}");
        }
    }
}
