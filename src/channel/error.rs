//! The errors of channels: the names, variants and traits of crossbeam-channel, and two more errors, of
//! `send_with` and `recv_with`.

use std::error::Error;
use std::fmt;

/// Implements the traits of an error that has these texts.
macro_rules! shown {
    ($name:ident $(<$t:ident>)?, $($pattern:pat => $text:literal,)+) => {
        impl $(<$t>)? fmt::Display for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($pattern => $text,)+ })
            }
        }

        impl $(<$t: Send>)? Error for $name $(<$t>)? {}
    };
}

/// Defines an error by its variants, each with a text and a method that asks for it.
macro_rules! variants {
    ($(#[$meta:meta])* $name:ident $(<$t:ident>)? {$(
        $(#[$about:meta])*
        $variant:ident $(($message:ident))? = $text:literal,
        $(#[$asks:meta])*
        $is:ident;
    )+}) => {
        $(#[$meta])*
        pub enum $name $(<$t>)? {
            $($(#[$about])* $variant $(($message))?,)+
        }

        impl $(<$t>)? $name $(<$t>)? {$(
            $(#[$asks])*
            #[must_use]
            pub fn $is(&self) -> bool {
                matches!(self, Self::$variant { .. })
            }
        )+}

        shown! { $name $(<$t>)?, $(Self::$variant { .. } => $text,)+ }
    };
}

/// Implements the rest of an error that holds a message in each variant. It is shown without the message,
/// which need not be `Debug`.
macro_rules! returns_message {
    ($(#[$meta:meta])* $name:ident, $($variant:ident),+) => {
        impl<T> $name<T> {
            /// Returns the message that was not sent.
            $(#[$meta])*
            pub fn into_inner(self) -> T {
                match self { $(Self::$variant(message) => message,)+ }
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant(_) => concat!(stringify!($variant), "(..)"),)+ })
            }
        }
    };
}

/// The error of `send`: all receivers have gone. Holds the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendError<T>(pub T);

shown! { SendError<T>, Self(_) => "sending on a disconnected channel", }

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

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

variants! {
    /// The error of `try_send`. Holds the message.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    TrySendError<T> {
        /// There is no room; in a rendezvous channel, no receiver waits.
        Full(T) = "sending on a full channel",
        /// Returns `true` if there was no room.
        is_full;
        /// All receivers have gone.
        Disconnected(T) = "sending on a disconnected channel",
        /// Returns `true` if all receivers have gone.
        is_disconnected;
    }
}

returns_message! {
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel;
    ///
    /// let (s, _r) = channel::rendezvous();
    /// assert_eq!(s.try_send("hello").unwrap_err().into_inner(), "hello");
    /// ```
    TrySendError, Full, Disconnected
}

variants! {
    /// The error of `send_timeout` and `send_deadline`. Holds the message.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    SendTimeoutError<T> {
        /// There was no room in time; in a rendezvous channel, no receiver came.
        Timeout(T) = "timed out waiting on send operation",
        /// Returns `true` if there was no room in time.
        is_timeout;
        /// All receivers have gone.
        Disconnected(T) = "sending on a disconnected channel",
        /// Returns `true` if all receivers have gone.
        is_disconnected;
    }
}

returns_message! {
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
    SendTimeoutError, Timeout, Disconnected
}

variants! {
    /// The error of `send_with`. Holds the message.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    SendWithError<T> {
        /// The thread was interrupted, and the message has not been sent.
        Interrupted(T) = "interrupted waiting on send operation",
        /// Returns `true` if the thread was interrupted.
        is_interrupted;
        /// There was no room in time; in a rendezvous channel, no receiver came.
        Timeout(T) = "timed out waiting on send operation",
        /// Returns `true` if there was no room in time.
        is_timeout;
        /// All receivers have gone.
        Disconnected(T) = "sending on a disconnected channel",
        /// Returns `true` if all receivers have gone.
        is_disconnected;
    }
}

returns_message! { SendWithError, Interrupted, Timeout, Disconnected }

/// The error of `recv`: there is no message, and all senders have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvError;

shown! { RecvError, Self => "receiving on an empty and disconnected channel", }

variants! {
    /// The error of `try_recv`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    TryRecvError {
        /// There is no message; in a rendezvous channel, no sender waits.
        Empty = "receiving on an empty channel",
        /// Returns `true` if there was no message, but still a sender.
        is_empty;
        /// There is no message, and all senders have gone.
        Disconnected = "receiving on an empty and disconnected channel",
        /// Returns `true` if there was no message, and all senders have gone.
        is_disconnected;
    }
}

variants! {
    /// The error of `recv_timeout` and `recv_deadline`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    RecvTimeoutError {
        /// No message came in time.
        Timeout = "timed out waiting on receive operation",
        /// Returns `true` if no message came in time.
        is_timeout;
        /// There is no message, and all senders have gone.
        Disconnected = "receiving on an empty and disconnected channel",
        /// Returns `true` if there was no message, and all senders have gone.
        is_disconnected;
    }
}

variants! {
    /// The error of `recv_with`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    RecvWithError {
        /// The thread was interrupted, and has taken no message.
        Interrupted = "interrupted waiting on receive operation",
        /// Returns `true` if the thread was interrupted.
        is_interrupted;
        /// No message came in time.
        Timeout = "timed out waiting on receive operation",
        /// Returns `true` if no message came in time.
        is_timeout;
        /// There is no message, and all senders have gone.
        Disconnected = "receiving on an empty and disconnected channel",
        /// Returns `true` if there was no message, and all senders have gone.
        is_disconnected;
    }
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

shown! { TrySelectError, Self => "all operations in select would block", }
shown! { SelectTimeoutError, Self => "timed out waiting on select", }
shown! { TryReadyError, Self => "all operations in select would block", }
shown! { ReadyTimeoutError, Self => "timed out waiting on select", }

/// Lets the error of an operation without a time limit become that of one with.
macro_rules! from_disconnected {
    ($from:ident $(($message:ident))? => $name:ident $(<$t:ident>)?) => {
        impl $(<$t>)? From<$from $(<$t>)?> for $name $(<$t>)? {
            fn from($from $(($message))?: $from $(<$t>)?) -> Self {
                Self::Disconnected $(($message))?
            }
        }
    };
}

from_disconnected! { SendError(message) => TrySendError<T> }
from_disconnected! { SendError(message) => SendTimeoutError<T> }
from_disconnected! { RecvError => TryRecvError }
from_disconnected! { RecvError => RecvTimeoutError }
