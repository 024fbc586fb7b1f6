//! The sibling of `poll_set.rs` for systems without epoll. There is no set: `new` returns an error, and a
//! thread that wants to wait for a descriptor blocks in its call.

use std::io;
use std::time::Duration;

pub(crate) use super::poll_event::{Event, Report, Unrung};

/// There is none.
#[derive(Debug)]
pub(crate) enum PollSet {}

impl PollSet {
    stand_in! {
        pub(crate) fn new() -> io::Result<Self> = Err(io::ErrorKind::Unsupported.into());
        pub(crate) fn add(&self, descriptor: i32, token: u64) -> io::Result<()> = match *self {};
        pub(crate) fn renew(&self, descriptor: i32, token: u64) -> io::Result<()> = match *self {};
        pub(crate) fn ring(&self) -> Result<(), Unrung> = match *self {};
        pub(crate) fn look(&self, events: &mut Events) -> bool = match *self {};
        pub(crate) fn sleep(&self, events: &mut Events, timeout: Option<Duration>) -> bool = match *self {};
    }
}

/// None.
pub(crate) struct Events(());

impl Events {
    stand_in! {
        pub(crate) fn new() -> Self = Self(());
        pub(crate) fn iter(&self) -> impl Iterator<Item = Event> = std::iter::empty();
    }
}
