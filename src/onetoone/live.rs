//! How many threads of a runtime live, and the wait for the last of them.
//!
//! This is one word: the count, and a bit that says that a thread waits for zero. So if no thread waits,
//! threads end without a look at the wait queue.

use std::mem;

use crate::park::reason::WaitReason;
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options, Token};
use crate::shim::atomic::{AtomicUsize, Ordering};

/// Counts a runtime's living threads.
///
/// | value | meaning |
/// |---|---|
/// | even | half of it threads live, and no thread waits |
/// | odd | the same, and a thread waits for 1 on the queue of the runtime's address |
///
/// By that address, a search for deadlocks knows for which threads the waiting one waits.
#[derive(Debug)]
pub(super) struct Live {
    word: AtomicUsize,
    key: usize,
}

const WAITED_FOR: usize = 1;
const ONE: usize = 2;

impl Live {
    /// Creates the count of the runtime at this address.
    pub(super) fn new(home: usize) -> Self {
        Self { word: AtomicUsize::new(0), key: home }
    }

    pub(super) fn count(&self) -> usize {
        // Relaxed: a figure to show.
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Counts one thread more, which is about to be started.
    pub(super) fn enter(&self) -> Entered<'_> {
        // Relaxed: the caller holds the runtime, or is counted itself, so no thread waits for the runtime's
        // end meanwhile.
        self.word.fetch_add(ONE, Ordering::Relaxed);
        Entered(self)
    }

    /// Counts one thread less. The caller keeps the word alive until this returns.
    pub(super) fn leave(&self) {
        // Release: pairs with the acquire of `wait`.
        if self.word.fetch_sub(ONE, Ordering::Release) == ONE + WAITED_FOR
            && let Some(waiters) = wait_queue::grant_all(self.key, Token(0), || true)
        {
            waiters.wake_all();
        }
    }

    /// Waits until no thread lives. Called by one thread at a time: the owner of the runtime, when it drops
    /// that.
    pub(super) fn wait(&self) {
        // Acquire: pairs with `leave`, so all that the threads did happens before the return.
        if self.word.load(Ordering::Acquire) == 0 {
            return;
        }
        self.word.fetch_or(WAITED_FOR, Ordering::AcqRel);
        while self.word.load(Ordering::Acquire) != WAITED_FOR {
            // Under the queue lock: `leave` lowers the count before it acquires that lock to grant.
            let some_live = || self.word.load(Ordering::Relaxed) != WAITED_FOR;
            let options = Options::new(WaitReason::Scope, Wait::forever());
            let _ = wait_queue::wait_while(self.key, &options, some_live);
        }
    }
}

/// The count of a thread that may not start. If it is dropped, even by a panic, the thread has not started.
#[must_use = "the thread is counted only as long as this is there"]
pub(super) struct Entered<'a>(&'a Live);

impl Entered<'_> {
    /// Keeps the count, because the thread has started. It leaves by itself.
    pub(super) fn stays(self) {
        mem::forget(self);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
