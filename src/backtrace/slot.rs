//! How a thread that computes is asked for a copy of its stack. The looker asks by a slot, and the signal
//! handler on the asked thread fills it.
//!
//! **Problem.** The thread does not stop for the looker. Only code on that thread can copy its stack in one
//! piece: the handler of a signal. The looker must not wait forever, since the thread may have the signal
//! blocked. But a handler that comes late must not write where the looker reads, or what it has freed.
//!
//! **Rejected.**
//!
//! - A buffer of the looker's, given up at the end of its patience: the handler would write to it later.
//! - A buffer for each LWP: 64 KiB each, for a look once in a while.
//! - Registers only, so that the looker reads the stack itself: the thread goes on, and its stack is another
//!   by then.
//!
//! **Protocol.** There is one place, which is never freed, and one looker at a time. A word says what may be
//! done with the content. It names the thread that is meant by its address, so that a late handler of another
//! thread cannot answer.
//!
//! | word | the content belongs to | next, and by what |
//! |---|---|---|
//! | FREE | the looker | `ask` -> ASKED |
//! | ASKED, thread | nothing | that thread's handler -> WRITING; the looker, which gives up -> FREE |
//! | WRITING, thread | the handler | it -> DONE, after a moment |
//! | DONE, thread | the looker | it -> FREE, or `ask` -> ASKED |
//!
//! Both that leave ASKED do so by compare-and-swap, so one of them wins. A looker that gives up on WRITING
//! leaves the word as it is. The next looker finds WRITING or DONE.

use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicUsize, Ordering};

const FREE: usize = 0;
const ASKED: usize = 1;
const WRITING: usize = 2;
const DONE: usize = 3;
/// The bits of the state. Threads are aligned, so their addresses have none of them.
const STATE: usize = 3;

/// See the table above.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    word: AtomicUsize,
    content: UnsafeCell<T>,
}

// SAFETY: the table in the header says to which thread the content belongs. Each of its owners gets it from
// the one before by a release and an acquire of the word.
unsafe impl<T: Send> Sync for Slot<T> {}

/// What has come of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<R> {
    /// The thread has filled the place, and this was made of the content.
    Got(R),
    /// It has not answered.
    Silent,
    /// A thread that was asked before still has the place.
    Busy,
}

impl<T> Slot<T> {
    /// Creates a free place.
    pub(crate) const fn new(content: T) -> Self {
        Self { word: AtomicUsize::new(FREE), content: UnsafeCell::new(content) }
    }

    /// Asks `thread`, an address without the bits of [`STATE`]. `wait` is called until it returns `false`, or
    /// the thread has answered; before its first call, a signal has been sent. `read` gets the content.
    ///
    /// There is no other looker meanwhile.
    pub(crate) fn ask<R>(
        &self,
        thread: usize,
        mut wait: impl FnMut() -> bool,
        read: impl FnOnce(&T) -> R,
    ) -> Answer<R> {
        debug_assert_eq!(thread & STATE, 0);
        // Acquire: pairs with the handler's release of DONE. What it wrote is before what the next one
        // writes.
        if self.word.load(Ordering::Acquire) & STATE == WRITING {
            return Answer::Busy;
        }
        // Release: pairs with the handler's acquire. What was read of the content is before what it writes.
        self.word.store(thread | ASKED, Ordering::Release);
        let answered = loop {
            // Acquire: pairs with the handler's release. The content is whole.
            if self.word.load(Ordering::Acquire) == thread | DONE {
                break true;
            }
            if !wait() {
                // Relaxed: no thread has written. Acquire, if it fails: the word may say DONE, as above.
                let taken_back =
                    self.word.compare_exchange(thread | ASKED, FREE, Ordering::Relaxed, Ordering::Acquire);
                break taken_back == Err(thread | DONE);
            }
        };
        if !answered {
            return Answer::Silent;
        }
        // SAFETY: the content is the looker's.
        Answer::Got(self.content.with(|content| read(unsafe { &*content })))
    }

    /// Answers, if `thread` is asked: `fill` writes the content. Returns `true` if it was asked. Called by
    /// that thread's handler, and async-signal-safe if `fill` is.
    pub(crate) fn answer(&self, thread: usize, fill: impl FnOnce(&mut T)) -> bool {
        // Acquire: pairs with the release of `ask`. Relaxed, if it fails: nothing is read.
        let taken = self.word.compare_exchange(
            thread | ASKED,
            thread | WRITING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return false;
        }
        // SAFETY: the content is the handler's.
        self.content.with_mut(|content| fill(unsafe { &mut *content }));
        // Release: pairs with the looker's acquire.
        self.word.store(thread | DONE, Ordering::Release);
        true
    }

    /// Frees the place in a child of a fork, where no handler runs that was under way in the parent. There is
    /// no looker.
    pub(crate) fn survive_fork(&self) {
        // Relaxed: the caller is the only thread.
        self.word.store(FREE, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_slot;

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: usize = 256;

    #[test]
    fn only_the_asked_thread_answers() {
        let slot = Slot::new(0);
        assert!(!slot.answer(THREAD, |_| panic!("it is not asked")));
        let asked = || {
            assert!(!slot.answer(2 * THREAD, |_| panic!("another is asked")));
            assert!(slot.answer(THREAD, |content| *content += 7));
            assert!(!slot.answer(THREAD, |_| panic!("it has answered")));
            true
        };
        assert_eq!(slot.ask(THREAD, asked, |content| *content), Answer::Got(7));
        assert_eq!(slot.ask(THREAD, asked, |content| *content), Answer::Got(14));
    }

    #[test]
    fn a_looker_that_gives_up_takes_the_place_back_unless_it_is_written() {
        let slot = Slot::new(0);
        assert_eq!(slot.ask(THREAD, || false, |content| *content), Answer::Silent);
        assert!(!slot.answer(THREAD, |_| panic!("it is not asked any more")));
        let answers_at_the_end = || {
            slot.answer(THREAD, |content| *content = 7);
            false
        };
        assert_eq!(slot.ask(THREAD, answers_at_the_end, |content| *content), Answer::Got(7));
        // A handler is in the middle.
        let writing =
            slot.word.compare_exchange(THREAD | DONE, THREAD | WRITING, Ordering::Relaxed, Ordering::Relaxed);
        assert!(writing.is_ok(), "the place stays as it was answered");
        assert_eq!(slot.ask(2 * THREAD, || true, |content| *content), Answer::Busy);
        slot.survive_fork();
        assert_eq!(slot.ask(2 * THREAD, || false, |content| *content), Answer::Silent);
    }
}
