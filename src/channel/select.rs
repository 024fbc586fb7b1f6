//! Waiting for the first of several operations, by the [`select!`](crate::channel::select!) macro or by
//! [`Select`]. The operations of a `Select` can be many, and need not be known before the program runs.
//!
//! An operation is done in two steps, as in crossbeam-channel: it is *selected*, and then *completed* by
//! the thread that selected it. In between the channel keeps the message, or the room for one. Without a
//! buffer, a receiver keeps waiting. So a message is made only when it is known that it can be sent.

#[macro_use]
mod macros;
mod port;
mod run;

#[doc(hidden)]
pub mod internal;
mod selected;

use std::marker::PhantomData;

use self::port::{Ending, Port};
use self::run::{Case, Manner, choose};
use super::error::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
use super::receiver::Receiver;
use super::sender::Sender;
use super::waiters::Deal;
use crate::park::current;
use crate::park::wait::{Wait, WaitError, timed};

pub use self::port::Join;
pub use self::selected::SelectedOperation;

/// An operation to choose from.
enum Operation<'a> {
    Channel(&'a dyn Port),
    End(Ending, PhantomData<&'a mut ()>),
}

impl<'a> Operation<'a> {
    fn end(thread: &'a mut impl Join) -> Self {
        let ending = thread.ending();
        assert!(
            ending.0.is_none() || ending.0 != current::try_current(),
            "a thread cannot join itself: it would wait forever"
        );
        Self::End(ending, PhantomData)
    }

    fn port(&self) -> &dyn Port {
        match self {
            Self::Channel(port) => *port,
            Self::End(ending, _) => ending,
        }
    }

    /// Returns this operation as the selected one.
    fn selected(&self, index: usize, deal: Deal) -> SelectedOperation<'a> {
        let port = match self {
            Self::Channel(port) => Some(*port),
            Self::End(..) => None,
        };
        SelectedOperation { port, index, deal }
    }
}

/// A set of operations, of which one is selected.
///
/// If the operations are known, [`select!`](crate::channel::select!) is easier to use.
///
/// # Examples
///
/// ```
/// use selvedge::channel::{self, Select};
///
/// let channels: Vec<_> = (0..3).map(|_| channel::unbounded()).collect();
/// channels[1].0.send("hello").unwrap();
///
/// let mut select = Select::new();
/// for (_, r) in &channels {
///     select.recv(r);
/// }
/// let operation = select.select();
/// assert_eq!(operation.index(), 1);
/// assert_eq!(operation.recv(&channels[1].1), Ok("hello"));
/// ```
pub struct Select<'a> {
    operations: Vec<(usize, Operation<'a>)>,
    next: usize,
    biased: bool,
}

// SAFETY: channels are made to be shared, except for their messages. A `Select` moves those within a channel,
// and drops none, also if an operation is given up (`Handle::leave_messages`). To complete an operation, the
// caller must bring the sender or receiver, which is as `Send` and `Sync` as its messages allow. A thread's
// handle is borrowed for the `Select` alone.
unsafe impl Send for Select<'_> {}
// SAFETY: a shared one can only be cloned.
unsafe impl Sync for Select<'_> {}

impl<'a> Select<'a> {
    /// Creates a set without operations. Of the operations that are ready, each has the same chance.
    #[must_use]
    pub fn new() -> Self {
        Self { operations: Vec::with_capacity(4), next: 0, biased: false }
    }

    /// Creates a set without operations. Of the operations that are ready, the one that was added first
    /// is selected.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    ///
    /// let (s, r) = channel::unbounded();
    /// let mut select = Select::new_biased();
    /// let sends = select.send(&s);
    /// select.recv(&r);
    /// for n in 0..10 {
    ///     let operation = select.select();
    ///     assert_eq!(operation.index(), sends);
    ///     operation.send(&s, n).unwrap();
    /// }
    /// ```
    #[must_use]
    pub fn new_biased() -> Self {
        Self { biased: true, ..Self::new() }
    }

    fn add(&mut self, operation: Operation<'a>) -> usize {
        let index = self.next;
        self.next += 1;
        self.operations.push((index, operation));
        index
    }

    /// Adds a send, and returns its index.
    pub fn send<T>(&mut self, sender: &'a Sender<T>) -> usize {
        self.add(Operation::Channel(&sender.channel))
    }

    /// Adds a receive, and returns its index.
    pub fn recv<T>(&mut self, receiver: &'a Receiver<T>) -> usize {
        self.add(Operation::Channel(receiver.port()))
    }

    /// Adds the end of a thread, and returns its index.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    /// use selvedge::{OneToOne, Runtime};
    ///
    /// let rt = OneToOne::new()?;
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut thread = rt.spawn(|| 7);
    ///
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// let end = select.join(&mut thread);
    /// let operation = select.select();
    /// assert_eq!(operation.index(), end);
    /// operation.join();
    /// assert_eq!(thread.join().unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If it is the end of the calling thread.
    pub fn join(&mut self, thread: &'a mut impl Join) -> usize {
        self.add(Operation::end(thread))
    }

