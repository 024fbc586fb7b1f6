//! `Control`: what the threads of a group share, whatever the type of its errors.

use std::any::Any;
use std::time::Instant;

use super::members::{Cause, Members};
use super::places::{Place, Places};
use crate::park::current::current;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::time::{self, Moment};

/// See the module.
pub(super) struct Control {
    pub(super) members: Members,
    pub(super) deadline: Option<Instant>,
    /// The thread that runs the group.
    owner: ThreadRef,
    places: Option<Places>,
    /// The payload of the first task that panicked.
    panic: QueueLock<Option<Payload>>,
}

/// What a panic is about.
type Payload = Box<dyn Any + Send>;

impl Control {
    pub(super) fn new(owner: ThreadRef, deadline: Option<Instant>, limit: Option<usize>) -> Self {
        Self {
            members: Members::new(),
            deadline,
            owner,
            places: limit.map(Places::new),
            panic: QueueLock::new(Rank::Pool, None),
        }
    }

    /// Returns the limits of all waits in the group.
    pub(super) fn wait(&self) -> Wait {
        Wait::by(self.deadline.map(Moment::of)).interruptible()
    }

    /// Cancels the group because a wait in it has ended. If the group is cancelled already, it does not report
    /// the interrupt of its owner, which keeps that for its next wait.
    pub(super) fn cancel_by(&self, why: WaitError) {
        let first = self.members.cancel(match why {
            WaitError::TimedOut => Cause::TimedOut,
            WaitError::Interrupted => Cause::Interrupted,
        });
        let me = current();
        if !first && why == WaitError::Interrupted && me == self.owner {
            me.interrupt();
        }
    }

    /// Returns what a wait in the group reports after the group was cancelled.
    pub(super) fn why(&self) -> WaitError {
        match self.members.cause() {
            Some(Cause::TimedOut) => WaitError::TimedOut,
            _ => WaitError::Interrupted,
        }
    }

    /// Keeps the payload of a task that has panicked, and cancels the group.
    pub(super) fn panicked(&self, payload: Payload) {
        // A later payload is dropped after the lock is free.
        let _later = self.panic.with(|first| match first {
            None => first.replace(payload),
            Some(_) => Some(payload),
        });
        self.members.cancel(Cause::Panicked);
    }

    /// Returns the payload of the first task that panicked.
    pub(super) fn take_panic(&self) -> Option<Payload> {
        self.panic.with(Option::take)
    }

    /// Returns `true` if the group is cancelled. Cancels it if its deadline has passed.
    pub(super) fn is_cancelled(&self) -> bool {
        if self.members.cause().is_none() && time::has_passed(self.deadline.map(Moment::of)) {
            self.cancel_by(WaitError::TimedOut);
        }
        self.members.cause().is_some()
    }

    /// Waits for a place, if the number of threads is limited. Returns `None` if no task may begin any more.
    pub(super) fn admit(&self) -> Option<Option<Place<'_>>> {
        if self.is_cancelled() {
            return None;
        }
        let place = self.places.as_ref().map(|places| places.take(self.wait())).transpose();
        place.map_err(|why| self.cancel_by(why)).ok()
    }
}
