//! Errands that any thread leaves to a helper, also in a handler of a signal.
//!
//! **Problem.** A signal for a green thread may have to end that thread's wait, which takes locks of this
//! crate. The thread that sends it may be in a handler of a signal, and may have interrupted the code that
//! holds these locks.
//!
//! **Rejected.** *The table of `left.rs`*: a handler that finds all places taken waits for the helper, which
//! a sender of signals to many threads would do often.
//!
//! **Protocol.** An errand is a part of what it is about, and says if it is in the list. A thread that finds
//! that it is not says so, and puts it there without a lock. Each thread rings. The helper looks at the bell,
//! takes the whole list, and says of each errand that it is not there before it looks at what that is about.
//! An errand that it has to run again, it leaves itself.
//!
//! **Proof** that no errand is lost. What says that it is in the list changes by read-modify-writes alone. So
//! one of the two comes first. If the thread does, the helper reads what it has written before. Otherwise
//! the thread puts the errand into the list again.
//!
//! **What the helper may not do itself**, because that takes memory, it leaves to other threads by a second
//! list. One such thing is to free what an errand is about. The helper gives up a share of that each time. So
//! errands count how often they were left. The thread that takes the list has as many shares.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::shim::futex;
use crate::time::Moment;

/// A part of what an errand is about.
#[derive(Debug)]
pub(crate) struct Errand {
    next: AtomicPtr<Errand>,
    /// How often it was left since it was taken from the list; 0: it is not there.
    times: AtomicUsize,
}

impl Errand {
    pub(crate) fn new() -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), times: AtomicUsize::new(0) }
    }

    /// Forgets that it was left, in the child of a fork.
    pub(crate) fn forget(&self) {
        // Relaxed: the only thread.
        self.times.store(0, Ordering::Relaxed);
    }
}

/// What was left, and the helper's bell.
pub(crate) struct Errands {
    first: AtomicPtr<Errand>,
    /// How often the bell was rung: the helper's futex.
    rung: AtomicU32,
}

impl Errands {
    pub(crate) const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), rung: AtomicU32::new(0) }
    }

    /// Leaves an errand to the helper. If it is not there already, calls `keep` first: from then on until the
    /// helper has it, it must exist. Async-signal-safe if that is.
    pub(crate) fn leave(&self, errand: &Errand, keep: impl FnOnce()) {
        self.leave_for_later(errand, keep);
        // In any case: the helper may have left it there itself. Release: pairs with the acquire of `serve`.
        self.rung.fetch_add(1, Ordering::Release);
        futex::wake(&self.rung, 1);
    }

    /// Does so without the bell: the helper itself is to run it once more, later.
    pub(crate) fn leave_for_later(&self, errand: &Errand, keep: impl FnOnce()) {
        // Both orders: see the proof.
        if errand.times.fetch_add(1, Ordering::AcqRel) == 0 {
            keep();
            self.put(errand);
        }
    }

    /// Leaves an errand to other threads, with a share of what it is about. Without the bell.
    pub(crate) fn give_up(&self, errand: &Errand) {
        self.leave_for_later(errand, || ());
    }

    /// Puts an errand into the list.
    fn put(&self, errand: &Errand) {
        let own = ptr::from_ref(errand).cast_mut();
        // Relaxed: the compare-and-swap compares the address alone. The helper takes the whole list.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the compare-and-swap.
            errand.next.store(first, Ordering::Relaxed);
            // Release: pairs with the acquire of `serve`.
            match self.first.compare_exchange_weak(first, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Gives all that was left to `run`, the last first, and how often it was left. Returns what
    /// [`sleep`](Self::sleep) needs.
    pub(crate) fn serve(&self, mut run: impl FnMut(*const Errand, usize)) -> u32 {
        // Acquire: the list is looked at afterwards.
        let rung = self.rung.load(Ordering::Acquire);
        // Acquire: pairs with the release of `put`.
        let mut at = self.first.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: null, or left, so it exists until it is given to `run`.
        while let Some(errand) = unsafe { at.as_ref() } {
            // Relaxed: ordered by the swap above.
            let next = errand.next.load(Ordering::Relaxed);
            // Both orders: see the proof.
            let times = errand.times.swap(0, Ordering::AcqRel);
            run(at, times);
            at = next;
        }
        rung
    }

    /// Sleeps until the bell has been rung since `rung`, or until the deadline, or for less.
    pub(crate) fn sleep(&self, rung: u32, deadline: Option<Moment>) {
        let _ = futex::wait(&self.rung, rung, deadline);
    }

    /// Forgets all errands, in the child of a fork. They are about threads of the parent.
    pub(crate) fn forget(&self) {
        // Relaxed: the only thread.
        self.first.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_that_is_left_twice_is_run_once() {
        let errands = Errands::new();
        let [one, two] = [Errand::new(), Errand::new()];
        let mut kept = 0;
        for errand in [&one, &two, &one] {
            errands.leave(errand, || kept += 1);
        }
        let mut run = Vec::new();
        let rung = errands.serve(|errand, times| run.push((errand, times)));
        assert_eq!((kept, run, rung), (2, vec![(ptr::from_ref(&two), 1), (ptr::from_ref(&one), 2)], 3));
        errands.leave(&two, || kept += 1);
        // It has been rung since.
        errands.sleep(rung, None);
        errands.serve(|errand, _| assert!(ptr::eq(errand, &two)));
        assert_eq!(kept, 3);
        // The bell is silent.
        for _ in 0..2 {
            errands.leave_for_later(&two, || kept += 1);
        }
        let mut run = 0;
        assert_eq!((errands.serve(|_, times| run += times), run, kept), (4, 2, 4));
        errands.leave(&one, || ());
        errands.forget();
        errands.serve(|_, _| unreachable!("it was forgotten"));
        one.forget();
        errands.leave(&one, || ());
        assert_eq!((errands.serve(|_, times| run += times), run), (6, 3));
    }
}

#[cfg(all(test, loom))]
mod loom_errands;
