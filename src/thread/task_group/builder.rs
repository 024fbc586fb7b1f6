//! `TaskGroupBuilder`: the options of a group, and its run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::control::Control;
use super::members::Cause;
use super::{TaskGroup, inherited};
use crate::park::current::current;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::wait::WaitError;
use crate::thread::scope::Scope;
use crate::time;

/// Sets up a group of tasks: its deadline, and how many threads may run at once.
///
/// # Examples
///
/// ```
/// use selvedge::thread::{self, TaskGroupBuilder};
/// use selvedge::{Wait, WaitError};
/// use std::time::Duration;
///
/// let slow = TaskGroupBuilder::new().timeout(Duration::from_millis(5)).run(|group| {
///     group.spawn(|| thread::park_with(Wait::forever().interruptible()));
///     Ok(())
/// });
/// assert_eq!(slow, Err(WaitError::TimedOut));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it runs"]
pub struct TaskGroupBuilder {
    deadline: Option<Instant>,
    limit: Option<usize>,
}

impl TaskGroupBuilder {
    /// Creates options for a group without a deadline of its own and without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the group at `deadline`, or at the earliest of several.
    ///
    /// No thread is started to watch it. It ends these waits:
    ///
    /// - the wait of the thread that runs the group, once its closure has returned
    /// - [`TaskGroup::spawn`] and [`TaskHandle::join`](super::TaskHandle::join)
    /// - waits with [`Wait::within`](crate::Wait::within)
    ///
    /// So if the closure waits for long in another way, the tasks are interrupted late.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = sooner(self.deadline, Some(deadline));
        self
    }

    /// Cancels the group `timeout` from now. If the clock cannot count so far, this changes nothing.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = sooner(self.deadline, time::after(timeout));
        self
    }

    /// Lets at most `threads` tasks run at once. [`TaskGroup::spawn`] waits until there is room.
    ///
    /// A task that spawns into its own group keeps its place meanwhile. If all do so, they wait for each
    /// other.
    ///
    /// # Panics
    ///
    /// If `threads` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::TaskGroupBuilder;
    /// use std::io;
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    /// TaskGroupBuilder::new().limit(2).run(|group| {
    ///     for _ in 0..10 {
    ///         group.spawn(|| {
    ///             most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
    ///             running.fetch_sub(1, SeqCst);
    ///             Ok(())
    ///         });
    ///     }
    ///     io::Result::Ok(())
    /// })?;
    /// assert!(most.into_inner() <= 2);
    /// # io::Result::Ok(())
    /// ```
    pub fn limit(mut self, threads: usize) -> Self {
        assert!(threads != 0, "a group with a limit of 0 could run no task");
        self.limit = Some(threads);
        self
    }

    /// Runs `f` with a group that has these options, as [`task_group`](super::task_group()) does.
    ///
    /// # Errors
    ///
    /// As [`task_group`](super::task_group()); [`WaitError::TimedOut`], as an `E`, also if the group's own
    /// deadline passed first.
    ///
    /// # Panics
    ///
    /// As [`task_group`](super::task_group()).
    ///
    /// # Blocks
    ///
    /// As [`task_group`](super::task_group()).
    pub fn run<'env, F, T, E>(self, f: F) -> Result<T, E>
    where
        F: for<'scope> FnOnce(&'scope TaskGroup<'scope, 'env, E>) -> Result<T, E>,
        E: From<WaitError> + Send + 'env,
    {
        let me = current();
        let deadline = sooner(self.deadline, inherited::deadline(me));
        let group = TaskGroup {
            scope: Scope::new(),
            control: Control::new(deadline, self.limit),
            error: QueueLock::new(Rank::Pool, None),
        };
        // Nothing may unwind from here until all threads have ended.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let value = inherited::with(me, deadline, || f(&group))?;
            if let Err(why) = group.scope.wait_with(group.control.wait()) {
                group.control.cancel_by(why);
            }
            Ok(value)
        }));
        let (result, _late) = match result {
            Ok(Ok(value)) => (Ok(Some(value)), None),
            Ok(Err(error)) => (Ok(None), group.fail(error)),
            Err(payload) => {
                group.control.members.cancel(Cause::Panicked);
                (Err(payload), None)
            }
        };
        group.scope.wait();
        let value = result.unwrap_or_else(|payload| resume_unwind(payload));
        if let Some(payload) = group.control.take_panic() {
            resume_unwind(payload);
        }
        group.scope.panic_if_one_has();
        match group.control.members.cause() {
            None => Ok(value.expect("an error of the closure cancels the group")),
            Some(Cause::Failed) => Err(group.error.with(Option::take).expect("stored by the task")),
            Some(_) => Err(group.control.why().into()),
        }
    }
}

/// Returns the earlier of two deadlines.
fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}
