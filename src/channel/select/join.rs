//! Handles that stand for the end of a thread in a select.

use super::port::Ending;
use crate::thread::{JoinHandle, ScopedJoinHandle};

mod sealed {
    pub trait Sealed {
        fn ending(&self) -> crate::channel::select::port::Ending;
    }
}

/// Handles with which a `select!` can wait for the end of a thread: a [`JoinHandle`], a
/// [`ScopedJoinHandle`], or an `Option` of one. `None` is a thread that never ends.
///
/// An `Option` is for loops: `select!` takes the handle out of it when it joins, and the next round finds
/// `None`.
pub trait Join: sealed::Sealed {}

impl<T> sealed::Sealed for JoinHandle<T> {
    fn ending(&self) -> Ending {
        Ending(Some(self.thread().core()))
    }
}

impl<T> sealed::Sealed for ScopedJoinHandle<'_, T> {
    fn ending(&self) -> Ending {
        Ending(Some(self.thread().core()))
    }
}

impl<J: Join> sealed::Sealed for &mut J {
    fn ending(&self) -> Ending {
        (**self).ending()
    }
}

impl<J: Join> sealed::Sealed for Option<J> {
    fn ending(&self) -> Ending {
        self.as_ref().map_or(Ending(None), sealed::Sealed::ending)
    }
}

impl<T> Join for JoinHandle<T> {}
impl<T> Join for ScopedJoinHandle<'_, T> {}
impl<J: Join> Join for &mut J {}
impl<J: Join> Join for Option<J> {}
