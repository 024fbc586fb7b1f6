//! A thread's end as a future. It puts a waker into the thread's exit word (`park/exit.rs`).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::handle::{JoinHandle, Joining};
use super::scope::{ScopedJoinHandle, Unread};
use super::task;
use crate::park::exit::Awaiter;
use crate::park::fork;

/// The end of a thread, as a future: what a [`JoinHandle`] is in `.await`.
///
/// Its output is what [`join`](JoinHandle::join) returns, after the same moment. Any executor may run it, and
/// [`future::block_on`](crate::future::block_on). If it is dropped before, the thread is detached.
///
/// The executor is told by a short thread that starts on the runtime of the awaited thread when that one has
/// ended. It is green, except on `onetoone`. If no such thread can be started, the ended thread calls the
/// waker itself, when its thread-locals are gone.
///
/// # Panics
///
/// If it is polled by the thread that it awaits, or again after it was ready.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime};
///
/// let tokio = tokio::runtime::Builder::new_current_thread().build()?;
/// let rt = Mxn::new()?;
/// let handle = rt.spawn(|| 6 * 7);
/// assert_eq!(tokio.block_on(async { handle.await.unwrap() }), 42);
/// # std::io::Result::Ok(())
/// ```
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct JoinFuture<T> {
    /// `None` once ready.
    joining: Option<Joining<T>>,
    /// What was put into the exit word last.
    awaiter: Option<Arc<Awaiter>>,
}

impl<T> JoinFuture<T> {
    fn new(joining: Joining<T>) -> Self {
        Self { joining: Some(joining), awaiter: None }
    }

    fn poll_end(&mut self, context: &Context<'_>) -> Poll<task::Result<T>> {
        let joining = self.joining.as_ref().expect("a join is polled after it was ready");
        if joining.is_lost() {
            drop(self.end());
            return Poll::Ready(Err(Box::new(fork::LOST)));
        }
        if !joining.is_finished() {
            if self.awaiter.as_ref().is_some_and(|awaiter| awaiter.will_wake(context.waker())) {
                return Poll::Pending;
            }
            let awaiter = Awaiter::new(joining.thread().core(), context.waker());
            self.leave();
            if awaiter.enter() {
                self.awaiter = Some(awaiter);
                return Poll::Pending;
            }
        }
        let ended = self.end().expect("it was there");
        Poll::Ready(ended.take())
    }

    /// Interrupts the thread, unless it has been seen to end.
    pub(crate) fn interrupt(&self) {
        if let Some(joining) = &self.joining {
            joining.thread().interrupt();
        }
    }

    /// Takes the waker out of the exit word, if it is there.
    fn leave(&mut self) {
        if let Some(awaiter) = self.awaiter.take() {
            awaiter.leave();
        }
    }

    /// Gives up the wait, and returns what it was for, unless it is over.
    fn end(&mut self) -> Option<Joining<T>> {
        self.leave();
        self.joining.take()
    }
}

impl<T> Future for JoinFuture<T> {
    type Output = task::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_end(context)
    }
}

// The result is in the thread's memory, and not in the future.
impl<T> Unpin for JoinFuture<T> {}

impl<T> Drop for JoinFuture<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

crate::shown::debug! {
    [T] JoinFuture<T>: "JoinFuture",
    "thread": |future| future.joining.as_ref().map(Joining::thread)
}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = task::Result<T>;
    type IntoFuture = JoinFuture<T>;

    fn into_future(self) -> JoinFuture<T> {
        JoinFuture::new(self.into_joining())
    }
}

/// The end of a thread of a scope, as a future: what a [`ScopedJoinHandle`] is in `.await`.
///
/// As [`JoinFuture`], except that the scope waits for a thread with a future that was dropped.
///
/// # Examples
///
/// ```
/// use selvedge::{future, thread};
///
/// let words = ["warp", "weft"];
/// let longest = thread::scope(|s| {
///     let longest = s.spawn(|| words.iter().map(|word| word.len()).max());
///     future::block_on(async { longest.await.unwrap() })
/// });
/// assert_eq!(longest, Some(4));
/// ```
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct ScopedJoinFuture<'scope, T> {
    future: JoinFuture<T>,
    unread: Unread<'scope>,
}

impl<T> Future for ScopedJoinFuture<'_, T> {
    type Output = task::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.poll_end(context)
    }
}

impl<T> Drop for ScopedJoinFuture<'_, T> {
    fn drop(&mut self) {
        if self.future.end().is_some_and(Joining::abandon) {
            self.unread.note();
        }
    }
}

impl<T> fmt::Debug for ScopedJoinFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.future.fmt(f)
    }
}

impl<'scope, T> IntoFuture for ScopedJoinHandle<'scope, T> {
    type Output = task::Result<T>;
    type IntoFuture = ScopedJoinFuture<'scope, T>;

    fn into_future(self) -> ScopedJoinFuture<'scope, T> {
        let (joining, unread) = self.into_parts();
        ScopedJoinFuture { future: JoinFuture::new(joining), unread }
    }
}
