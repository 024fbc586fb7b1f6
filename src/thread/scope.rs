//! `scope`: threads that borrow from the stack of the thread that waits for them.
//!
//! Soundness rests on one count. A scoped thread is counted before it starts. It is uncounted when its
//! closure is gone and its result is dropped, or belongs to a handle, which cannot outlive the scope.
//! `scope` returns, or unwinds, only once the count is zero. Thread-local destructors may run later: they
//! can hold nothing that is borrowed from the scope.
//!
//! The waiter sleeps on a wait queue with the count's address as its key. It does not sleep on its permit,
//! so a permit that is posted to it meanwhile is not used up. Each thread shares the count (`Arc`), so the
//! address is still the count's when the last thread wakes the waiter. If the address had been used again,
//! the wake-up would give an unrelated waiter something that it did not wait for.

use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::builder::Builder;
use super::current::Thread;
use super::handle::Joining;
use super::task::{self, Ending, spawn_unchecked};
use crate::observe::lock_owners;
use crate::park::backend::{SpawnOptions, Spawner};
use crate::park::observed;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError, timed};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the threads of a scope share with it.
#[derive(Default)]
struct Shared {
    /// Threads that may still use what they borrowed.
    running: AtomicUsize,
    /// Set if one of them panicked and was not joined.
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
        let endless = self.wait_with(Wait::forever());
        debug_assert!(endless.is_ok());
    }

    /// Waits until the count is zero, unless `wait` ends before. If an interrupt ends the wait, the caller's
    /// flag is still set.
    fn wait_with(&self, wait: Wait) -> Result<(), WaitError> {
        // Acquire: pairs with `uncount`.
        while self.running.load(Ordering::Acquire) != 0 {
            // Relaxed: `uncount` lowers the count before it takes the queue lock, which is held here.
            let some_run = || self.running.load(Ordering::Relaxed) != 0;
            let options = Options::new(WaitReason::Scope, wait);
            if let Ok(Woken::Ended { why, .. }) = wait_queue::wait_while(self.key(), &options, some_run) {
                return Err(why);
            }
        }
        Ok(())
    }
}

impl Ending for Arc<Shared> {
    const AWAITED: bool = true;

    fn begins(&self, me: ThreadRef) {
        if observed::are_owners_recorded() {
            lock_owners::waits_for(self.key(), me);
        }
    }

    fn ended(self, me: ThreadRef, unread_panic: bool) {
        if observed::are_owners_recorded() {
            // Before it is uncounted: from then on the scope does not wait for it, though it may still run,
            // and wait, for long.
            lock_owners::waits_no_more(self.key(), me);
        }
        if unread_panic {
            // Relaxed: published by `uncount`.
            self.unread_panic.store(true, Ordering::Relaxed);
        }
        self.uncount();
    }
}

/// A scope for threads that may borrow what outlives it. See [`scope()`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    /// Invariant in `'scope`. Otherwise a scope could be shortened, and its threads could borrow what ends
    /// too early.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a [`Scope`], and returns once all threads spawned in it have ended.
