//! The receiving side.

use std::iter::FusedIterator;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use super::clock::{self, Clock};
use super::error::{RecvError, RecvTimeoutError, RecvWithError, TryRecvError};
use super::handles::Handle;
use super::side::Receives;
use super::wait::{ENDLESS, Refusal};
use crate::park::wait::{Wait, WaitError, timed};

/// The receiving side of a channel.
///
/// Each message is received once, by one of the clones. When the last clone has been dropped, the channel
/// is disconnected: the messages in it are dropped, and senders get errors.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::bounded(2);
/// s.send("one").unwrap();
/// s.send("two").unwrap();
/// drop(s);
///
/// assert_eq!(r.recv(), Ok("one"));
/// assert_eq!(r.recv(), Ok("two"));
/// assert!(r.recv().is_err());
/// ```
pub struct Receiver<T> {
    pub(super) source: Source<T>,
}

/// The source of messages.
pub(super) enum Source<T> {
    Channel(Handle<T, Receives>),
    /// A clock, and the function that makes a message of a moment.
    Clock(Arc<Clock>, fn(Instant) -> T),
    Never,
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    #[inline]
    fn receive(&self, wait: Option<Wait>) -> Result<T, Refusal> {
        match &self.source {
            Source::Channel(channel) => channel.receive(wait),
            Source::Clock(clock, message) => Ok(message(clock.receive(wait)?)),
            Source::Never => Self::wait_in_vain(wait),
        }
    }

    #[cold]
    fn wait_in_vain(wait: Option<Wait>) -> Result<T, Refusal> {
        wait.map_or(Ok(()), clock::doze)?;
        Err(WaitError::TimedOut.into())
    }

