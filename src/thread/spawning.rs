//! Threads that a runtime starts for itself: short ones, and those that std or the C library starts.
//!
//! When an awaited thread has ended, a new thread of its runtime calls the waker: the ended one has no
//! thread-locals any more. Why it is a new thread stands in `park/exit.rs`.

use std::io;
use std::sync::Arc;

use super::task::spawn_unchecked;
use crate::park::backend::{SpawnOptions, Spawner};
use crate::park::exit::Awaiter;
use crate::park::task_sleep::contained;

/// Starts a thread on `spawner`, with these options, which are valid.
pub(crate) fn spawn_on<F, T>(
    spawner: &dyn Spawner,
    options: &mut SpawnOptions,
    f: F,
) -> io::Result<super::handle::JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
    unsafe { spawn_unchecked(spawner, options, f, ()) }.map(super::handle::JoinHandle::new)
}

/// Runs `f` as a thread of `spawner` that is not waited for.
pub(crate) fn spawn_detached<F>(spawner: &dyn Spawner, f: F) -> io::Result<()>
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: `F` is `Send`, and borrows nothing that ends.
    unsafe { spawn_unchecked(spawner, &mut SpawnOptions::default(), f, ()) }.map(drop)
}

/// Wakes a future when it is dropped. If no thread can be started, it is dropped in the thread that has
/// ended: late, but not never.
struct Wakes(Option<Arc<Awaiter>>);

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(awaiter) = self.0.take() {
            // The drop of a waker runs code of the user's, too.
            contained(move || awaiter.wake());
        }
    }
}

/// Has a new thread of the runtime wake what awaits the thread that calls, which has ended.
#[cold]
pub(crate) fn hand_over(spawner: &dyn Spawner, awaiter: Arc<Awaiter>) {
    let ended = awaiter.thread();
    let wakes = Wakes(Some(awaiter));
    let _ = spawn_detached(spawner, move || {
        if ended.is_kernel() {
            // So that the future need not wait for it.
            ended.pool().joined(ended);
        }
        drop(wakes);
    });
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::park::core_pool;

    /// No thread could be started. The ended thread has no code that could handle a panic.
    #[test]
    fn a_waker_that_panics_when_it_is_dropped_is_contained() {
        struct Bomb;
        impl Wake for Bomb {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("as the test wants");
            }
        }
        let thread = core_pool::take(1, None, None);
        let waker = Waker::from(Arc::new(Bomb));
        let awaiter = Awaiter::new(thread, &waker);
        assert!(!Waker::noop().will_wake(&waker));
        drop(waker);
        drop(Wakes(Some(awaiter)));
        assert!(thread.release_was_last());
        thread.pool().recycle(thread);
    }
}
