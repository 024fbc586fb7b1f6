//! Sends and receives as futures.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::error::{RecvError, SendError};
use super::receiver::{Receiver, Source};
use super::sender::Sender;
use super::side::{Receives, Sends};
use super::task::Operation;
use crate::park::wait::Wait;
use crate::thread::{self, JoinFuture};
use crate::time;

impl<T> Sender<T> {
    /// Returns a future that sends a message as [`send`](Self::send) does. A task that waits in it takes its
    /// turn among the threads that wait.
    ///
    /// If the future is dropped before it is ready, the message has been sent, or is dropped with it.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{channel, future};
    ///
    /// let (s, r) = channel::bounded(1);
    /// let receiver = selvedge::thread::spawn(move || r.iter().sum::<u32>());
    /// future::block_on(async {
    ///     for n in 1..=3 {
    ///         s.send_async(n).await.unwrap();
    ///     }
    /// });
    /// drop(s);
    /// assert_eq!(receiver.join().unwrap(), 6);
    /// ```
    ///
    /// # Errors
    ///
    /// The message, if all receivers have gone.
    pub fn send_async(&self, message: T) -> SendFuture<'_, T> {
        SendFuture { operation: Operation::new(&self.channel), message: Some(message) }
    }
}

impl<T> Receiver<T> {
    /// Returns a future that receives a message as [`recv`](Self::recv) does. A task that waits in it takes
    /// its turn among the threads that wait.
    ///
    /// If the future is dropped before it is ready, no message is lost: the next to receive gets what it
    /// would have had.
    ///
    /// A task that waits at a [clock](crate::channel::after) has a thread of the caller's runtime sleep. If
    /// that cannot be started, as while the runtime shuts down, each poll sleeps for up to 10 ms, and has the
    /// task polled again.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, r) = channel::unbounded();
    /// let sender = selvedge::thread::spawn(move || s.send(7).unwrap());
    /// let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(tokio.block_on(r.recv_async()), Ok(7));
    /// # sender.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no message, and all senders have gone.
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture(match &self.source {
            Source::Channel(channel) => From::Channel(Operation::new(channel)),
            Source::Clock(clock, message) => From::Clock { clock, message: *message, sleeps: None },
            Source::Never => From::Never,
        })
    }
}

/// The future of [`Sender::send_async`].
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct SendFuture<'a, T> {
    operation: Operation<'a, T, Sends>,
    /// Until the first poll.
    message: Option<T>,
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let message = self.message.take().map(MaybeUninit::new);
        // SAFETY: there is a message.
        let (frame, sent) = ready!(unsafe { self.operation.poll(context, message) });
        // SAFETY: it was not sent.
        Poll::Ready(if sent { Ok(()) } else { Err(SendError(unsafe { frame.assume_init() })) })
    }
}

// The message is moved before it waits.
impl<T> Unpin for SendFuture<'_, T> {}

opaque! { [T] SendFuture<'_, T> }

/// The future of [`Receiver::recv_async`].
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct RecvFuture<'a, T>(From<'a, T>);

enum From<'a, T> {
    Channel(Operation<'a, T, Receives>),
    Clock {
        clock: &'a Arc<Clock>,
        message: fn(Instant) -> T,
        /// The thread that sleeps until the clock strikes.
        sleeps: Option<JoinFuture<()>>,
    },
    Never,
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            From::Channel(operation) => {
                // SAFETY: it is no send.
                let polled = unsafe { operation.poll(context, Some(MaybeUninit::uninit())) };
                let (frame, received) = ready!(polled);
                // SAFETY: a message was received.
                Poll::Ready(if received { Ok(unsafe { frame.assume_init() }) } else { Err(RecvError) })
            }
            From::Clock { clock, message, sleeps } => {
                let moment = ready!(poll_clock(clock, sleeps, context));
                Poll::Ready(Ok(message(moment)))
            }
            From::Never => Poll::Pending,
        }
    }
}

fn poll_clock(
    clock: &Clock,
    sleeps: &mut Option<JoinFuture<()>>,
    context: &mut Context<'_>,
) -> Poll<Instant> {
    loop {
        if let Some(moment) = clock.take() {
            return Poll::Ready(moment);
        }
        let Some(next) = clock.next() else { return Poll::Pending };
        if sleeps.is_none() {
            let sleep = move || _ = thread::sleep_with(Wait::by(Some(next)).interruptible());
            *sleeps = thread::Builder::new().spawn(sleep).ok().map(IntoFuture::into_future);
        }
        let Some(join) = sleeps else {
            // The caller may have other things to do than to wait for so long.
            thread::sleep((next - time::now()).min(NAP));
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        let _ended = ready!(Pin::new(join).poll(context));
        *sleeps = None;
    }
}

/// How long a poll sleeps itself at most if no thread can be started for that.
const NAP: Duration = Duration::from_millis(10);

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        if let From::Clock { sleeps: Some(sleeps), .. } = &self.0 {
            sleeps.interrupt();
        }
    }
}

// The message is not in the future.
impl<T> Unpin for RecvFuture<'_, T> {}

opaque! { [T] RecvFuture<'_, T> }