///
/// The threads start on the runtime of the thread that spawns them, and may borrow whatever outlives the
/// call.
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
/// If a thread of the scope panicked and was not joined, with the message "a scoped thread panicked". If `f`
/// panics, its panic goes on once all threads have ended.
///
/// # Blocks
///
/// The running thread, until all threads of the scope have ended. Their thread-local destructors may run
/// later; join them to wait for those too.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope::new();
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.shared.wait();
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(value) => {
            scope.panic_if_one_has();
            value
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Creates a scope without threads. Before it ends, its owner calls `wait`.
    pub(super) fn new() -> Self {
        let shared = Arc::<Shared>::default();
        if observed::are_owners_recorded() {
            // Left by a forgotten guard of a lock that had this address before.
            lock_owners::clear(shared.key());
        }
        Self { shared, scope: PhantomData, env: PhantomData }
    }

    /// Waits until all threads have ended.
    pub(super) fn wait(&self) {
        self.shared.wait();
    }

    /// Waits until all threads have ended, unless `wait` ends before. If none runs, an interrupt that came
    /// before is left alone.
    pub(super) fn wait_with(&self, wait: Wait) -> Result<(), WaitError> {
        // Acquire: pairs with `uncount`.
        if self.shared.running.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        wait.run(|wait| self.shared.wait_with(wait))
    }

    /// Panics if a thread has panicked that was not joined. Called after `wait`.
    pub(super) fn panic_if_one_has(&self) {
        // Relaxed: `wait` has synchronized with every thread, and handles are dropped before it, or in such
        // a thread.
        if self.shared.unread_panic.load(Ordering::Relaxed) {
            panic!("a scoped thread panicked");
        }
    }

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
    /// If the thread cannot be started. [`Builder::spawn_scoped`] returns an error instead.
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
        spawner: &dyn Spawner,
        options: &mut SpawnOptions,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        /// Uncounts a thread that did not start, even if the drop of its closure panics.
        struct Counted<'a>(&'a Shared);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.uncount();
            }
        }
        self.shared.count();
        let counted = Counted(&self.shared);
        // SAFETY: `F` and `T` are `Send`; `scope` does not return before the count that `ended` lowers is
        // zero.
        let joining = unsafe { spawn_unchecked(spawner, options, f, Arc::clone(&self.shared)) }?;
        std::mem::forget(counted);
        Ok(ScopedJoinHandle { joining: Some(joining), shared: &self.shared })
    }
}

crate::shown::debug! { [] Scope<'_, '_>: "Scope", "running": |scope| &scope.shared.running }

/// The right to join a thread of a scope. If it is dropped, the scope waits for the thread.
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

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    fn joining(&self) -> &Joining<T> {
        self.joining.as_ref().expect("joined only by value")
    }

    /// Returns the thread that this handle joins.
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

    /// Waits for the thread to end, its thread-local destructors included, and returns its result.
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
    pub fn join(mut self) -> task::Result<T> {
        self.take().join()
    }

    fn take(&mut self) -> Joining<T> {
        self.joining.take().expect("joined only by value")
    }

    /// Returns what the future of the thread is made of.
    pub(super) fn into_parts(mut self) -> (Joining<T>, Unread<'scope>) {
        (self.take(), Unread(self.shared))
    }

    timed! {
        join
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
        pub fn join_timeout, join_until(self) -> Result<task::Result<T>, Self> {
            |limit| self.join_with(limit()).map_err(|(this, _)| this)
        }
    }

    /// Joins as [`JoinHandle::join_with`](super::JoinHandle::join_with) does, in a scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// thread::scope(|s| {
    ///     let handle = s.spawn(|| 1);
    ///     thread::current().interrupt();
    ///     let wait = Wait::forever().interruptible();
    ///     let (handle, why) = handle.join_with(wait).expect_err("interrupted");
    ///     assert_eq!(why, WaitError::Interrupted);
    ///     assert_eq!(handle.join_with(wait).expect("not again").unwrap(), 1);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join_with`](super::JoinHandle::join_with).
    ///
    /// # Blocks
    ///
    /// As [`JoinHandle::join_with`](super::JoinHandle::join_with).
    pub fn join_with(mut self, wait: Wait) -> Result<task::Result<T>, (Self, WaitError)> {
        match self.take().join_with(wait) {
            Ok(result) => Ok(result),
            Err((joining, why)) => {
                self.joining = Some(joining);
                Err((self, why))
            }
        }
    }

    /// Returns `true` if the thread has ended, its thread-local destructors included. Then `join` does not
    /// wait, except for a kernel thread to leave the kernel.
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

/// Where a scope is told of panics that nothing has seen.
pub(super) struct Unread<'scope>(&'scope Shared);

impl Unread<'_> {
    /// Notes that a result was dropped, and was a panic.
    pub(super) fn note(&self) {
        // Relaxed: the handle is dropped in the scope's own closure or in one of its threads, before
        // `wait` returns.
        self.0.unread_panic.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(joining) = self.joining.take()
            && joining.abandon()
        {
            Unread(self.shared).note();
        }
    }
}

crate::shown::debug! { [T] ScopedJoinHandle<'_, T>: "ScopedJoinHandle", "thread": |handle| handle.thread() }

#[cfg(all(test, loom))]
mod loom_scope;
