//! The names and types of [`std::sync::mpsc`], over the channels of this crate.
//!
//! A port changes `std::sync::mpsc` to `selvedge::sync::mpsc` in the `use` line. The errors are std's own
//! types. The handles are types of this module, with std's methods and traits and no more: [`Sender`] and
//! [`SyncSender`] are two types, and [`Receiver`] is neither `Sync` nor `Clone`. So a trait that a program
//! implements for each compiles, and no method of this crate shadows one of the program's.
//!
//! Threads of any kind may use them. A green thread that waits in one leaves its LWP to other threads.
//!
//! The [channels](crate::channel) underneath offer more: deadlines, `select!`, several receivers, interrupts.
//! With `--cfg loom`, making a channel panics, as it does there.
//!
//! # Examples
//!
//! ```
//! use selvedge::sync::mpsc;
//! use selvedge::{Mxn, Runtime, thread};
//!
//! let rt = Mxn::new()?;
//! let total = rt.run(|| {
//!     let (tx, rx) = mpsc::channel();
//!     for worker in 0..3 {
//!         let tx = tx.clone();
//!         thread::spawn(move || (0..10).for_each(|n| tx.send(10 * worker + n).unwrap()));
//!     }
//!     drop(tx);
//!     rx.iter().sum::<u32>()
//! });
//! assert_eq!(total, (0..30).sum());
//! # std::io::Result::Ok(())
//! ```

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::channel;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Makes a channel that holds any number of messages: [`std::sync::mpsc::channel`] for threads of any kind.
///
/// # Examples
///
/// ```
/// use selvedge::sync::mpsc;
/// use selvedge::thread;
///
/// let (tx, rx) = mpsc::channel();
/// thread::spawn(move || tx.send("hello"));
/// assert_eq!(rx.recv(), Ok("hello"));
/// assert_eq!(rx.recv(), Err(mpsc::RecvError));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = channel::unbounded();
    (Sender { inner: sender }, Receiver::new(receiver))
}

/// Makes a channel that holds at most `bound` messages: [`std::sync::mpsc::sync_channel`] for threads of any
/// kind.
///
/// A send waits while the channel is full. If `bound` is 0, each send waits until a receiver takes the
/// message.
///
/// # Examples
///
/// ```
/// use selvedge::sync::mpsc;
/// use selvedge::thread;
///
/// let (tx, rx) = mpsc::sync_channel(1);
/// tx.send(1).unwrap();
/// // The channel is full, so this send waits until the first message has been received.
/// let sender = thread::spawn(move || tx.send(2));
/// assert_eq!((rx.recv(), rx.recv()), (Ok(1), Ok(2)));
/// sender.join().unwrap().unwrap();
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = channel::bounded(bound);
    (SyncSender { inner: sender }, Receiver::new(receiver))
}

/// The sending side of a [`channel()`].
///
/// When the last clone is dropped, the channel is disconnected. The receiver then gets the messages that are
/// left, and errors after that.
pub struct Sender<T> {
    inner: channel::Sender<T>,
}

impl<T> Sender<T> {
    /// Sends a message.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{SendError, channel};
    ///
    /// let (tx, rx) = channel();
    /// assert_eq!(tx.send(1), Ok(()));
    /// drop(rx);
    /// assert_eq!(tx.send(2), Err(SendError(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        self.inner.send(t).map_err(|channel::SendError(t)| SendError(t))
    }
}

/// The sending side of a [`sync_channel`].
///
/// When the last clone is dropped, the channel is disconnected. The receiver then gets the messages that are
/// left, and errors after that.
pub struct SyncSender<T> {
    inner: channel::Sender<T>,
}

