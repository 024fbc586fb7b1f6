//! The end of a thread, the thread that waits for it, and what is left to dispose of.
//!
//! **Problem.** Every thread ends and most are joined, so the end is part of the cost of a spawn. At most
//! one thread waits for an end, with a deadline or without, because a join uses the handle up. Thread and
//! handle go in either order. The one that goes second disposes of what they share: the result, and one
//! counted reference to the core.
//!
//! **Rejected.**
//!
//! - The wait queue, under the word's address: two more bucket locks, and a table that all threads share.
//! - The joiner's own `park` token: a stray `unpark` of the user would pass for the end.
//! - A word for each of the three (the end, the result, the reference): three read-modify-writes, where the
//!   end alone takes one.
//!
//! **Protocol.** `ThreadCore::exit` is the word:
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | null | the thread runs or will run; no thread waits | `wait_done`: its [`Joiner`]; `detach`; `finish` |
//! | a joiner | the same; it sleeps until it is taken out | `finish`; a deadline or an interrupt: null |
//! | a watch, with `SEVERAL` | the same, but the sleeper may leave | `finish`; its thread: null |
//! | an awaiter, with `AWAITED` | the same; a future waits, and no thread does | `finish`; the future: null |
//! | these with `LEFT` | the same; the result is the handle's for good | as above, `LEFT` stays; `detach` |
//! | `DETACHED` | the handle is gone; the thread owns what they shared | `finish` |
//! | `DONE` | the thread has run, with its thread-local destructors | `begin`, of the core's next life |
//!
//! `detach` stores `DETACHED`, and `finish` stores `DONE`. After `DONE`, what they shared is the handle's,
//! if there is one.
//!
//! The party that takes the joiner out of the word has won its sleep (I3): `finish` by its swap, a deadline
//! or an interrupt by a compare-and-swap. Until then the joiner's frame lives, because its thread sleeps
//! until it is settled.
//!
//! The result is written before the thread-local destructors run. It could be borrowed from a scope that
//! does not wait for those. So a thread of a scope calls `leave_result` before it lets the scope go on. From
//! then on the thread does not touch the result, whatever becomes of the handle. If the handle is dropped
//! then, it disposes of the result before it gives up its reference. The result may lie in the core, and the
//! thread may release the core at once.
//!
//! A thread that waits for the first of several events puts a [`Watch`] there instead, marked by a bit.
//! Another event may wake the thread at any time, and the thread then takes the watch out again. If the end
//! came in between, the ending thread holds the watch, and says when it is through with it. Until then the
//! other thread stays. Both have a few steps to go, and neither can be preempted by signal there.
//!
//! A future puts an [`Awaiter`] there, marked by another bit: a waker, and counted references to itself and
//! to the core. The word has one of the references to the awaiter. The party that takes the awaiter out of
//! the word gets it: `finish`, or the future, which has a new waker or is dropped. So a waker in the word
//! never changes.
//!
//! A waker is code of the user's, or of an executor. It may want thread-locals, and those of the ending
//! thread are gone. So `finish` only gives the awaiter to its caller, which has a new thread of the same
//! runtime call the waker (`thread/spawning.rs`). Until then the awaiter keeps the core, so the ending
//! thread can start one. Rejected:
//!
//! - *To call the waker before the thread-locals are destroyed*: the future would find the thread alive.
//! - *To call it in the ending thread, as far as a destroyed thread-local is no error*: a waker that panics
//!   there wakes nothing.
//! - *A thread of the process that calls all wakers*: one more kernel thread, in forks too. The ends of green
//!   threads would wait for the kernel. A new green thread costs less than a wake-up across threads.
//! - *A thread that joins from the start, for each future*: it would have a stack for as long as it waits.
//!
//! Cost in read-modify-writes:
//!
//! - an end: 1
//! - a join that sleeps: 1, for a kernel thread 2; a join of a thread that has ended: none
//! - a handle that is dropped: 1, or 2 if the thread has left its result; none after the end

use std::ptr;
use std::sync::Arc;
use std::task::Waker;

pub(super) mod word;

pub(crate) use self::word::Detached;
use self::word::{AWAITED, Exit, LEFT, SEVERAL};
use super::backoff::Backoff;
use super::current::current;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{EXPIRED, GRANTED, INTERRUPTED, OnWord, SleepWord};
use super::sleeper::Sleeper;
use super::thread::{ThreadCore, ThreadRef};
use super::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicBool, Ordering};

// The marks of the word are free in their addresses.
const _: () = assert!(align_of::<Joiner>() > LEFT && align_of::<Watch>() > LEFT);
const _: () = assert!(align_of::<Awaiter>() > LEFT);

/// A thread that waits for the end of another. It lives on the waiting thread's stack.
#[derive(Debug)]
struct Joiner {
    word: SleepWord,
    thread: ThreadRef,
    exit: *const Exit,
    kernel: bool,
}

impl OnWord for Joiner {
    fn word(&self) -> &SleepWord {
        &self.word
    }

    fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// Takes the joiner out of the exit word.
    fn withdraw(&self) -> bool {
        // SAFETY: cores are type-stable, and this core has not been released: the joiner has the thread's
        // handle.
        unsafe { &*self.exit }.take_out(self.link())
    }
}

impl Joiner {
    fn link(&self) -> *mut () {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// A thread that waits for the end of another, among other events. It lives on the waiting thread's stack.
#[derive(Debug)]
pub(crate) struct Watch {
    exit: *const Exit,
    sleeper: *const Sleeper,
    /// The code for the sleeper.
    code: u32,
    /// Set when the ending thread will not touch it any more.
    through: AtomicBool,
}

impl Watch {
    /// Creates a watch of the end of `thread`, for `sleeper`, which is told `code`.
    pub(crate) fn new(thread: ThreadRef, sleeper: &Sleeper, code: u32) -> Self {
        Self { exit: &raw const thread.core().exit, sleeper, code, through: AtomicBool::from(false) }
    }

    fn exit(&self) -> &Exit {
        // SAFETY: cores are type-stable, and this core has not been released: the watcher has the thread's
        // handle.
        unsafe { &*self.exit }
    }

    /// Puts the watch into the exit word. Returns `false` if the thread has ended.
    ///
    /// # Safety
    /// The watch stays where it is until [`leave`](Self::leave) has returned, or until it has settled the
    /// sleeper. The caller has the thread's handle to itself.
    pub(crate) unsafe fn enter(&self) -> bool {
        self.exit().enter(self.link())
    }

    fn link(&self) -> *mut () {
        ptr::from_ref(self).cast_mut().cast::<()>().map_addr(|watch| watch | SEVERAL)
    }

    /// Takes the watch back, unless it has settled the sleeper. If another event has settled the sleeper,
    /// the watch has not. It had been entered.
    pub(crate) fn leave(&self) {
        if self.exit().take_out(self.link()) {
            return;
        }
        let mut backoff = Backoff::new();
        // Acquire: pairs with `tell`, which comes before everything that is done with this memory next.
        while !self.through.load(Ordering::Acquire) {
            backoff.pause();
        }
    }

    /// # Safety
    /// The caller has taken the watch out of the exit word.
    #[cold]
    unsafe fn tell(watch: *const Self) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: it stays until it is marked as through, or its sleeper is settled.
        let this = unsafe { &*watch };
        // SAFETY: the watch stays, and its sleeper with it.
        if unsafe { &*this.sleeper }.try_claim() {
            // SAFETY: won just now, and settled once.
            unsafe { Sleeper::settle(this.sleeper, this.code) }.wake();
        } else {
            // Release: pairs with `leave`.
            this.through.store(true, Ordering::Release);
        }
    }
}

/// A future that waits for the end of a thread. It does not change.
#[derive(Debug)]
#[repr(align(8))]
pub(crate) struct Awaiter {
    /// Counted.
    thread: ThreadRef,
    waker: Waker,
}

impl Awaiter {
    /// Creates an awaiter of the end of `thread`, of which the caller has a counted reference.
    pub(crate) fn new(thread: ThreadRef, waker: &Waker) -> Arc<Self> {
        // First, because it may panic.
        let waker = waker.clone();
        Arc::new(Self { thread: thread.retain(), waker })
    }

    /// Returns the thread.
    pub(crate) fn thread(&self) -> ThreadRef {
        self.thread
    }

    /// Returns `true` if it would wake what `waker` does.
    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.waker.will_wake(waker)
    }

    /// Calls the waker. The awaiter was in the word, and the thread has ended.
    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Puts the awaiter into the exit word. Returns `false` if the thread has ended. Called by the future,
    /// which has the thread's handle to itself and no other awaiter in the word.
    pub(crate) fn enter(self: &Arc<Self>) -> bool {
        let theirs = Arc::into_raw(Arc::clone(self));
        let entered = self.thread.core().exit.enter(self.link());
        if !entered {
            // SAFETY: from `into_raw` just above, and not in the word.
            drop(unsafe { Arc::from_raw(theirs) });
        }
        entered
    }

    /// Takes the awaiter out of the exit word, unless the thread has ended. It had been entered.
    pub(crate) fn leave(self: &Arc<Self>) {
        if self.thread.core().exit.take_out(self.link()) {
            // SAFETY: from `into_raw` in `enter`, and out of the word again.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(self)) });
        }
    }

    fn link(self: &Arc<Self>) -> *mut () {
        Arc::as_ptr(self).cast_mut().cast::<()>().map_addr(|awaiter| awaiter | AWAITED)
    }
}

impl Drop for Awaiter {
    fn drop(&mut self) {
        self.thread.release();
    }
}

