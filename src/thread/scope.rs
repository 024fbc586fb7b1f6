//! `scope`: threads that borrow from the stack of the thread that waits for them.
//!
//! Soundness rests on one count: a scoped thread is counted before it starts, and uncounted when its closure is gone and its
//! result either belongs to a handle, which cannot outlive the scope, or is dropped. `scope` returns, or unwinds, only once the
//! count is zero. Thread-local destructors may run later: they can hold nothing that is borrowed from the scope.
//!
//! The waiter sleeps on a wait queue keyed by the count's address rather than on its permit, so a permit that somebody posts to it
//! meanwhile is not eaten. Each thread shares the count (`Arc`), so the address is still the count's when the last of them
//! wakes the waiter: a wake-up on an address that has been used again would hand a stranger something it did not wait for.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Thread;
use super::builder::{Builder, spawn_unchecked};
use super::handle::Joining;
use super::packet::Ending;
use crate::park::backend::{Ambient, SpawnOptions};
use crate::park::interrupt::Interrupted;
use crate::park::ledger;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_queue::{self, Options, Token};
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::time;

/// What the threads of a scope share with it.
#[derive(Default)]
struct Shared {
    /// Threads that may still use what they borrowed.
    running: AtomicUsize,
    /// One of them panicked, and nobody joined it.
    unread_panic: AtomicBool,
}

impl Shared {
    fn key(&self) -> usize {
        (&raw const self.running).addr()
    }

    fn count(&self) {
        // Relaxed: the thread that it counts is started afterwards.
        let running = self.running.fetch_add(1, Ordering::Relaxed);
        assert!(running < usize::MAX / 2, "too many running threads in thread scope");
    }

    fn uncount(&self) {
        // Release: what the thread did happens before `wait` returns.
        if self.running.fetch_sub(1, Ordering::Release) == 1
            && let Some(waiters) = wait_queue::grant_all(self.key(), Token(0), || true)
        {
            waiters.wake_all();
        }
    }

    fn wait(&self) {
        // Acquire: pairs with `uncount`.
        while self.running.load(Ordering::Acquire) != 0 {
            // Relaxed: `uncount` lowers the count before it takes the queue lock, which is held here.
            let some_run = || self.running.load(Ordering::Relaxed) != 0;
            let _ = wait_queue::wait(self.key(), &Options::new(WaitReason::Scope, None), some_run, || ());
        }
    }
}

impl Ending for Arc<Shared> {
    const AWAITED: bool = true;

    fn begins(&self, me: ThreadRef) {
        if ledger::is_on() {
            ledger::waits_for(self.key(), me);
        }
    }

    fn ended(self, me: ThreadRef, unread_panic: bool) {
        if ledger::is_on() {
            // Before it is uncounted: from then on the scope does not wait for it, though it may run, and wait, for long.
            ledger::waits_no_more(self.key(), me);
        }
        if unread_panic {
            // Relaxed: published by `uncount`.
            self.unread_panic.store(true, Ordering::Relaxed);
        }
        self.uncount();
    }
}

/// A scope to spawn threads in that may borrow what outlives it; see [`scope()`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    /// Invariant in `'scope`: else a scope could be shortened, and its threads borrow what ends too early.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a [`Scope`], and returns once all threads spawned in it have ended.
///
/// The threads start on the runtime of the thread that spawns them, and may borrow whatever outlives the call.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let mut ends = [1, 2];
/// thread::scope(|s| {
///     for end in &mut ends {
///         s.spawn(|| *end *= 10);
///     }
/// });
/// assert_eq!(ends, [10, 20]);
/// ```
///
/// # Panics
///
/// If a thread of the scope panicked and was not joined, with the message "a scoped thread panicked". If `f` panics, its
/// panic goes on once all threads have ended.
///
/// # Blocks
///
/// The running thread, until all threads of the scope have ended. Their thread-local destructors may run later; join
/// them to wait for those too.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { shared: Arc::<Shared>::default(), scope: PhantomData, env: PhantomData };
    if ledger::is_on() {
        // Left there by who has forgotten a guard of a lock that lay there before.
        ledger::clear(scope.shared.key());
    }
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.shared.wait();
    match result {
        Err(panic) => resume_unwind(panic),
        // Relaxed: `wait` has synchronized with every thread, and handles are dropped inside `f` or in such a thread.
        Ok(_) if scope.shared.unread_panic.load(Ordering::Relaxed) => panic!("a scoped thread panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread in this scope, on the runtime of the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// let text = String::from("warp and weft");
    /// let words = thread::scope(|s| s.spawn(|| text.split(' ').count()).join().unwrap());
    /// assert_eq!(words, 3);
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread cannot be started; [`Builder::spawn_scoped`] gives an error instead.
    ///
    /// # Blocks
    ///
    /// As [`Builder::spawn`].
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).expect("failed to spawn thread")
    }

    pub(super) fn spawn_with<F, T>(
        &'scope self,
        ambient: &dyn Ambient,
        options: &mut SpawnOptions,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        /// Uncounts a thread that did not start, also if dropping its closure panics.
        struct Counted<'a>(&'a Shared);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.uncount();
            }
        }
        self.shared.count();
        let counted = Counted(&self.shared);
        // SAFETY: `F` and `T` are `Send`; `scope` does not return before the count that `ended` lowers is zero.
        let joining = unsafe { spawn_unchecked(ambient, options, f, Arc::clone(&self.shared)) }?;
        std::mem::forget(counted);
        Ok(ScopedJoinHandle { joining: Some(joining), shared: &self.shared })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.shared.running).finish_non_exhaustive()
    }
}

