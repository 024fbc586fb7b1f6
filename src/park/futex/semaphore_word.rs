//! A semaphore that handlers of signals may post to: its value and the number of its waiters, in one word.
//!
//! **Problem.** `sem_post` may be called in a handler of a signal, so it takes no lock. The thread that takes
//! a post may destroy the semaphore at once, so a post does not touch the memory after others can see it.
//!
//! **Rejected.**
//!
//! - *Permits less claims* (`sync/semaphore`). A thread that gives permits serves the queue, with a lock.
//! - *A count of waiters in a word of its own* (`sync/process_shared/semaphore.rs`). A thread that gives
//!   permits reads it afterwards.
//!
//! **Protocol.** The lower half of the word is the value, and the futex. The upper half counts the threads
//! that wait, or are about to.
//!
//! 1. *Wait*: take one off the value, unless it is zero. Otherwise, count in. Sleep while the value is zero,
//!    and try again, until one is taken or the sleep fails. Count out.
//! 2. *Post*: add one to the value. The same step tells if a thread is counted in. If so, wake one sleeper,
//!    for which the address is enough.
//!
//! **Proof** that no wake-up is lost. All steps are read-modify-writes of one word, so they have an order. If
//! a waiter is counted in before a post, the post sees it. Otherwise the waiter sees the post. The futex
//! compares the value, so a waiter that has looked before the post does not fall asleep after it. A post
//! wakes one sleeper; if another thread takes that post, there is nothing left for the sleeper to take.

use std::ptr;

use crate::shim::atomic::{AtomicU64, Ordering};

/// See the header.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct SemaphoreWord(AtomicU64);

/// One waiter.
const WAITER: u64 = 1 << 32;

/// The value is as large as it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

fn value(word: u64) -> u32 {
    word as u32
}

impl SemaphoreWord {
    /// The largest value.
    pub(crate) const MAX: u32 = i32::MAX as u32;

    pub(crate) const fn new(value: u32) -> Self {
        Self(AtomicU64::new(value as u64))
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> u32 {
        // Relaxed: only a look.
        value(self.0.load(Ordering::Relaxed))
    }

    /// Returns the address of the futex.
    pub(crate) fn futex(&self) -> *const u32 {
        let half = if cfg!(target_endian = "little") { 0 } else { 1 };
        ptr::from_ref(self).cast::<u32>().wrapping_add(half)
    }

    /// Takes one off the value, unless it is zero.
    pub(crate) fn try_take(&self) -> bool {
        let less = |word| if value(word) > 0 { Some(word - 1) } else { None };
        // Acquire: pairs with the release of `post`. Relaxed on failure: the thread does not go on by that.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).is_ok()
    }

    /// Takes one off the value. While that is zero, sleeps by `sleep`, which compares the futex with zero.
    ///
    /// # Errors
    /// That of `sleep`, and nothing was taken.
    pub(crate) fn take<E>(&self, mut sleep: impl FnMut(&Self) -> Result<(), E>) -> Result<(), E> {
        if self.try_take() {
            return Ok(());
        }
        // Relaxed, here and below: see the proof.
        self.0.fetch_add(WAITER, Ordering::Relaxed);
        let taken = loop {
            if self.try_take() {
                break Ok(());
            }
            if let Err(error) = sleep(self) {
                break Err(error);
            }
        };
        self.0.fetch_sub(WAITER, Ordering::Relaxed);
        taken
    }

    /// Adds one to the value. Returns `true` if one sleeper is to be woken. The semaphore may be gone then.
    ///
    /// # Errors
    /// [`Overflow`], and nothing was added.
    pub(crate) fn post(&self) -> Result<bool, Overflow> {
        let more = |word| if value(word) < Self::MAX { Some(word + 1) } else { None };
        // Release: pairs with the acquire of `try_take`. Relaxed on failure: nothing was done.
        let before = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, more);
        before.map(|before| before >= WAITER).map_err(|_| Overflow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_its_largest() {
        let word = SemaphoreWord::new(SemaphoreWord::MAX - 1);
        assert_eq!((word.post(), word.post()), (Ok(false), Err(Overflow)));
        assert_eq!(word.value(), SemaphoreWord::MAX);
        assert!(word.try_take());
        assert_eq!(word.post(), Ok(false));
    }

    #[test]
    fn a_failed_sleep_takes_nothing_and_counts_out() {
        let word = SemaphoreWord::new(1);
        assert_eq!(word.take(|_| Err("asleep")), Ok(()));
        let sleep = |word: &SemaphoreWord| {
            assert_eq!(word.0.load(Ordering::Relaxed), WAITER);
            Err("woken")
        };
        assert_eq!(word.take(sleep), Err("woken"));
        assert_eq!(word.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_futex_is_the_value() {
        let word = SemaphoreWord::new(7);
        let post_while_asleep = |word: &SemaphoreWord| {
            assert_eq!(word.post(), Ok(true));
            // SAFETY: a half of the word, and no other thread has it.
            assert_eq!(unsafe { word.futex().read() }, 1);
            Ok::<(), ()>(())
        };
        (0..8).for_each(|_| word.take(post_while_asleep).unwrap());
        assert_eq!(word.value(), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_semaphore_word;
