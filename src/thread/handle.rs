//! `JoinHandle`: the right to wait for a thread and take what it returned.
//!
//! The thread says that it has ended with the `exit` word of its core, after its thread-local destructors; its result waits in
//! its packet. So joining reads two words and does no read-modify-write where the thread has ended already.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::time::{Duration, Instant};

use super::Thread;
use super::packet::Claim;
use crate::park::exit::Detached;
use crate::park::interrupt::Interrupted;
use crate::park::thread::{ThreadCore, ThreadRef};
use crate::park::{current, fork};
use crate::time;

/// A thread and the claim on its result: what `JoinHandle` and `ScopedJoinHandle` share.
pub(super) struct Joining<T> {
    /// The counted reference that the handle shares with the thread. Dropped by `join_until` or by `leave`.
    thread: ManuallyDrop<Thread>,
    /// Used up by `join_until` or by `leave`.
    claim: ManuallyDrop<Claim<T>>,
}

impl<T> Joining<T> {
    #[inline]
    pub(super) fn new(thread: Thread, claim: Claim<T>) -> Self {
        Self { thread: ManuallyDrop::new(thread), claim: ManuallyDrop::new(claim) }
    }

    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.core().is_done()
    }

    /// Waits for the end by `wait`, which says whether it has come.
    #[cold]
    fn join_slow(self, wait: impl FnOnce(&ThreadCore) -> bool) -> Result<super::Result<T>, Self> {
        let core = self.thread.core();
        let me = current::try_current();
        assert!(me != Some(core), "a thread cannot join itself: it would wait for ever");
        if core.is_lost() {
            return Ok(Err(Box::new(fork::LOST)));
        }
        if wait(&core) { Ok(self.take()) } else { Err(self) }
    }

    #[inline]
    pub(super) fn join(self) -> super::Result<T> {
        match self.join_until(None) {
            Ok(result) => result,
            Err(_) => unreachable!("a wait without a deadline ends with the thread"),
        }
    }

    #[inline]
    pub(super) fn join_until(self, deadline: Option<Instant>) -> Result<super::Result<T>, Self> {
        if self.is_finished() { Ok(self.take()) } else { self.join_slow(|core| core.wait_done(deadline)) }
    }

    pub(super) fn join_interruptible(self) -> Result<super::Result<T>, Self> {
        self.join_slow(|core| core.wait_done_interruptible(None).is_ok())
    }

    pub(super) fn join_interruptible_until(
        self,
        deadline: Option<Instant>,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        let mut interrupted = Ok(());
        let ended = self.join_slow(|core| {
            core.wait_done_interruptible(deadline).unwrap_or_else(|error| {
                interrupted = Err(error);
                false
            })
        });
        match (ended, interrupted) {
            (Err(this), Err(error)) => Err((this, error)),
            (ended, _) => Ok(ended),
        }
    }

    /// The result of the thread, which has ended.
    #[inline]
    fn take(self) -> super::Result<T> {
        let mut this = ManuallyDrop::new(self);
        let core = this.thread.core();
        if core.is_kernel() {
            core.keeper().joined(core);
        }
        // SAFETY: `this` is not dropped, so it is taken once.
        let claim = unsafe { ManuallyDrop::take(&mut this.claim) };
        // SAFETY: the thread has ended, and this handle was there.
        let result = unsafe { claim.take() };
        // After the result: it may lie in the thread's own memory.
        // SAFETY: `this` is not dropped, and does not use it again. The thread has ended, so the reference is ours.
        unsafe { ManuallyDrop::drop(&mut this.thread) };
        result
    }

    /// Gives up the result. `true`: it was a panic that nobody has seen.
    pub(super) fn abandon(self) -> bool {
        // SAFETY: once, and it is not dropped.
        unsafe { ManuallyDrop::new(self).leave() }
    }

    /// # Safety
    /// The last use.
    unsafe fn leave(&mut self) -> bool {
        let core = self.thread.core();
        // Before the reference may be the thread's.
        core.keeper().detached(core);
        // SAFETY: the last use.
        let claim = unsafe { ManuallyDrop::take(&mut self.claim) };
        // SAFETY: it is called if the thread has ended or left its result for good, while this handle exists.
        match core.detach(|| unsafe { claim.discard() }) {
            Detached::Runs => false,
            Detached::HasLeft(unread_panic) => unread_panic,
            Detached::HasEnded(unread_panic) => {
                // SAFETY: the last use. The thread has ended, so the reference is ours.
                unsafe { ManuallyDrop::drop(&mut self.thread) };
                unread_panic
            }
        }
    }
}

impl<T> Drop for Joining<T> {
    fn drop(&mut self) {
        // SAFETY: nobody drops it twice, and the verbs above do not drop it.
        unsafe { self.leave() };
    }
}

