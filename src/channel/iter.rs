//! Messages one by one.

use std::iter::FusedIterator;

use super::receiver::Receiver;

/// An iterator over messages as they come, until the channel is disconnected: see [`Receiver::iter`].
pub struct Iter<'a, T> {
    pub(super) receiver: &'a Receiver<T>,
}

/// An iterator over the messages that are there: see [`Receiver::try_iter`].
pub struct TryIter<'a, T> {
    pub(super) receiver: &'a Receiver<T>,
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
    pub(super) receiver: Receiver<T>,
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