impl ThreadCore {
    /// Returns `true` if the handle is gone. Of use to the thread itself only: for it, `true` is a lasting
    /// answer.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.exit.is_detached()
    }

    /// Gives the result to the handle for good. Called by the thread, which has written the result and will
    /// not touch it again. Returns `false` if the handle is gone. The thread then drops the result.
    #[cold]
    pub(crate) fn leave_result(&self) -> bool {
        self.exit.leave_result()
    }

    /// Gives up the handle, which is being dropped and does not wait. If the result is the handle's, calls
    /// `discard`, which drops it.
    pub(crate) fn detach<R>(&self, discard: impl FnOnce() -> R) -> Detached<R> {
        self.exit.detach(discard)
    }

    /// Says that the thread has ended. Called once, by the thread itself or for it, after everything that it
    /// will ever run, with no queue lock held. If it returns `true`, the handle is gone, and what they
    /// shared is the thread's. Otherwise the core may be used again at once, unless the caller has a counted
    /// reference of its own. If a future waits, calls `awaited` with its awaiter, which keeps the core, and
    /// which a thread is to wake.
    #[inline(always)]
    #[must_use]
    pub(crate) fn finish_with(&self, awaited: impl FnOnce(Arc<Awaiter>)) -> bool {
        let Some(waiter) = self.exit.finish() else {
            return true;
        };
        if waiter.addr() & (SEVERAL | AWAITED) != 0 {
            let at = waiter.map_addr(|waiter| waiter & !(SEVERAL | AWAITED));
            if waiter.addr() & AWAITED != 0 {
                // SAFETY: from `into_raw` in `Awaiter::enter`. This call has taken it out of the word.
                awaited(unsafe { Arc::from_raw(at.cast_const().cast()) });
            } else {
                // SAFETY: a watch that this call has taken out of the word. It stays until this call is
                // through with it.
                unsafe { Watch::tell(at.cast()) };
            }
            return false;
        }
        // SAFETY: null, or a joiner that this call has taken out of the word. It sleeps until it is settled.
        if let Some(joiner) = unsafe { waiter.cast::<Joiner>().as_ref() } {
            let (thread, backend) = (joiner.thread, joiner.thread.backend());
            let word = ptr::from_ref(joiner.word.futex());
            let wake = joiner.word.settle_for(joiner.kernel, GRANTED);
            // From here on a kernel thread may be gone, and the life of its core over. A green thread sleeps
            // until it is woken.
            if wake {
                backend.wake(thread, word);
            }
        }
        false
    }

    /// Says that a thread without a handle has ended, or could not be started. The caller has a counted
    /// reference, and gives it up next.
    pub(crate) fn finish_without_handle(&self) {
        let waiter = self.exit.finish();
        debug_assert!(waiter.is_some_and(|waiter| waiter.is_null()), "a thread waits for it");
    }

    /// Does what [`finish_with`](Self::finish_with) does, and wakes what awaits the thread.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn finish(&self) -> bool {
        self.finish_with(|awaiter| awaiter.wake())
    }

    /// Waits until the thread has ended. Called by one thread at a time.
    #[inline]
    pub(crate) fn wait_end(&self) {
        let endless = self.wait_done(Wait::forever());
        debug_assert!(endless.is_ok());
    }

    /// Waits until the thread has ended, unless `wait` ends before. Called by one thread at a time. If an
    /// interrupt ends the wait, the caller's flag is still set.
    #[inline]
    pub(crate) fn wait_done(&self, wait: Wait) -> Result<(), WaitError> {
        if self.is_done() {
            return Ok(());
        }
        let me = current();
        let kernel = me.is_kernel();
        let joiner = Joiner { word: SleepWord::new(), thread: me, exit: &raw const self.exit, kernel };
        me.core().wait_state.at(self.address());
        // From the publication to the wake-up (I9).
        let _no_preempt = NoPreempt::hold();
        if !self.exit.enter(joiner.link()) {
            return Ok(());
        }
        wait.block(&me, me.backend(), &joiner, WaitReason::Join);
        match joiner.word.outcome() {
            EXPIRED => Err(WaitError::TimedOut),
            INTERRUPTED => Err(WaitError::Interrupted),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::park::core_pool;
    use crate::park::tests::unclonable;

    #[test]
    fn a_waker_that_cannot_be_cloned_leaves_no_reference() {
        let thread = core_pool::take(1, None, None);
        let waker = unclonable();
        assert!(catch_unwind(AssertUnwindSafe(|| Awaiter::new(thread, &waker))).is_err());
        assert!(thread.release_was_last());
        thread.pool().recycle(thread);
    }

    /// The kernel has preempted the thread that ends, for a thread of higher real-time priority: the one that
    /// waits for it. A yield would not let it go on.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_watch_that_leaves_naps_until_the_ended_thread_is_through() {
        use crate::sys::task_state::own_cpu_clock;
        use std::time::Duration;
        let (thread, sleeper) = (core_pool::take(1, None, None), Sleeper::new());
        let watch = Watch::new(thread, &sleeper, 0);
        // SAFETY: it stays until it has left.
        assert!(unsafe { watch.enter() } && sleeper.try_claim());
        assert!(thread.core().exit.finish().is_some_and(|it| it == watch.link()));
        let through = &watch.through;
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                through.store(true, Ordering::Release);
            });
            let before = own_cpu_clock().unwrap();
            watch.leave();
            let ran = Duration::from_nanos(own_cpu_clock().unwrap() - before);
            assert!(ran < Duration::from_millis(60), "{ran:?}");
        });
        thread.release();
    }
}
