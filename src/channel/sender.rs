//! The sending side.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Instant;

use super::error::{SendError, SendTimeoutError, SendWithError, TrySendError};
use super::handles::Handle;
use super::side::Sends;
use super::wait::{ENDLESS, Refusal};
use crate::park::wait::{Wait, WaitError, timed};

/// The sending side of a channel.
///
/// Clones send to the same receivers. When the last clone has been dropped, the channel is disconnected:
/// receivers get what is still in it, and then errors.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::unbounded();
/// let other = s.clone();
/// let sender = std::thread::spawn(move || other.send(1).unwrap());
/// s.send(2).unwrap();
/// sender.join().unwrap();
///
/// assert_eq!(r.recv().unwrap() + r.recv().unwrap(), 3);
/// ```
pub struct Sender<T> {
    pub(super) channel: Handle<T, Sends>,
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    /// Sends a message, as soon as there is room for it; in a rendezvous channel, as soon as a receiver
    /// takes it.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, SendError};
    ///
    /// let (s, r) = channel::bounded(1);
    /// assert_eq!(s.send(1), Ok(()));
    /// drop(r);
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// The message, if all receivers have gone.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is full.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.channel.send(message, ENDLESS).map_err(|(message, _)| SendError(message))
    }

    /// Sends a message if there is room for it; in a rendezvous channel, if a receiver waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, TrySendError};
    ///
    /// let (s, r) = channel::bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// drop(r);
    /// assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
    /// ```
    ///
    /// # Errors
    ///
    /// The message, if it was not sent.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.channel.send(message, None).map_err(|(message, why)| match why {
            Refusal::Disconnected => TrySendError::Disconnected(message),
            _ => TrySendError::Full(message),
        })
    }

    timed! {
        send
        /// # Examples
        ///
        /// ```
        /// use selvedge::channel::{self, SendTimeoutError};
        /// use std::time::Duration;
        ///
        /// let (s, _r) = channel::rendezvous();
        /// assert_eq!(s.send_timeout(1, Duration::from_millis(1)), Err(SendTimeoutError::Timeout(1)));
        /// ```
        ///
        /// # Errors
        ///
        /// The message, if it was not sent.
        #[inline]
        pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), SendTimeoutError<T>> {
            |limit| self.channel.send(message, Some(limit())).map_err(|(message, why)| match why {
                Refusal::Disconnected => SendTimeoutError::Disconnected(message),
                _ => SendTimeoutError::Timeout(message),
            })
        }
    }

    /// [`send_deadline`](Self::send_deadline), by the name that such waits have elsewhere in this crate.
    ///
    /// # Errors
    ///
    /// The message, if it was not sent.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is full.
    #[inline]
    pub fn send_until(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_deadline(message, deadline)
    }

    /// [`send`](Self::send) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Wait, channel, thread};
    ///
    /// let (s, _r) = channel::unbounded();
    /// thread::current().interrupt();
    /// let error = s.send_with(1, Wait::forever().interruptible()).unwrap_err();
    /// assert!(error.is_interrupted());
    /// assert_eq!(error.into_inner(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// The message, if it was not sent.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is full.
    pub fn send_with(&self, message: T, wait: Wait) -> Result<(), SendWithError<T>> {
        if wait.begin().is_err() {
            return Err(SendWithError::Interrupted(message));
        }
        self.channel.send(message, Some(wait)).map_err(|(message, why)| match why {
            Refusal::Disconnected => SendWithError::Disconnected(message),
            Refusal::Ended(why) => match why.reported() {
                WaitError::TimedOut => SendWithError::Timeout(message),
                WaitError::Interrupted => SendWithError::Interrupted(message),
            },
        })
    }

    crate::shown::getters! {
        /// Returns `true` if there is no message in the channel. A rendezvous channel is empty, unless a
        /// receiver has given a message back.
        fn is_empty(&self) -> bool = self.len() == 0;
        /// Returns `true` if there are as many messages in the channel as it holds. A rendezvous channel is
        /// always full.
        fn is_full(&self) -> bool = self.channel.is_full();
        /// Returns how many messages are in the channel.
        fn len(&self) -> usize = self.channel.len();
        /// Returns how many messages the channel holds; `None`: any number.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::channel;
        ///
        /// assert_eq!(channel::unbounded::<u32>().0.capacity(), None);
        /// assert_eq!(channel::bounded::<u32>(5).0.capacity(), Some(5));
        /// assert_eq!(channel::rendezvous::<u32>().0.capacity(), Some(0));
        /// ```
        fn capacity(&self) -> Option<usize> = self.channel.capacity;
    }

    /// Returns `true` if both send to one channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.channel.is_same(&other.channel)
    }
}

impl<T> Clone for Sender<T> {
    /// # Panics
    ///
    /// Aborts the process if half of all numbers of handles have been forgotten.
    fn clone(&self) -> Self {
        Self { channel: self.channel.clone() }
    }
}

opaque! { [T] Sender<T> }
