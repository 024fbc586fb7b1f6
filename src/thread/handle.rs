//! `JoinHandle`: the right to wait for a thread and to take its result.
//!
//! The thread says that it has ended by the `exit` word of its core, after its thread-local destructors. Its
//! result is in its task cell. So if the thread has already ended, a join reads two words, without a
//! read-modify-write.

use std::mem::ManuallyDrop;
use std::panic;

use super::current::Thread;
use super::task::{self, ResultCell};
use crate::park::exit::Detached;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError, timed};
use crate::park::{current, fork};

/// A thread and the claim on its result: what `JoinHandle` and `ScopedJoinHandle` share.
pub(super) struct Joining<T> {
    /// The counted reference that the handle shares with the thread. Dropped by `take` or by `leave`.
    thread: ManuallyDrop<Thread>,
    /// Used up by `take` or by `leave`.
    claim: ManuallyDrop<ResultCell<T>>,
}

impl<T> Joining<T> {
    #[inline]
    pub(super) fn new(thread: Thread, claim: ResultCell<T>) -> Self {
        Self { thread: ManuallyDrop::new(thread), claim: ManuallyDrop::new(claim) }
    }

    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.core().is_done()
    }

    /// Returns `true` if the thread is a parent process's, so its end cannot be waited for.
    pub(super) fn is_lost(&self) -> bool {
        is_lost(self.thread.core())
    }

    #[cold]
    fn join_slow(self, wait: Wait) -> Result<task::Result<T>, (Self, WaitError)> {
        if self.is_lost() {
            return Ok(Err(Box::new(fork::LOST)));
        }
        match wait.run(|wait| self.thread.core().wait_done(wait)) {
            Ok(()) => Ok(self.take()),
            Err(why) => Err((self, why)),
        }
    }

    #[inline]
    pub(super) fn join(self) -> task::Result<T> {
        if self.is_finished() || await_end(self.thread.core()) {
            self.take()
        } else {
            Err(Box::new(fork::LOST))
        }
    }

    #[inline]
    pub(super) fn join_with(self, wait: Wait) -> Result<task::Result<T>, (Self, WaitError)> {
        // An interrupt that came before is reported even if the thread has ended.
        if !wait.interruptible && self.is_finished() { Ok(self.take()) } else { self.join_slow(wait) }
    }

    /// Takes the result of the thread, which has ended.
    #[inline]
    pub(super) fn take(self) -> task::Result<T> {
        let mut this = ManuallyDrop::new(self);
        let core = this.thread.core();
        if core.is_kernel() {
            core.pool().joined(core);
        }
        // SAFETY: `this` is not dropped, so it is taken once.
        let claim = unsafe { ManuallyDrop::take(&mut this.claim) };
        // SAFETY: the thread has ended, and this handle was there.
        let result = unsafe { claim.take() };
        // After the result, which may lie in the thread's own memory.
        // SAFETY: `this` is not dropped, and does not use it again. The thread has ended, so the reference
        // is the handle's.
        unsafe { ManuallyDrop::drop(&mut this.thread) };
        result
    }

    /// Gives up the result. Returns `true` if it was a panic that was not seen.
    pub(super) fn abandon(self) -> bool {
        // SAFETY: called once, and the value is not dropped.
        unsafe { ManuallyDrop::new(self).leave() }
    }

    /// # Safety
    /// It is the last use.
    // Out of line: a join drops only the handle of a lost thread, and has no registers to keep for that.
    #[inline(never)]
    unsafe fn leave(&mut self) -> bool {
        let core = self.thread.core();
        // First, because the reference may be the thread's after `detach`.
        core.pool().detached(core);
        // SAFETY: the last use.
        let claim = unsafe { ManuallyDrop::take(&mut self.claim) };
        // SAFETY: it is called only if the thread has ended or left its result for good, while this handle
        // exists.
        match core.detach(|| unsafe { claim.discard() }) {
            Detached::Runs => false,
            Detached::HasLeft(unread_panic) => unread_panic,
            Detached::HasEnded(unread_panic) => {
                // SAFETY: the last use. The thread has ended, so the reference is the handle's.
                unsafe { ManuallyDrop::drop(&mut self.thread) };
                unread_panic
            }
        }
    }
}

/// Returns `true` if `thread` is a parent process's.
fn is_lost(thread: ThreadRef) -> bool {
    let me = current::try_current();
    assert!(me != Some(thread), "a thread cannot join itself: it would wait forever");
    thread.is_lost()
}

/// Waits without a limit for the end of `thread`: the usual join, which need not carry the limit along. It
/// is one function for all types of results. Returns `false` at once if the thread is a parent process's.
#[cold]
fn await_end(thread: ThreadRef) -> bool {
    if is_lost(thread) {
        return false;
    }
    thread.wait_end();
    true
}

