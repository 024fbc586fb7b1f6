//! `TaskGroup`: threads that end together.
//!
//! A group is a [`scope`](super::scope()) in which threads return results. So soundness is the scope's:
//! nothing that the threads borrow ends before they do. What a group adds is when they are told to end, and
//! why:
//!
//! - The first error, panic, interrupt or deadline cancels the group. One word says which it was, and the
//!   party that sets it interrupts all threads that run tasks (`members.rs`).
//! - No thread watches the deadline. It is the limit of each wait in the group. These are the wait for the
//!   end, joins, and the waits that a task makes with `Wait::within`. The first join or wait for the end that
//!   ends by it cancels the group. A task or a closure that ends later than that does so, too, and so does a
//!   thread that asks if the group is cancelled.
//! - A group inherits the deadline of the group in which its thread is (`inherited.rs`). An interrupt needs
//!   no such inheritance: it ends the inner group's wait, which cancels the inner group.
//!
//! After a group is cancelled, its owner waits for the threads without a limit, as a scope does, and leaves
//! interrupts to its next wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::builder::Builder;
use super::scope::Scope;
use crate::park::current::current;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::wait::{Wait, WaitError};
use crate::recorder::crash;
use crate::time::{self, Moment};

mod control;
mod handle;
mod inherited;
mod members;
mod places;

use self::control::Control;
pub use self::handle::TaskHandle;
use self::members::Cause;

/// Runs `f` with a [`TaskGroup`], without a deadline of its own and without a limit on the number of threads.
/// [`TaskGroupBuilder`] sets these.
///
/// Returns once all tasks of the group have ended: what `f` has returned, or the first error. This function
/// and the type of `f` are those of [`scope`](super::scope()), apart from the results.
///
/// # Examples
///
/// ```
/// use selvedge::{Wait, thread};
/// use std::io;
///
/// let sizes = [1, 2, 3];
/// let sum = thread::task_group(|group| {
///     let halves = sizes.each_ref().map(|size| group.spawn(move || io::Result::Ok(size * 10)));
///     let mut sum = 0;
///     for half in halves {
///         sum += half.join()?;
///     }
///     io::Result::Ok(sum)
/// });
/// assert_eq!(sum?, 60);
///
/// // The first error interrupts the other tasks, and is the result. Any type of error will do.
/// type Failure = Box<dyn std::error::Error + Send + Sync>;
/// let failed: Result<(), Failure> = thread::task_group(|group| {
///     group.spawn(|| Ok(thread::sleep_with(Wait::forever().interruptible())?));
///     group.spawn(|| Err::<(), _>(format!("{} sizes are too few", sizes.len()).into()));
///     Ok(())
/// });
/// assert_eq!(failed.unwrap_err().to_string(), "3 sizes are too few");
/// # io::Result::Ok(())
/// ```
///
/// # Errors
///
/// - The error of the first task that failed, or of `f` if that was earlier.
/// - [`WaitError::TimedOut`], as an `E`, if the deadline of an outer group passed first.
/// - [`WaitError::Interrupted`], as an `E`, if a thread was interrupted first while it waited in the group.
///
/// # Panics
///
/// With the payload of the first task that panicked. If `f` panics, its panic goes on once all tasks have
/// ended.
///
/// # Blocks
///
/// The running thread, until all tasks have ended.
pub fn task_group<'env, F, T, E>(f: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope TaskGroup<'scope, 'env, E>) -> Result<T, E>,
    E: From<WaitError> + Send + 'env,
{
    TaskGroupBuilder::new().run(f)
}