/// The right to join a thread of a scope. Dropped, it leaves the waiting to the scope.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let numbers = [1, 2, 3];
/// let sum = thread::scope(|s| s.spawn(|| numbers.iter().sum::<i32>()).join().unwrap());
/// assert_eq!(sum, 6);
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    /// `None` once joined.
    joining: Option<Joining<T>>,
    shared: &'scope Shared,
}

impl<T> ScopedJoinHandle<'_, T> {
    fn joining(&self) -> &Joining<T> {
        self.joining.as_ref().expect("joined only by value")
    }

    /// The thread that this handle joins.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// thread::scope(|s| s.spawn(thread::park).thread().unpark());
    /// ```
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.joining().thread()
    }

    /// Waits for the thread to end, its thread-local destructors included, and gives what it returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// let result = thread::scope(|s| s.spawn(|| 42).join());
    /// assert_eq!(result.unwrap(), 42);
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// The payload of the panic that ended the thread; the scope then does not panic for it.
    ///
    /// # Blocks
    ///
    /// The calling thread, until the other has ended.
    pub fn join(mut self) -> super::Result<T> {
        self.take().join()
    }

    fn take(&mut self) -> Joining<T> {
        self.joining.take().expect("joined only by value")
    }

    /// What remains if the thread has not ended.
    fn keep(&self, joining: Joining<T>) -> Self {
        Self { joining: Some(joining), shared: self.shared }
    }

    /// [`JoinHandle::join_timeout`](super::JoinHandle::join_timeout) in a scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    /// use std::time::Duration;
    ///
    /// thread::scope(|s| {
    ///     let handle = s.spawn(thread::park);
    ///     let handle = handle.join_timeout(Duration::from_millis(1)).expect_err("still parked");
    ///     handle.thread().unpark();
    ///     assert!(handle.join_timeout(Duration::from_secs(60)).is_ok());
    /// });
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
    /// As there.
    pub fn join_timeout(self, timeout: Duration) -> Result<super::Result<T>, Self> {
        self.join_by(time::after(timeout))
    }

    /// [`JoinHandle::join_until`](super::JoinHandle::join_until) in a scope.
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// As [`join_timeout`](Self::join_timeout).
    ///
    /// # Blocks
    ///
    /// As there.
    pub fn join_until(self, deadline: Instant) -> Result<super::Result<T>, Self> {
        self.join_by(Some(deadline))
    }

    fn join_by(mut self, deadline: Option<Instant>) -> Result<super::Result<T>, Self> {
        let joining = self.take();
        joining.join_until(deadline).map_err(|joining| self.keep(joining))
    }

    /// [`JoinHandle::join_interruptible`](super::JoinHandle::join_interruptible) in a scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// thread::scope(|s| {
    ///     let handle = s.spawn(|| 1);
    ///     thread::current().interrupt();
    ///     let handle = handle.join_interruptible().expect_err("interrupted");
    ///     assert_eq!(handle.join_interruptible().expect("not again").unwrap(), 1);
    /// });
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
    /// As there.
    pub fn join_interruptible(mut self) -> Result<super::Result<T>, Self> {
        let joining = self.take();
        joining.join_interruptible().map_err(|joining| self.keep(joining))
    }

    /// [`JoinHandle::join_interruptible_timeout`](super::JoinHandle::join_interruptible_timeout) in a scope.
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
    /// As there.
    pub fn join_interruptible_timeout(
        self,
        timeout: Duration,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        self.join_interruptible_by(time::after(timeout))
    }

    /// [`JoinHandle::join_interruptible_until`](super::JoinHandle::join_interruptible_until) in a scope.
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
    /// As there.
    pub fn join_interruptible_until(
        self,
        deadline: Instant,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        self.join_interruptible_by(Some(deadline))
    }

    fn join_interruptible_by(
        mut self,
        deadline: Option<Instant>,
    ) -> Result<Result<super::Result<T>, Self>, (Self, Interrupted)> {
        let joining = self.take();
        match joining.join_interruptible_until(deadline) {
            Ok(ended) => Ok(ended.map_err(|joining| self.keep(joining))),
            Err((joining, error)) => Err((self.keep(joining), error)),
        }
    }

    /// Whether the thread has ended, its thread-local destructors included, so that `join` would not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// thread::scope(|s| {
    ///     let parked = s.spawn(thread::park);
    ///     assert!(!parked.is_finished());
    ///     parked.thread().unpark();
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.joining().is_finished()
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(joining) = self.joining.take()
            && joining.abandon()
        {
            // Relaxed: the handle is dropped in the scope's own closure or in one of its threads, before `wait` returns.
            self.shared.unread_panic.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_scope.rs"]
mod loom_scope;