    /// Removes an operation. Its index is not used again.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    ///
    /// let (_, gone) = channel::unbounded::<u32>();
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut select = Select::new();
    /// let first = select.recv(&gone);
    /// select.recv(&r);
    /// assert_eq!(select.try_ready(), Ok(first));
    /// select.remove(first);
    /// assert!(select.try_ready().is_err());
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no operation of that index, or it has been removed.
    pub fn remove(&mut self, index: usize) {
        assert!(index < self.next, "index out of bounds; {index} >= {}", self.next);
        let number = self.operations.iter().position(|&(other, _)| other == index);
        self.operations.remove(number.expect("no operation with this index"));
    }

    fn choose(&self, watches: bool, wait: Option<Wait>) -> Result<(usize, Deal), WaitError> {
        let operations = self.operations.iter().enumerate();
        let mut cases: Vec<_> = operations.map(|(number, (_, it))| Case::new(it.port(), number)).collect();
        let manner = Manner { watches, biased: self.biased, wait };
        choose(&mut cases, manner).map(|(number, deal)| (cases[number].index, deal))
    }

    fn select_by(&self, wait: Option<Wait>) -> Result<SelectedOperation<'a>, WaitError> {
        let (number, deal) = self.choose(false, wait)?;
        let (index, operation) = &self.operations[number];
        Ok(operation.selected(*index, deal))
    }

    fn ready_by(&self, wait: Option<Wait>) -> Result<usize, WaitError> {
        let (number, _) = self.choose(true, wait)?;
        Ok(self.operations[number].0)
    }

    /// Panics if a thread would wait for nothing, without a deadline.
    fn check(&self, wait: Wait) {
        let may_end = wait.deadline.is_some() || !self.operations.is_empty();
        assert!(may_end, "no operations have been added to `Select`");
    }

    /// Selects an operation if one is ready.
    ///
    /// # Errors
    ///
    /// If none is.
    ///
    /// # Blocks
    ///
    /// As [`Receiver::try_recv`].
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        self.select_by(None).map_err(|_| TrySelectError)
    }

    /// Selects an operation as soon as one is ready. A send or receive is also ready if it would return
    /// an error because the other side has gone.
    ///
    /// # Panics
    ///
    /// If there are no operations.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn select(&mut self) -> SelectedOperation<'a> {
        self.select_with(Wait::forever()).expect("a wait without a deadline ends with an operation")
    }

    timed! {
        select
        /// # Examples
        ///
        /// ```
        /// use selvedge::channel::{self, Select};
        /// use std::time::Duration;
        ///
        /// let (_s, r) = channel::unbounded::<u32>();
        /// let mut select = Select::new();
        /// select.recv(&r);
        /// assert!(select.select_timeout(Duration::from_millis(1)).is_err());
        /// ```
        ///
        /// # Errors
        ///
        /// If none became ready in time.
        pub fn select_timeout, select_deadline(&mut self)
            -> Result<SelectedOperation<'a>, SelectTimeoutError>
        {
            |limit| self.select_by(Some(limit())).map_err(|_| SelectTimeoutError)
        }
    }

    /// [`select`](Self::select) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(select.select_with(wait).unwrap_err(), WaitError::Interrupted);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations, and the wait has no deadline.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and no operation was selected.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn select_with(&mut self, wait: Wait) -> Result<SelectedOperation<'a>, WaitError> {
        self.check(wait);
        wait.run(|wait| self.select_by(Some(wait)))
    }
}

/// Waiting until one of the operations is ready, without doing any.
impl Select<'_> {
    /// Returns the index of an operation that is ready, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    ///
    /// # Blocks
    ///
    /// Never.
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.ready_by(None).map_err(|_| TryReadyError)
    }

    /// Returns the index of an operation as soon as it is ready. Does nothing with it. When the caller
    /// tries it, other threads may have been faster.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    ///
    /// let (s, r) = channel::unbounded();
    /// let mut select = Select::new();
    /// let receives = select.recv(&r);
    /// s.send(1).unwrap();
    /// assert_eq!(select.ready(), receives);
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations.
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready(&mut self) -> usize {
        self.ready_with(Wait::forever()).expect("a wait without a deadline ends with an operation")
    }

    timed! {
        ready
        /// # Errors
        ///
        /// If none became ready in time.
        pub fn ready_timeout, ready_deadline(&mut self) -> Result<usize, ReadyTimeoutError> {
            |limit| self.ready_by(Some(limit())).map_err(|_| ReadyTimeoutError)
        }
    }

    /// [`ready`](Self::ready) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::channel::{self, Select};
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (_s, r) = channel::unbounded::<u32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// thread::current().interrupt();
    /// assert_eq!(select.ready_with(Wait::forever().interruptible()), Err(WaitError::Interrupted));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no operations, and the wait has no deadline.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread, while no operation is ready.
    pub fn ready_with(&mut self, wait: Wait) -> Result<usize, WaitError> {
        self.check(wait);
        wait.run(|wait| self.ready_by(Some(wait)))
    }
}

impl Clone for Select<'_> {
    /// # Panics
    ///
    /// If the end of a thread is among the operations: a thread is joined once.
    fn clone(&self) -> Self {
        let operations = self.operations.iter().map(|(index, operation)| match operation {
            Operation::Channel(port) => (*index, Operation::Channel(*port)),
            Operation::End(..) => panic!("a `Select` with the end of a thread cannot be cloned"),
        });
        let operations = operations.collect();
        Self { operations, next: self.next, biased: self.biased }
    }
}

impl Default for Select<'_> {
    fn default() -> Self {
        Self::new()
    }
}

opaque! { [] Select<'_> }
