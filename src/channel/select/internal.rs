//! The functions that the macros call. Not for other use.

use super::run::{Case, Manner, choose};
use super::{Join, Operation, SelectedOperation};
use crate::channel::receiver::Receiver;
use crate::channel::sender::Sender;
use crate::thread::{self, JoinHandle, ScopedJoinHandle};

pub use crate::park::wait::Wait;

pub use __selvedge_select_arm as arm;
pub use __selvedge_select_arms as arms;
pub use __selvedge_select_choose as choose_by;
pub use __selvedge_select_default as default;

/// An operation of a `select!`.
pub struct Arm<'a>(Operation<'a>);

opaque! { [] Arm<'_> }

pub fn send<T>(sender: &Sender<T>) -> Arm<'_> {
    Arm(Operation::Channel(&sender.channel))
}

pub fn recv<T>(receiver: &Receiver<T>) -> Arm<'_> {
    Arm(Operation::Channel(receiver.port()))
}

pub fn join<J: Join>(thread: &mut J) -> Arm<'_> {
    Arm(Operation::end(thread))
}

/// Returns the selected operation. If none was, its index is that of no arm. It is not an `Option`, which
/// would hold on to what the arms have borrowed, although an arm uses it up.
pub fn select<const N: usize>(arms: [Arm<'_>; N], biased: bool, wait: Option<Wait>) -> SelectedOperation<'_> {
    let mut cases: [Case<'_>; N] = std::array::from_fn(|index| Case::new(arms[index].0.port(), index));
    match choose(&mut cases, Manner { watches: false, biased, wait }) {
        Ok((number, deal)) => {
            let index = cases[number].index;
            arms[index].0.selected(index, deal)
        }
        Err(_) => SelectedOperation::of_nothing(),
    }
}

/// A handle of a thread that has ended.
pub trait Joined {
    type Result;

    fn joined(self) -> Self::Result;
}

impl<T> Joined for JoinHandle<T> {
    type Result = thread::Result<T>;

    fn joined(self) -> Self::Result {
        self.join()
    }
}

impl<T> Joined for ScopedJoinHandle<'_, T> {
    type Result = thread::Result<T>;

    fn joined(self) -> Self::Result {
        self.join()
    }
}

impl<J: Joined> Joined for &mut Option<J> {
    type Result = J::Result;

    fn joined(self) -> Self::Result {
        self.take().expect("a thread that is not there does not end").joined()
    }
}
