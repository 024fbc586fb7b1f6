//! `TaskHandle`: the right to wait for a task and to take its value.

use super::control::Control;
use crate::park::wait::WaitError;
use crate::thread::current::Thread;
use crate::thread::scope::ScopedJoinHandle;

/// The right to join a task of a [`TaskGroup`](super::TaskGroup). If it is dropped, the group waits for the
/// task.
///
/// # Examples
///
/// ```
/// use selvedge::{WaitError, thread};
///
/// let numbers = [1, 2, 3];
/// let sum = thread::task_group(|group| group.spawn(|| Ok(numbers.iter().sum::<i32>())).join())?;
/// assert_eq!(sum, 6);
/// # Ok::<_, WaitError>(())
/// ```
pub struct TaskHandle<'scope, T> {
    /// `None` if the task was not started.
    joining: Option<ScopedJoinHandle<'scope, Option<T>>>,
    control: &'scope Control,
}

impl<'scope, T> TaskHandle<'scope, T> {
    pub(super) fn new(joining: ScopedJoinHandle<'scope, Option<T>>, control: &'scope Control) -> Self {
        Self { joining: Some(joining), control }
    }

    pub(super) fn not_started(control: &'scope Control) -> Self {
        Self { joining: None, control }
    }

    /// Waits for the task to end, its thread-local destructors included, and returns its value.
    ///
    /// # Panics
    ///
    /// If the task joins itself.
    ///
    /// # Errors
    ///
    /// The group is cancelled if this returns an error. A task's own error goes to the group.
    ///
    /// - [`WaitError::TimedOut`], if the group's deadline has passed.
    /// - [`WaitError::Interrupted`], if the task has failed or was not started, or the calling thread was
    ///   interrupted.
    ///
    /// # Blocks
    ///
    /// The calling thread, until the task has ended, or the group's deadline or an interrupt ends the wait.
    pub fn join(self) -> Result<T, WaitError> {
        let Some(joining) = self.joining else { return Err(self.control.why()) };
        let joined = if joining.is_finished() {
            joining.join()
        } else {
            joining.join_with(self.control.wait()).map_err(|(_joining, why)| {
                self.control.cancel_by(why);
                why
            })?
        };
        match joined {
            Ok(value) => value.ok_or_else(|| self.control.why()),
            // Of the drop of an error, or of a thread of the parent process.
            Err(payload) => {
                self.control.panicked(payload);
                Err(self.control.why())
            }
        }
    }

    crate::shown::getters! {
        /// Returns the thread of the task, or `None` if the task was not started because the group was
        /// cancelled.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::{Wait, WaitError, thread};
        ///
        /// let interrupted = thread::task_group(|group| {
        ///     let task = group.spawn(|| thread::park_with(Wait::within(group)));
        ///     task.thread().expect("it runs").interrupt();
        ///     task.join()
        /// });
        /// assert_eq!(interrupted, Err(WaitError::Interrupted));
        /// ```
        fn thread(&self) -> Option<&Thread> = self.joining.as_ref().map(ScopedJoinHandle::thread);
        /// Returns `true` if the task has ended, or was not started, so that `join` would not wait.
        fn is_finished(&self) -> bool = self.joining.as_ref().is_none_or(ScopedJoinHandle::is_finished);
    }
}

crate::shown::debug! { [T] TaskHandle<'_, T>: "TaskHandle", "thread": |handle| handle.thread() }
