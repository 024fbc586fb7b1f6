//! Channels: messages from any number of threads to any number of threads.
//!
//! Names, errors and behaviour are those of crossbeam-channel ([`sync::mpsc`](crate::sync::mpsc) has those of
//! `std::sync::mpsc`). There are seven differences:
//!
//! * Threads of any kind may use them, of both runtimes and of none. A green thread that waits leaves its LWP
//!   to others.
//! * An interrupt can end a wait.
//! * [`select!`](crate::channel::select!) can also wait for the end of a thread.
//! * Async tasks send and receive, too, by [`Sender::send_async`] and [`Receiver::recv_async`].
//! * When the last receiver goes, the messages in a bounded channel are dropped, too. (crossbeam-channel
//!   keeps them until the last sender goes.)
//! * Threads that wait are served by priority, and kernel threads not in order of arrival (see below).
//! * A [`tick`] that a select or [`try_recv`](Receiver::try_recv) takes late does not delay those after it,
//!   unless it is late by a period.
//!
//! | made by | holds | `send` waits |
//! |---|---|---|
//! | [`unbounded`] | any number of messages | never |
//! | [`bounded(n)`](bounded) | `n` messages | while there are `n` |
//! | [`rendezvous`], or `bounded(0)` | none | until a receiver takes the message |
//! | [`after`], [`at`] | one moment, when it has come | there is no sender |
//! | [`tick`] | one moment, every so often | there is no sender |
//! | [`never`](never()) | none | there is no sender |
//!
//! A channel is *disconnected* when all its senders have been dropped, or all its receivers. Messages
//! that were sent before the last sender went can still be received. When the last receiver goes, the
//! messages in the channel are dropped.
//!
//! Waiting threads are served by their priority. Among equals, green threads are served in order of
//! arrival. Of kernel threads the last is served first, but each sixteenth waits its turn. A message is
//! handed to the receiver that waits for it, not left for the next thread to come.
//!
//! # A select that sends without a buffer
//!
//! When [`Select`] or [`select!`](crate::channel::select!) chooses a [`rendezvous`] send, it also chooses a
//! receiver. That is a thread that waits in `recv`, in another of its forms, or in a select. From then until
//! the message has arrived, sender and receiver are committed to each other. So until
//! [`SelectedOperation::send`] is called, or the message of a `select!` arm has been made:
//!
//! * the receiver keeps waiting, even if its timeout passes or it is interrupted (the interrupt is left for
//!   its next wait);
//! * if the `SelectedOperation` is dropped instead, the receiver goes back to its wait;
//! * if it is leaked by [`std::mem::forget`], the receiver waits forever.
//!
//! If the message may take long to make, make it before the select. (The same holds for crossbeam-channel. If
//! a receiver could withdraw, the chosen send would have to wait for another receiver, without the timeout of
//! its select.)
//!
//! # In models
//!
//! With `--cfg loom` there are no channels: making one panics. If a program
//! [model-checks](crate::sync#model-checking-a-program-that-uses-them) what it does with messages, it
//! uses a queue under a lock instead.
//!
//! # Examples
//!
//! ```
//! use selvedge::channel;
//! use selvedge::{Mxn, Runtime, thread};
//!
//! let rt = Mxn::new()?;
//! let total = rt.run(|| {
//!     let (s, r) = channel::bounded(4);
//!     for worker in 0..3 {
//!         let s = s.clone();
//!         thread::spawn(move || (0..10).for_each(|n| s.send(10 * worker + n).unwrap()));
//!     }
//!     drop(s);
//!     r.iter().sum::<u32>()
//! });
//! assert_eq!(total, (0..30).sum());
//! # std::io::Result::Ok(())
//! ```

/// Shows a type by its name alone, whatever its messages are.
macro_rules! opaque {
    ([$($generic:ident)?] $name:ident $(<$($arg:tt),+>)?) => {
        impl $(<$generic>)? std::fmt::Debug for $name $(<$($arg),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(concat!(stringify!($name), " { .. }"))
            }
        }
    };
}

mod clock;
mod core;
mod error;
mod futures;
mod handles;
mod head_tail;
mod receiver;
mod reservation;
mod segments;
mod staging;
mod task;
#[macro_use]
mod select;
mod buffer;
mod sender;
mod side;
mod wait;
mod waiters;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::clock::Clock;
use self::core::Channel;
use self::receiver::Source;
use crate::shim::FOR_MODELS;
use crate::time::{self, Moment};

pub use self::error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, RecvWithError, SelectTimeoutError, SendError,
    SendTimeoutError, SendWithError, TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use self::futures::{RecvFuture, SendFuture};
