//! Messages one by one.

use std::fmt;
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

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

// After the last message of a disconnected channel, there are no more.
impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}
