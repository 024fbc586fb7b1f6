//! The errors of channels: the names, variants and traits of crossbeam-channel, and two more errors, of
//! `send_with` and `recv_with`.

use std::error::Error;
use std::fmt;

/// The error of `send`: all receivers have gone. Holds the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendError<T>(pub T);

/// The error of `try_send`. Holds the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrySendError<T> {
    /// There is no room; in a rendezvous channel, no receiver waits.
    Full(T),
    /// All receivers have gone.
    Disconnected(T),
}

/// The error of `send_timeout` and `send_deadline`. Holds the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendTimeoutError<T> {
    /// There was no room in time; in a rendezvous channel, no receiver came.
    Timeout(T),
    /// All receivers have gone.
    Disconnected(T),
}

/// The error of `send_with`. Holds the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendWithError<T> {
    /// The thread was interrupted, and the message has not been sent.
    Interrupted(T),
    /// There was no room in time; in a rendezvous channel, no receiver came.
    Timeout(T),
    /// All receivers have gone.
    Disconnected(T),
}

/// The error of `recv`: there is no message, and all senders have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvError;

/// The error of `try_recv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TryRecvError {
    /// There is no message; in a rendezvous channel, no sender waits.
    Empty,
    /// There is no message, and all senders have gone.
    Disconnected,
}

/// The error of `recv_timeout` and `recv_deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvTimeoutError {
    /// No message came in time.
    Timeout,
    /// There is no message, and all senders have gone.
    Disconnected,
}

/// The error of `recv_with`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvWithError {
    /// The thread was interrupted, and has taken no message.
    Interrupted,
    /// No message came in time.
    Timeout,
    /// There is no message, and all senders have gone.
    Disconnected,
}

/// The error of `try_select`: no operation was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrySelectError;

/// The error of `select_timeout` and `select_deadline`: no operation became ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectTimeoutError;

/// The error of `try_ready`: no operation was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TryReadyError;

/// The error of `ready_timeout` and `ready_deadline`: no operation became ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyTimeoutError;

const FULL: &str = "sending on a full channel";
const SEND_TIMEOUT: &str = "timed out waiting on send operation";
const SEND_INTERRUPTED: &str = "interrupted waiting on send operation";
const SEND_DISCONNECTED: &str = "sending on a disconnected channel";
const EMPTY: &str = "receiving on an empty channel";
const RECEIVE_TIMEOUT: &str = "timed out waiting on receive operation";
const RECEIVE_INTERRUPTED: &str = "interrupted waiting on receive operation";
const RECEIVE_DISCONNECTED: &str = "receiving on an empty and disconnected channel";

/// Implements the traits of an error that holds a message. It is shown without the message, which need
/// not be `Debug`.
macro_rules! sending {
    ($name:ident, $($pattern:pat => $debug:literal, $text:expr;)+) => {
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($pattern => $debug,)+ })
            }
        }

        impl<T> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($pattern => $text,)+ })
            }
        }

        impl<T: Send> Error for $name<T> {}
    };
}

sending! { SendError, Self(_) => "SendError(..)", SEND_DISCONNECTED; }
sending! { TrySendError,
    Self::Full(_) => "Full(..)", FULL;
    Self::Disconnected(_) => "Disconnected(..)", SEND_DISCONNECTED;
}
sending! { SendTimeoutError,
    Self::Timeout(_) => "Timeout(..)", SEND_TIMEOUT;
    Self::Disconnected(_) => "Disconnected(..)", SEND_DISCONNECTED;
}
sending! { SendWithError,
    Self::Interrupted(_) => "Interrupted(..)", SEND_INTERRUPTED;
    Self::Timeout(_) => "Timeout(..)", SEND_TIMEOUT;
    Self::Disconnected(_) => "Disconnected(..)", SEND_DISCONNECTED;
}

macro_rules! receiving {
    ($name:ident, $($pattern:pat => $text:expr;)+) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($pattern => $text,)+ })
            }
        }

        impl Error for $name {}
    };
}

receiving! { RecvError, Self => RECEIVE_DISCONNECTED; }
receiving! { TryRecvError,
    Self::Empty => EMPTY;
    Self::Disconnected => RECEIVE_DISCONNECTED;
}
receiving! { RecvTimeoutError,
    Self::Timeout => RECEIVE_TIMEOUT;
    Self::Disconnected => RECEIVE_DISCONNECTED;
}
receiving! { RecvWithError,
    Self::Interrupted => RECEIVE_INTERRUPTED;
    Self::Timeout => RECEIVE_TIMEOUT;
    Self::Disconnected => RECEIVE_DISCONNECTED;
}
receiving! { TrySelectError, Self => "all operations in select would block"; }
receiving! { SelectTimeoutError, Self => "timed out waiting on select"; }
receiving! { TryReadyError, Self => "all operations in select would block"; }
receiving! { ReadyTimeoutError, Self => "timed out waiting on select"; }

impl<T> SendError<T> {
    /// Returns the message that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, r) = channel::unbounded();
    /// drop(r);
    /// assert_eq!(s.send("hello").unwrap_err().into_inner(), "hello");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// Returns the message that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, _r) = channel::rendezvous();
    /// assert_eq!(s.try_send("hello").unwrap_err().into_inner(), "hello");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(message) | Self::Disconnected(message) => message,
        }
    }

    /// Returns `true` if there was no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns `true` if all receivers have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the message that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    /// use std::time::Duration;
    ///
    /// let (s, _r) = channel::rendezvous();
    /// let error = s.send_timeout("hello", Duration::from_millis(1)).unwrap_err();
    /// assert!(error.is_timeout());
    /// assert_eq!(error.into_inner(), "hello");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(message) | Self::Disconnected(message) => message,
        }
    }

    /// Returns `true` if there was no room in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Returns `true` if all receivers have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected(_))
    }
}

impl<T> SendWithError<T> {
    /// Returns the message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Interrupted(message) | Self::Timeout(message) | Self::Disconnected(message) => message,
        }
    }

    /// Returns `true` if the thread was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted(_))
    }

    /// Returns `true` if there was no room in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Returns `true` if all receivers have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected(_))
    }
}

impl TryRecvError {
    /// Returns `true` if there was no message, but still a sender.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Returns `true` if there was no message, and all senders have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Returns `true` if no message came in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    /// Returns `true` if there was no message, and all senders have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected)
    }
}

impl RecvWithError {
    /// Returns `true` if the thread was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted)
    }

    /// Returns `true` if no message came in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    /// Returns `true` if there was no message, and all senders have gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected)
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(SendError(message): SendError<T>) -> Self {
        Self::Disconnected(message)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(SendError(message): SendError<T>) -> Self {
        Self::Disconnected(message)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(RecvError: RecvError) -> Self {
        Self::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(RecvError: RecvError) -> Self {
        Self::Disconnected
    }
}