pub use self::receiver::{IntoIter, Iter, Receiver, TryIter};
#[doc(hidden)]
pub use self::select::internal;
pub use self::select::{Join, Select, SelectedOperation};
pub use self::sender::Sender;
#[doc(inline)]
pub use __selvedge_select as select;
#[doc(inline)]
pub use __selvedge_select_biased as select_biased;

/// Panics in models. Otherwise loom would complain of one of the many steps of a channel made of its
/// parts, and not say which.
#[inline]
fn refuse_models() {
    if FOR_MODELS {
        panic!(
            "channels do not work with --cfg loom: a model of a program has locks alone (see selvedge::sync)"
        );
    }
}

fn with_capacity<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    refuse_models();
    let (sends, receives) = handles::pair(Channel::new(capacity));
    (Sender { channel: sends }, Receiver { source: Source::Channel(receives) })
}

/// Creates a channel that holds any number of messages: sending never waits.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::unbounded();
/// (0..1000).for_each(|n| s.send(n).unwrap());
/// assert_eq!(r.len(), 1000);
/// ```
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    with_capacity(None)
}

/// Creates a channel that holds at most `capacity` messages: while there are as many, sending waits. With
/// a capacity of 0 it is a [`rendezvous`] channel.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::bounded(1);
/// s.send(1).unwrap();
/// assert!(s.is_full());
/// let sender = std::thread::spawn(move || s.send(2));
/// assert_eq!(r.recv(), Ok(1));
/// assert_eq!(r.recv(), Ok(2));
/// sender.join().unwrap().unwrap();
/// ```
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    with_capacity(Some(capacity))
}

/// Creates a channel that holds no message: a sender waits until a receiver takes its message from it.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
///
/// let (s, r) = channel::rendezvous();
/// let sender = std::thread::spawn(move || s.send("hello"));
/// assert_eq!(r.recv(), Ok("hello"));
/// sender.join().unwrap().unwrap();
/// ```
#[must_use]
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    bounded(0)
}

fn clock(first: Option<Moment>, period: Option<Duration>) -> Receiver<Instant> {
    refuse_models();
    first.map_or_else(never, |first| Receiver {
        source: Source::Clock(Arc::new(Clock::new(first, period)), std::convert::identity),
    })
}

/// Creates a receiver that gets one message, `time` from now: the moment at which it was due. It is never
/// disconnected. After the message, or after a clone has taken it, receiving waits forever.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let r = channel::after(Duration::from_millis(5));
/// assert!(r.recv().unwrap() >= start + Duration::from_millis(5));
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
#[must_use]
pub fn after(time: Duration) -> Receiver<Instant> {
    clock(time::after(time), None)
}

/// Creates a receiver that gets one message, at `moment`: that moment. Otherwise as [`after`].
///
/// # Examples
///
/// ```
/// use selvedge::channel;
/// use std::time::{Duration, Instant};
///
/// let moment = Instant::now() + Duration::from_millis(5);
/// assert_eq!(channel::at(moment).recv(), Ok(moment));
/// ```
#[must_use]
pub fn at(moment: Instant) -> Receiver<Instant> {
    clock(Some(Moment::of(moment)), None)
}

/// Creates a receiver that gets a message every `period`: the moment at which it was due. It holds one at
/// a time: while that has not been taken, the next does not come. A thread that waits for each message
/// gets moments that are one `period` apart, however late it wakes up. If a message is taken more than a
/// period late, the next comes one period after the taking. The receiver is never disconnected.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let r = channel::tick(Duration::from_millis(2));
/// (0..3).for_each(|_| drop(r.recv().unwrap()));
/// assert!(start.elapsed() >= Duration::from_millis(6));
/// ```
///
/// Without drift:
///
/// ```
/// use selvedge::channel;
/// use std::time::Duration;
///
/// let period = Duration::from_millis(20);
/// let r = channel::tick(period);
/// let (first, second) = (r.recv().unwrap(), r.recv().unwrap());
/// // Unless this thread was kept from running meanwhile.
/// assert!(second == first + period || second >= first + 2 * period);
/// ```
#[must_use]
pub fn tick(period: Duration) -> Receiver<Instant> {
    clock(time::after(period), Some(period))
}

/// Creates a receiver that never gets a message, and is never disconnected.
///
/// # Examples
///
/// ```
/// use selvedge::channel;
/// use std::time::Duration;
///
/// let r = channel::never::<u32>();
/// assert!(r.recv_timeout(Duration::from_millis(1)).is_err());
/// ```
#[must_use]
pub fn never<T>() -> Receiver<T> {
    Receiver { source: Source::Never }
}

#[cfg(test)]
mod tests;