    /// Receives a message, as soon as there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, RecvError};
    ///
    /// let (s, r) = channel::unbounded();
    /// s.send(1).unwrap();
    /// drop(s);
    /// assert_eq!(r.recv(), Ok(1));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no message, and all senders have gone.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is empty.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receive(ENDLESS).map_err(|_| RecvError)
    }

    /// Receives a message if there is one; in a rendezvous channel, if a sender waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, TryRecvError};
    ///
    /// let (s, r) = channel::unbounded();
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    /// s.send(1).unwrap();
    /// drop(s);
    /// assert_eq!(r.try_recv(), Ok(1));
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no message.
    ///
    /// # Blocks
    ///
    /// Never, with two exceptions:
    ///
    /// * If a select of another thread [has chosen to send
    ///   here](crate::channel#a-select-that-sends-without-a-buffer), until that thread has made the message.
    /// * If the sender of the next message is still writing it, until it has done so. That takes a few
    ///   instructions, unless the kernel preempts the sender among them.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receive(None).map_err(|why| match why {
            Refusal::Disconnected => TryRecvError::Disconnected,
            _ => TryRecvError::Empty,
        })
    }

    timed! {
        recv: ". In a rendezvous channel, the wait outlasts the limit if a select \
            [has chosen this receiver](crate::channel#a-select-that-sends-without-a-buffer)"
        /// # Examples
        ///
        /// ```
        /// use selvedge::channel::{self, RecvTimeoutError};
        /// use std::time::Duration;
        ///
        /// let (_s, r) = channel::unbounded::<u32>();
        /// assert_eq!(r.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
        /// ```
        ///
        /// # Errors
        ///
        /// If there was no message in time, or there is none and all senders have gone.
        #[inline]
        pub fn recv_timeout, recv_deadline(&self) -> Result<T, RecvTimeoutError> {
            |limit| self.receive(Some(limit())).map_err(|why| match why {
                Refusal::Disconnected => RecvTimeoutError::Disconnected,
                _ => RecvTimeoutError::Timeout,
            })
        }
    }

    /// [`recv_deadline`](Self::recv_deadline), by the name that such waits have elsewhere in this crate.
    ///
    /// # Errors
    ///
    /// If there was no message in time, or there is none and all senders have gone.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is empty.
    #[inline]
    pub fn recv_until(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(deadline)
    }

    /// [`recv`](Self::recv) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, RecvWithError};
    /// use selvedge::{Wait, thread};
    ///
    /// let (s, r) = channel::unbounded();
    /// s.send(1).unwrap();
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(r.recv_with(wait), Err(RecvWithError::Interrupted));
    /// assert_eq!(r.recv_with(wait), Ok(1));
    /// ```
    ///
    /// # Errors
    ///
    /// If the wait has ended without a message, or there is none and all senders have gone.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is empty. In a rendezvous channel, neither a deadline nor an interrupt
    /// ends the wait once a select
    /// [has chosen this receiver](crate::channel#a-select-that-sends-without-a-buffer).
    pub fn recv_with(&self, wait: Wait) -> Result<T, RecvWithError> {
        if wait.begin().is_err() {
            return Err(RecvWithError::Interrupted);
        }
        self.receive(Some(wait)).map_err(|why| match why {
            Refusal::Disconnected => RecvWithError::Disconnected,
            Refusal::Ended(why) => match why.reported() {
                WaitError::TimedOut => RecvWithError::Timeout,
                WaitError::Interrupted => RecvWithError::Interrupted,
            },
        })
    }

    /// Returns `true` if there is no message in the channel. A rendezvous channel is empty, unless a receiver
    /// has given a message back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if there are as many messages in the channel as it holds. A rendezvous channel is
    /// always full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match &self.source {
            Source::Channel(channel) => channel.is_full(),
            Source::Clock(clock, _) => clock.has_struck(),
            Source::Never => true,
        }
    }

    /// Returns how many messages are in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Channel(channel) => channel.len(),
            Source::Clock(clock, _) => usize::from(clock.has_struck()),
            Source::Never => 0,
        }
    }

    /// Returns how many messages the channel holds; `None`: any number.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        match &self.source {
            Source::Channel(channel) => channel.capacity,
            Source::Clock(..) => Some(1),
            Source::Never => Some(0),
        }
    }

    /// Returns `true` if both receive from one channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        match (&self.source, &other.source) {
            (Source::Channel(one), Source::Channel(other)) => one.is_same(other),
            (Source::Clock(one, _), Source::Clock(other, _)) => Arc::ptr_eq(one, other),
            (Source::Never, Source::Never) => true,
            _ => false,
        }
    }

    /// Iterates over messages as they come, until the channel is empty and all senders have gone. Each
    /// step may wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, r) = channel::unbounded();
    /// std::thread::spawn(move || (1..=3).for_each(|n| s.send(n).unwrap()));
    /// assert_eq!(r.iter().sum::<u32>(), 6);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Iterates over the messages that are there. No step waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, r) = channel::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(r.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        let source = match &self.source {
            Source::Channel(channel) => Source::Channel(channel.clone()),
            Source::Clock(clock, message) => Source::Clock(Arc::clone(clock), *message),
            Source::Never => Source::Never,
        };
        Self { source }
    }
}

opaque! { [T] Receiver<T> }

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

/// An iterator over messages as they come, until the channel is disconnected: see [`Receiver::iter`].
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over the messages that are there: see [`Receiver::try_iter`].
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over messages as they come, until the channel is disconnected. It owns the receiver.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::unbounded();
/// s.send(1).unwrap();
/// drop(s);
/// assert_eq!(r.into_iter().collect::<Vec<_>>(), [1]);
/// ```
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

macro_rules! iterator {
    ($name:ident<$($arg:tt),+>, $receive:ident) => {
        impl<T> Iterator for $name<$($arg),+> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.$receive().ok()
            }
        }

        opaque! { [T] $name<$($arg),+> }
    };
}

iterator! { Iter<'_, T>, recv }
iterator! { TryIter<'_, T>, try_recv }
iterator! { IntoIter<T>, recv }

// After the last message of a disconnected channel, there are no more.
impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}
