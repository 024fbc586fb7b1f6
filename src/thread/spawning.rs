//! How a thread is started, whatever it is for: its closure becomes a task, and its handle a claim on the
//! result.

use std::io;

use super::current::Thread;
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
use super::handle::JoinHandle;
use super::handle::Joining;
use super::task::{Ending, NewTask};
use crate::park::backend::{SpawnOptions, Spawner};

/// Starts a thread on `spawner`.
///
/// # Safety
/// `f` and `T` are fit to be used on another thread, and what they borrow is alive until `ending` is told.
pub(super) unsafe fn spawn_unchecked<F, T, E>(
    spawner: &dyn Spawner,
    options: &mut SpawnOptions,
    f: F,
    ending: E,
) -> io::Result<Joining<T>>
where
    F: FnOnce() -> T,
    E: Ending,
{
    let mut new_task = NewTask::new(f, ending);
    // SAFETY: the caller's promise.
    let task = unsafe { new_task.task() };
    let core = spawner.spawn(task, options)?;
    Ok(Joining::new(Thread::from_counted(core), new_task.into_result_cell()))
}

/// Starts a thread on `spawner`, with these options, which are valid.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn spawn_on<F, T>(
    spawner: &dyn Spawner,
    options: &mut SpawnOptions,
    f: F,
) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
    unsafe { spawn_unchecked(spawner, options, f, ()) }.map(JoinHandle::new)
}

/// Runs `f` as a thread of `spawner` that is not waited for.
pub(crate) fn spawn_detached<F>(spawner: &dyn Spawner, f: F) -> io::Result<()>
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: `F` is `Send`, and borrows nothing that ends.
    unsafe { spawn_unchecked(spawner, &mut SpawnOptions::default(), f, ()) }.map(drop)
}
