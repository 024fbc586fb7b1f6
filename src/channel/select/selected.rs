//! A selected operation, which is to be completed.

use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ptr;

use super::port::Port;
use crate::channel::core::Step;
use crate::channel::error::{RecvError, SendError};
use crate::channel::receiver::{Receiver, Source};
use crate::channel::sender::Sender;
use crate::channel::waiters::Deal;

/// An operation that a [`Select`](super::Select) has selected. It must be completed.
///
/// # Panics
///
/// Dropping it without completing it panics, unless the thread is unwinding already. Others get what was
/// kept for it, except for the moment of a [clock](crate::channel::after), which is lost.
///
/// Do not leak it ([`std::mem::forget`]): what is reserved for it is then lost. In a rendezvous channel
/// that is [a receiver, which waits forever](crate::channel#a-select-that-sends-without-a-buffer).
#[must_use = "a selected operation must be completed"]
pub struct SelectedOperation<'a> {
    /// `None`: the end of a thread.
    pub(super) port: Option<&'a dyn Port>,
    pub(super) index: usize,
    pub(super) deal: Deal,
}

impl SelectedOperation<'_> {
    /// Returns the index that the operation got when it was added.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns a selection of no operation.
    pub(super) fn of_nothing() -> Self {
        Self { port: None, index: usize::MAX, deal: Deal::Open }
    }

    /// Forgets a selection of nothing: there is nothing to complete.
    #[doc(hidden)]
    pub fn nothing(self) {
        debug_assert!(self.port.is_none());
        mem::forget(self);
    }

    fn is_of(&self, handle: &dyn Port) -> bool {
        self.port.is_some_and(|port| ptr::addr_eq(port, handle))
    }

    /// Completes a send.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    ///
    /// let (s, r) = channel::bounded(1);
    /// let mut select = Select::new();
    /// select.send(&s);
    /// select.select().send(&s, 1).unwrap();
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    ///
    /// # Panics
    ///
    /// If `sender` is not the one that was added.
    ///
    /// # Errors
    ///
    /// The message, if all receivers have gone.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn send<T>(self, sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
        assert!(self.is_of(&sender.channel), "passed a sender that wasn't selected");
        let deal = self.deal;
        mem::forget(self);
        let message = ManuallyDrop::new(message);
        // SAFETY: there is a message, not used again if it was sent. The deal is this operation's, which
        // ends here.
        match sender.channel.attempt(|state, after| unsafe { state.finish_send(deal, &*message, after) }) {
            Step::Done => Ok(()),
            _ => Err(SendError(ManuallyDrop::into_inner(message))),
        }
    }

    /// Completes a receive.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, RecvError, Select};
    ///
    /// let (s, r) = channel::rendezvous::<u32>();
    /// drop(s);
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.select().recv(&r), Err(RecvError));
    /// ```
    ///
    /// # Panics
    ///
    /// If `receiver` is not the one that was added.
    ///
    /// # Errors
    ///
    /// If there was no message, and all senders had gone.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn recv<T>(self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        assert!(self.is_of(receiver.port()), "passed a receiver that wasn't selected");
        let deal = self.deal;
        mem::forget(self);
        match (&receiver.source, deal) {
            (Source::Channel(channel), Deal::Message(cell)) => {
                let mut message = MaybeUninit::uninit();
                // SAFETY: it may be written; the cell is this operation's, which ends here.
                channel.with(|state| unsafe { state.cells.take(cell, message.as_mut_ptr()) });
                // SAFETY: the message has been moved there.
                Ok(unsafe { message.assume_init() })
            }
            (Source::Clock(_, message), Deal::Struck(moment)) => Ok(message(moment)),
            _ => Err(RecvError),
        }
    }

    /// Completes the wait for the end of a thread: joining the thread does not wait.
    ///
    /// # Panics
    ///
    /// If it was another operation.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn join(self) {
        assert!(self.port.is_none(), "not the end of a thread was selected");
        mem::forget(self);
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        if let Some(port) = self.port {
            port.give_back(self.deal);
        }
        if !std::thread::panicking() {
            panic!("dropped `SelectedOperation` without completing the operation");
        }
    }
}

opaque! { [] SelectedOperation<'_> }
