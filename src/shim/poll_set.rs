//! A set of descriptors after the contract of `sys/poll_set.rs`. A model has one.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};

pub(crate) use crate::sys::poll_set::{Event, Report, Unrung};

loom::lazy_static! {
    static ref KERNEL: Kernel = Kernel { state: Mutex::new(State::default()), changed: Condvar::new() };
}

struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    events: Vec<Event>,
}

/// What the set is made of: each use comes after its creation.
#[derive(Debug)]
pub(crate) struct PollSet(UnsafeCell<()>);

// SAFETY: after its creation, the cell is only read.
unsafe impl Sync for PollSet {}

impl PollSet {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(UnsafeCell::new(())))
    }

    fn exists(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn add(&self, _descriptor: i32, _token: u64) -> io::Result<()> {
        self.exists();
        Ok(())
    }

    pub(crate) fn renew(&self, _descriptor: i32, _token: u64) -> io::Result<()> {
        self.exists();
        Ok(())
    }

    pub(crate) fn ring(&self) -> Result<(), Unrung> {
        self.exists();
        if HAS_OWN.with(Cell::get) {
            return Err(Unrung::OtherTable);
        }
        KERNEL.state.lock().unwrap().rung = true;
        KERNEL.changed.notify_all();
        Ok(())
    }

    pub(crate) fn look(&self, events: &mut Events) -> bool {
        self.exists();
        events.0 = std::mem::take(&mut KERNEL.state.lock().unwrap().events);
        true
    }

    /// No time passes in the set.
    pub(crate) fn sleep(&self, events: &mut Events, _timeout: Option<Duration>) -> bool {
        self.exists();
        let mut state = KERNEL.state.lock().unwrap();
        while !state.rung && state.events.is_empty() {
            state = KERNEL.changed.wait(state).unwrap();
        }
        state.rung = false;
        events.0 = std::mem::take(&mut state.events);
        true
    }
}

loom::thread_local! {
    static HAS_OWN: Cell<bool> = Cell::new(false);
}

/// Gives the calling thread of the model a table of descriptors of its own, in which the set is not.
#[cfg(test)]
pub(crate) fn leave_table() {
    HAS_OWN.with(|has_own| has_own.set(true));
}

/// Something happens to a descriptor.
#[cfg(test)]
pub(crate) fn happen(event: Event) {
    KERNEL.state.lock().unwrap().events.push(event);
    KERNEL.changed.notify_all();
}

pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> {
        self.0.iter().copied()
    }
}