/// A group of tasks, each on a thread of its own, that may borrow what outlives the group. See
/// [`task_group`].
///
/// A group is *cancelled* by the first of these:
///
/// - A task, or the closure that runs the group, returns an error, or panics.
/// - The group's deadline passes.
/// - A thread is [interrupted](super::Thread::interrupt) while it waits in the group: in
///   [`spawn`](Self::spawn), in [`TaskHandle::join`], or for the end of the group.
///
/// The threads of all tasks are then interrupted, once. This ends their interruptible waits. Tasks that have
/// not begun do not run. A task that computes can ask [`is_cancelled`](Self::is_cancelled). The group waits
/// for all of them in any case. What they return after that is dropped.
///
/// The closure that runs the group is not interrupted, because its thread's interrupts are the caller's. It
/// should wait by `join`, or with [`Wait::within`]. The latter does not end there if a task fails. If the
/// group is cancelled before that thread is interrupted, the thread keeps the interrupt for its next wait
/// outside the group.
///
/// Groups nest. A group that is run by a task, or by another group's closure, has the earlier of both
/// deadlines. If the task is interrupted while it waits in the inner group, that is cancelled, too.
// `E: 'env`: the tasks use an `E`, so the compiler knows that `E` outlives `'scope`, as `'env` does. If it
// did not know which of the two is longer, it would ask what the tasks borrow to outlive both. An `E` that
// has a lifetime may be `Box<dyn Error + 'static>`.
pub struct TaskGroup<'scope, 'env, E: 'env> {
    scope: Scope<'scope, 'env>,
    control: Control,
    /// The error that has cancelled the group.
    error: QueueLock<Option<E>>,
}

impl<'scope, E> TaskGroup<'scope, '_, E> {
    /// Starts a task in this group, on the runtime of the calling thread.
    ///
    /// If the group is cancelled, or is cancelled while this waits for room, `f` is dropped and does not run.
    /// To join it is then an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    /// use std::io;
    ///
    /// let text = String::from("warp and weft");
    /// let words = thread::task_group(|group| {
    ///     // Tasks may start others.
    ///     let words = group.spawn(|| Ok(group.spawn(|| io::Result::Ok(text.split(' ').count())).join()?));
    ///     Ok(words.join()?)
    /// });
    /// assert_eq!(words?, 3);
    /// # io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread cannot be started. [`spawn_with`](Self::spawn_with) returns an error instead.
    ///
    /// # Blocks
    ///
    /// The calling thread, until fewer tasks run than the [limit](TaskGroupBuilder::limit) allows; and as
    /// [`Builder::spawn`].
    pub fn spawn<F, T>(&'scope self, f: F) -> TaskHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send + 'scope,
    {
        self.spawn_with(Builder::new(), f).expect("failed to spawn thread")
    }

    /// Starts a task in this group, on a thread that `builder` describes.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, Builder};
    /// use std::io;
    ///
    /// thread::task_group(|group| {
    ///     let name = || io::Result::Ok(thread::current().name().map(str::to_owned));
    ///     let named = group.spawn_with(Builder::new().name("shuttle".into()), name)?;
    ///     assert_eq!(named.join()?.as_deref(), Some("shuttle"));
    ///     io::Result::Ok(())
    /// })?;
    /// # io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    ///
    /// # Blocks
    ///
    /// As [`spawn`](Self::spawn).
    pub fn spawn_with<F, T>(&'scope self, builder: Builder, f: F) -> io::Result<TaskHandle<'scope, T>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send + 'scope,
    {
        let control = &self.control;
        let Some(place) = control.admit() else {
            return Ok(TaskHandle::not_started(control));
        };
        let run = move || {
            // Given back before the scope lets the group go.
            let _place = place;
            self.run_task(f)
        };
        Ok(TaskHandle::new(builder.spawn_scoped(&self.scope, run)?, control))
    }

    /// Runs a task. Called by its thread.
    fn run_task<T>(&self, f: impl FnOnce() -> Result<T, E>) -> Option<T> {
        let me = current();
        let run = || inherited::with(me, self.control.deadline, || catch_unwind(AssertUnwindSafe(f)));
        match self.control.members.run(me, run)? {
            Ok(Ok(value)) => {
                // If it is late, it may be the last that could tell.
                let _ = self.control.is_cancelled();
                return Some(value);
            }
            Ok(Err(error)) => drop(self.fail(error)),
            Err(payload) => {
                crash::write(crash::Reason::Panic);
                self.control.panicked(payload);
            }
        }
        None
    }

    /// Cancels the group for an error. Returns the error if that was not the first reason.
    fn fail(&self, error: E) -> Option<E> {
        if !self.control.members.cancel(Cause::Failed) {
            return Some(error);
        }
        self.error.with(|first| first.replace(error))
    }

    /// Returns `true` if the group is cancelled, or its deadline has passed. For tasks that compute.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    /// use std::io;
    ///
    /// let failed: io::Result<()> = thread::task_group(|group| {
    ///     group.spawn(|| {
    ///         while !group.is_cancelled() {
    ///             thread::yield_now(); // compute
    ///         }
    ///         Ok(())
    ///     });
    ///     Err(io::Error::other("not needed any more"))
    /// });
    /// assert!(failed.is_err());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Returns the moment at which the group is cancelled: the earlier one of its own deadline and that of
    /// the group outside.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, TaskGroupBuilder};
    /// use selvedge::WaitError;
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// TaskGroupBuilder::new().deadline(deadline).run(|outer| {
    ///     outer.spawn(|| {
    ///         thread::task_group(|inner| {
    ///             assert_eq!(inner.deadline(), Some(deadline));
    ///             Ok(())
    ///         })
    ///     });
    ///     Ok::<_, WaitError>(())
    /// })?;
    /// # Ok::<_, WaitError>(())
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.control.deadline
    }
}