impl<T> Drop for Joining<T> {
    fn drop(&mut self) {
        // SAFETY: it is dropped once, and the methods that use it up do not drop it.
        unsafe { self.leave() };
    }
}

/// The right to join a thread: to wait for its end, and to take its result.
///
/// A thread joins by [`join`](Self::join). An async task awaits the handle, which becomes a
/// [`JoinFuture`](super::JoinFuture).
///
/// Both runtimes have this one type. A handle that is dropped detaches its thread. The thread runs on, and
/// its result is dropped when it ends. A handle does not keep its runtime alive, and may outlive it.
///
/// # Blocks
///
/// If the thread has ended but owns a kernel thread (bound, or 1:1), dropping the handle waits until the
/// kernel has taken that kernel thread down. That takes microseconds, unless a C library's destructors take
/// longer.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime};
///
/// let rt = OneToOne::new()?;
/// let handle = rt.spawn(|| 6 * 7);
/// assert_eq!(handle.join().unwrap(), 42);
/// # std::io::Result::Ok(())
/// ```
pub struct JoinHandle<T>(Joining<T>);

impl<T> JoinHandle<T> {
    pub(super) fn new(joining: Joining<T>) -> Self {
        Self(joining)
    }

    pub(super) fn into_joining(self) -> Joining<T> {
        self.0
    }

    /// Returns the thread, if it owns a kernel thread that exists.
    pub(super) fn kernel_thread(&self) -> Option<ThreadRef> {
        let core = self.0.thread().core();
        (core.is_kernel() && !core.is_lost()).then_some(core)
    }

    /// Returns the thread that this handle joins.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime, thread};
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(thread::park);
    /// handle.thread().unpark();
    /// handle.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.0.thread()
    }

    /// Waits for the thread to end, its thread-local destructors included, and returns its result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime};
    /// # let rt = OneToOne::new()?;
    /// assert_eq!(rt.spawn(|| "done").join().unwrap(), "done");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// The payload of the panic that ended the thread. In a forked child, for a thread of the parent: a
    /// `&'static str` that says so.
    ///
    /// # Blocks
    ///
    /// The calling thread, until the other has ended.
    #[inline]
    pub fn join(self) -> task::Result<T> {
        self.0.join()
    }

    timed! {
        join: ". After its thread-local destructors, a kernel thread still has to leave the kernel. \
            That wait has no limit"
        /// # Examples
        ///
        /// ```
        /// # use selvedge::{OneToOne, Runtime, thread};
        /// use std::time::{Duration, Instant};
        ///
        /// # let rt = OneToOne::new()?;
        /// let handle = rt.spawn(thread::park);
        /// let handle = handle.join_timeout(Duration::from_millis(1)).expect_err("still parked");
        /// handle.thread().unpark();
        /// assert!(handle.join_until(Instant::now() + Duration::from_secs(60)).is_ok());
        /// # std::io::Result::Ok(())
        /// ```
        ///
        /// # Panics
        ///
        /// If the thread joins itself.
        ///
        /// # Errors
        ///
        /// The handle itself if the thread has not ended by then; nothing is lost.
        pub fn join_timeout, join_until(self) -> Result<task::Result<T>, Self> {
            |limit| self.join_with(limit()).map_err(|(this, _)| this)
        }
    }

    /// Waits for the thread to end, or for as long as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(|| 1);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// let (handle, why) = handle.join_with(wait).expect_err("interrupted");
    /// assert_eq!(why, WaitError::Interrupted);
    /// assert_eq!(handle.join_with(wait).expect("not again").unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// The handle itself, and the [`WaitError`], if the wait has ended first; nothing is lost.
    ///
    /// # Blocks
    ///
    /// As [`join_timeout`](Self::join_timeout), until the other thread or the wait has ended.
    pub fn join_with(self, wait: Wait) -> Result<task::Result<T>, (Self, WaitError)> {
        self.0.join_with(wait).map_err(|(this, why)| (Self(this), why))
    }

    /// Returns `true` if the thread has ended, its thread-local destructors included. Then `join` does not
    /// wait, except for a kernel thread to leave the kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime, thread};
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(thread::park);
    /// assert!(!handle.is_finished());
    /// handle.thread().unpark();
    /// # handle.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

crate::shown::debug! { [T] JoinHandle<T>: "JoinHandle", "thread": |handle| handle.thread() }

// As in std: even after a panic, the thread's result is whole or absent.
impl<T> panic::UnwindSafe for JoinHandle<T> {}
impl<T> panic::RefUnwindSafe for JoinHandle<T> {}