/// The right to join a thread: to wait for its end, and to take what it returned.
///
/// One type for both runtimes. A handle that is dropped detaches its thread, which runs on; its result is then dropped
/// when it ends. A handle does not keep its runtime alive, and outlives it.
///
/// # Blocks
///
/// Dropping the handle of a thread that has ended but owns a kernel thread (bound, or 1:1) waits until the kernel has taken
/// that down: microseconds, unless a C library's destructors take longer.
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

    /// Returns the thread, if it owns a kernel thread that exists.
    pub(super) fn kernel_thread(&self) -> Option<ThreadRef> {
        let core = self.0.thread().core();
        (core.is_kernel() && !core.is_lost()).then_some(core)
    }

    /// The thread that this handle joins.
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

    /// Waits for the thread to end, its thread-local destructors included, and gives what it returned.
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
    /// The payload of the panic that ended the thread. In a forked child, for a thread of the parent: a `&'static str` that says so.
    ///
    /// # Blocks
    ///
    /// The calling thread, until the other has ended.
    #[inline]
    pub fn join(self) -> super::Result<T> {
        self.0.join()
    }

    /// Waits for the thread to end, for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime, thread};
    /// use std::time::Duration;
    ///
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(thread::park);
    /// let handle = handle.join_timeout(Duration::from_millis(1)).expect_err("still parked");
    /// handle.thread().unpark();
    /// assert!(handle.join_timeout(Duration::from_secs(60)).is_ok());
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
    ///
    /// # Blocks
    ///
    /// The calling thread, until the other has ended or the time is over. What remains of a kernel thread after its
    /// thread-local destructors (its exit from the kernel) is waited for without a limit.
    pub fn join_timeout(self, timeout: Duration) -> Result<super::Result<T>, Self> {
        self.0.join_until(time::after(timeout)).map_err(Self)
    }

    /// Waits for the thread to end, until `deadline` at the latest.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime};
    /// use std::time::{Duration, Instant};
    ///
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(|| 1);
    /// let result = handle.join_until(Instant::now() + Duration::from_secs(60)).expect("in time");
    /// assert_eq!(result.unwrap(), 1);
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
    ///
    /// # Blocks
    ///
    /// As [`join_timeout`](Self::join_timeout).
    pub fn join_until(self, deadline: Instant) -> Result<super::Result<T>, Self> {
        self.0.join_until(Some(deadline)).map_err(Self)
    }

    /// Waits for the thread to end, unless the calling thread is [interrupted](Thread::interrupt).
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime, thread};
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(|| 1);
    /// thread::current().interrupt();
    /// let handle = handle.join_interruptible().expect_err("interrupted");
    /// assert_eq!(handle.join_interruptible().expect("not again").unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// The handle itself if the calling thread was interrupted; nothing is lost.
    ///
    /// # Blocks
    ///
    /// As [`join_timeout`](Self::join_timeout), until the other thread has ended or the calling one is interrupted.
    pub fn join_interruptible(self) -> Result<super::Result<T>, Self> {
        self.0.join_interruptible().map_err(Self)
    }

    /// [`join_interruptible`](Self::join_interruptible), for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::{OneToOne, Runtime, thread};
    /// use std::time::Duration;
    ///
    /// # let rt = OneToOne::new()?;
    /// let handle = rt.spawn(thread::park);
    /// thread::current().interrupt();
    /// let (handle, _interrupted) = handle.join_interruptible_timeout(Duration::MAX).expect_err("interrupted");
    /// let handle = handle.join_interruptible_timeout(Duration::from_millis(1)).expect("not again").expect_err("still parked");
    /// handle.thread().unpark();
    /// handle.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// The handle itself, beside the [`Interrupted`] or, if the time was over, within `Ok`; nothing is lost.
    ///
    /// # Blocks
    ///
    /// As [`join_timeout`](Self::join_timeout), at most until the calling thread is interrupted.
    pub fn join_interruptible_timeout(
        self,
        timeout: Duration,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        self.join_interruptible_by(time::after(timeout))
    }

    /// [`join_interruptible`](Self::join_interruptible), until `deadline` at the latest.
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// As [`join_interruptible_timeout`](Self::join_interruptible_timeout).
    ///
    /// # Blocks
    ///
    /// As [`join_interruptible_timeout`](Self::join_interruptible_timeout).
    pub fn join_interruptible_until(
        self,
        deadline: Instant,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        self.join_interruptible_by(Some(deadline))
    }

    fn join_interruptible_by(
        self,
        deadline: Option<Instant>,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        match self.0.join_interruptible_until(deadline) {
            Ok(ended) => Ok(ended.map_err(Self)),
            Err((this, error)) => Err((Self(this), error)),
        }
    }

    /// Whether the thread has ended, its thread-local destructors included, so that `join` would not wait.
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

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

// A handle is as free as std's: also after a panic, its thread's result is whole or absent.
impl<T> panic::UnwindSafe for JoinHandle<T> {}
impl<T> panic::RefUnwindSafe for JoinHandle<T> {}