impl Wait {
    /// Creates a wait for use in a [`TaskGroup`]: it ends at the group's deadline, if there is one, and is
    /// interruptible. In a task, that ends it when the group is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Wait, WaitError, channel, thread};
    ///
    /// let failed = thread::task_group(|group| {
    ///     let (_sender, receiver) = channel::unbounded::<u32>();
    ///     group.spawn(move || Ok(assert!(receiver.recv_with(Wait::within(group)).is_err())));
    ///     Err::<(), _>(WaitError::TimedOut)
    /// });
    /// assert!(failed.is_err());
    /// ```
    pub fn within<E>(group: &TaskGroup<'_, '_, E>) -> Self {
        group.control.wait()
    }
}

crate::shown::debug! {
    [E] TaskGroup<'_, '_, E>: "TaskGroup",
    "scope": |group| &group.scope,
    "deadline": |group| group.control.deadline,
    "cancelled": |group| group.control.members.cause()
}

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
    /// - [`TaskGroup::spawn`] and [`TaskHandle::join`]
    /// - waits with [`Wait::within`](crate::Wait::within)
    ///
    /// The end of a task or of the closure notices it, too, and so does [`TaskGroup::is_cancelled`]. If the
    /// closure waits for long in another way, and no task ends, the tasks are interrupted late.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = sooner(self.deadline, Some(deadline));
        self
    }

    /// Cancels the group `timeout` from now. If the clock cannot count so far, this changes nothing.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = sooner(self.deadline, time::after(timeout).and_then(Moment::instant));
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

    /// Runs `f` with a group that has these options, as [`task_group`](task_group()) does.
    ///
    /// # Errors
    ///
    /// As [`task_group`](task_group()); [`WaitError::TimedOut`], as an `E`, also if the group's own
    /// deadline passed first.
    ///
    /// # Panics
    ///
    /// As [`task_group`](task_group()).
    ///
    /// # Blocks
    ///
    /// As [`task_group`](task_group()).
    pub fn run<'env, F, T, E>(self, f: F) -> Result<T, E>
    where
        F: for<'scope> FnOnce(&'scope TaskGroup<'scope, 'env, E>) -> Result<T, E>,
        E: From<WaitError> + Send + 'env,
    {
        let me = current();
        let deadline = sooner(self.deadline, inherited::deadline(me));
        let group = TaskGroup {
            scope: Scope::new(),
            control: Control::new(me, deadline, self.limit),
            error: QueueLock::new(Rank::Pool, None),
        };
        // Nothing may unwind from here until all threads have ended.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let value = inherited::with(me, deadline, || f(&group))?;
            // As for a task: if it is late, no wait may tell.
            let _ = group.control.is_cancelled();
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
