//! The word of one `block_on`: whether its future was woken, and the thread that waits for that.
//!
//! **Problem.** A waker may be called at any time, from any thread, any number of times. The future may be
//! polled at that moment, its thread may go to sleep, or `block_on` may have returned. No wake-up may be
//! lost. What was written before a wake-up must be visible to the poll after it.
//!
//! **Rejected.**
//!
//! - The permit of the thread's `park`. A stray `unpark` of the user would pass for a wake-up, and a wake-up
//!   would use up the user's token. Nested calls would take each other's wake-ups.
//! - The wait queue, under the word's address: two bucket locks for each wait, where only one thread waits.
//! - A flag beside a word for the sleep: two read-modify-writes for each wake-up.
//!
//! **Protocol.** The word is shared by `block_on` and its wakers, and counted, so it outlives both.
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | null | not woken since the last poll began; no sleep | a waker: `WOKEN`; `wait`: its sleeper |
//! | a sleeper | the same, but the thread sleeps | a waker: `WOKEN`; a deadline or an interrupt: null |
//! | `WOKEN` | woken since then | the thread, before it polls: null |
//!
//! The party that takes the sleeper out of the word has won its sleep (I3). A waker takes it by its swap, a
//! deadline or an interrupt by a compare-and-swap. Until then the sleeper's frame lives.
//!
//! **Proof.** *No wake-up is lost.* The thread clears the word before it polls. A waker that is called
//! afterwards leaves `WOKEN`. Then either the thread finds that, and does not sleep, or the waker finds the
//! sleeper. *What came before is seen.* A waker swaps even if it finds `WOKEN`, and the thread clears the
//! word by a swap. So the writes before each wake-up happen before that swap, which reads the last in a chain
//! of read-modify-writes.
//!
//! **Cost** in read-modify-writes: a wake-up 1; a wait 2 (publish, consume); besides those of the sleep
//! (`park/sleeper.rs`).

use std::ptr;
use std::sync::Arc;
use std::task::Wake;

use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicPtr, Ordering};

/// See the table in the header.
#[derive(Debug)]
pub(super) struct WakeWord(AtomicPtr<Sleeper>);

/// The word of a future that was woken: an address that no sleeper has.
const WOKEN: *mut Sleeper = ptr::without_provenance_mut(1);

impl WakeWord {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns `true` if the future was woken, and forgets that. Called by the thread, before it polls.
    pub(super) fn take(&self) -> bool {
        // Acquire: pairs with `wake_by_ref`. A swap, so that it reads the last wake-up.
        self.0.swap(ptr::null_mut(), Ordering::Acquire) == WOKEN
    }

    /// Waits until the future has been woken, or as `wait` says. If an interrupt ends the wait, the thread's
    /// flag is still set.
    pub(super) fn wait(&self, wait: Wait) -> Result<(), WaitError> {
        // Relaxed: as below.
        wait.check_end_unless(|| self.0.load(Ordering::Relaxed) == WOKEN);
        let sleeper = Sleeper::new();
        let how = How { reason: WaitReason::Future, wait, spin: true };
        let mine = ptr::from_ref(&sleeper).cast_mut();
        // From the publication to the wake-up (I9).
        let no_preempt = NoPreempt::hold();
        // Release: the waker that takes the sleeper out reads it. Relaxed on failure: `take` acquires.
        if self.0.compare_exchange(ptr::null_mut(), mine, Ordering::Release, Ordering::Relaxed).is_err() {
            return Ok(());
        }
        let withdraw = || {
            // Relaxed: nothing is read.
            let (won, lost) = (Ordering::Relaxed, Ordering::Relaxed);
            self.0.compare_exchange(mine, ptr::null_mut(), won, lost).is_ok()
        };
        match sleeper.sleep(&no_preempt, &how, 0, withdraw) {
            Slept::Granted(_) => Ok(()),
            Slept::Ended(why) => Err(why),
        }
    }
}

impl Wake for WakeWord {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // From the moment when the sleep is won to the wake-up.
        let _no_preempt = NoPreempt::hold();
        // Release: pairs with `take`. Acquire: pairs with `wait`.
        let old = self.0.swap(WOKEN, Ordering::AcqRel);
        if old.is_null() || old == WOKEN {
            return;
        }
        // SAFETY: this call has taken it out of the word, so its thread sleeps until it is settled.
        if !unsafe { &*old }.is_lost() {
            // SAFETY: won just now, and settled once.
            unsafe { Sleeper::settle(old, 0) }.wake();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_wake_word;