impl<T> SyncSender<T> {
    /// Waits for room and sends a message. If the bound is 0, waits until the message has been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{SendError, sync_channel};
    ///
    /// let (tx, rx) = sync_channel(1);
    /// assert_eq!(tx.send(1), Ok(()));
    /// drop(rx);
    /// assert_eq!(tx.send(2), Err(SendError(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is full.
    #[inline]
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        self.inner.send(t).map_err(|channel::SendError(t)| SendError(t))
    }

    /// Sends a message if there is room for it. If the bound is 0, sends it only if the receiver is waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{TrySendError, sync_channel};
    ///
    /// let (tx, rx) = sync_channel(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// drop(rx);
    /// assert_eq!(tx.try_send(3), Err(TrySendError::Disconnected(3)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the message if it was not sent.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    pub fn try_send(&self, t: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send(t).map_err(|error| match error {
            channel::TrySendError::Full(t) => TrySendError::Full(t),
            channel::TrySendError::Disconnected(t) => TrySendError::Disconnected(t),
        })
    }
}

/// The receiving side of a [`channel()`] or a [`sync_channel`].
///
/// There is one for each channel. When it is dropped, so are the messages in the channel, and senders get
/// errors.
pub struct Receiver<T> {
    inner: channel::Receiver<T>,
    /// std's receiver is not `Sync`, but the one inside is.
    not_sync: PhantomData<Cell<()>>,
}

// Unwind-safe as in std: the cell is only a marker.
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    fn new(inner: channel::Receiver<T>) -> Self {
        Self { inner, not_sync: PhantomData }
    }

    /// Receives a message if there is one. If the bound is 0, receives one only if a sender is waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{TryRecvError, channel};
    ///
    /// let (tx, rx) = channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no message. The error tells if one can still come.
    ///
    /// # Blocks
    ///
    /// Only as [`channel::Receiver::try_recv`] does.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.inner.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// Waits for a message and receives it.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{RecvError, channel};
    ///
    /// let (tx, rx) = channel();
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.recv(), Ok(1));
    /// assert_eq!(rx.recv(), Err(RecvError));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no message and all senders have been dropped.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is empty.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.inner.recv().map_err(|channel::RecvError| RecvError)
    }

    /// Waits for a message for at most `timeout`, and receives it.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::{RecvTimeoutError, channel};
    /// use std::time::Duration;
    ///
    /// let (_tx, rx) = channel::<u32>();
    /// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no message came in time, or if there is none and all senders have been dropped.
    ///
    /// # Blocks
    ///
    /// The thread, while the channel is empty.
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.inner.recv_timeout(timeout).map_err(|error| match error {
            channel::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
            channel::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// Returns an iterator that waits for messages, and ends when all senders have been dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::channel;
    ///
    /// let (tx, rx) = channel();
    /// std::thread::spawn(move || (1..=3).for_each(|n| tx.send(n).unwrap()));
    /// assert_eq!(rx.iter().sum::<u32>(), 6);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { rx: self }
    }

    /// Returns an iterator over the messages that have already arrived. It never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::mpsc::channel;
    ///
    /// let (tx, rx) = channel();
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { rx: self }
    }
}

/// An iterator that waits for messages; see [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    rx: &'a Receiver<T>,
}

/// An iterator over the messages that have already arrived; see [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    rx: &'a Receiver<T>,
}

/// An iterator that waits for messages and owns the receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    rx: Receiver<T>,
}

/// Makes an iterator of the messages that the receiver gets by this method.
macro_rules! iterator {
    ($iterator:ty, $receive:ident) => {
        impl<T> Iterator for $iterator {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.rx.$receive().ok()
            }
        }
    };
}

iterator! { Iter<'_, T>, recv }
iterator! { TryIter<'_, T>, try_recv }
iterator! { IntoIter<T>, recv }

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
        IntoIter { rx: self }
    }
}

// Not derived: a derived impl would require `T: Clone`.
impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

crate::shown::debug! { [T] Sender<T>: "Sender" }

crate::shown::debug! { [T] SyncSender<T>: "SyncSender" }

crate::shown::debug! { [T] Receiver<T>: "Receiver" }
