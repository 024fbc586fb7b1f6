//! Descriptors that this crate knows by their numbers only: those of a program that has never heard of it.
//!
//! **Problem.** A number says little. Its descriptor may be closed where this crate does not see it, and the
//! number then belongs to another. Two threads may wait for it at once, in different runtimes.
//!
//! **Rejected.**
//!
//! - An entry for each wait: a descriptor has one token in a set, so the second waiter would take the first
//!   one's events away.
//! - To note that a set has the descriptor already, as [`source`](super::source) does: nothing says when that
//!   stops being true.
//!
//! **Shape.** Each number has one entry for good (`numbers.rs`). If a thread's call would block, the thread
//! forgets what the entry's word says, and asks the set anew. That is one system call, which reports what the
//! descriptor is at that moment. So a thread that forgets what another one waits for has it reported once
//! more. Each waits for an event that has come since it forgot, by the count of events, whatever others have
//! made of the word. An event of an earlier descriptor only makes a call be tried for nothing. And if a call
//! has taken all that there was, the next one may wait at once: should that be untrue, the set says so.
//!
//! A [`source`](super::source) of the descriptor does not ask anew, and messages may be shorter than the room
//! for them. So nothing is forgotten or noted in a word that sources share. One that comes meanwhile adds the
//! descriptor after that, and has it reported.

use std::io;
use std::os::fd::RawFd;

use super::entries::Entry;
use super::numbers::{entry, known};
use super::readiness::Seen;
use super::source::Direction;
use crate::park::no_preempt::NoPreempt;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::shim::poll_set::{Event, Report};

/// What was known of a descriptor before a call.
pub(crate) struct Look {
    entry: &'static Entry,
    direction: Direction,
    seen: Seen,
}

impl Look {
    /// Looks at a descriptor. Returns `None` if no thread has waited for its number.
    #[inline]
    pub(crate) fn at(descriptor: RawFd, direction: Direction) -> Option<Self> {
        let entry = known(descriptor)?;
        Some(Self { entry, direction, seen: direction.of(entry).look() })
    }

    /// Returns `true` unless a call on it has taken all that there was, and no event has come since.
    pub(crate) fn is_ready(&self) -> bool {
        self.seen.is_ready()
    }

    /// Notes that a call has taken all that there was.
    pub(crate) fn note_used_up(self) {
        if !self.entry.has_sources() {
            self.direction.of(self.entry).is_used_up(self.seen);
        }
    }
}

/// Waits until a call on `descriptor` may not block any more, or as `wait` says. A call of `me`, the running
/// thread, would have blocked.
///
/// # Errors
///
/// If the descriptor cannot be waited for, and the wait's.
pub(crate) fn until_ready(
    me: ThreadRef,
    descriptor: RawFd,
    direction: Direction,
    wait: Wait,
) -> io::Result<()> {
    let entry = entry(descriptor).ok_or(io::ErrorKind::Unsupported)?;
    entry.keep();
    let readiness = direction.of(entry);
    let seen = if entry.has_sources() { readiness.look() } else { readiness.forget() };
    {
        // The set may be made in this call, and other threads wait for that.
        let _no_preempt = NoPreempt::hold();
        me.backend().watch_anew(descriptor, entry.token())?;
    }
    readiness.wait_since(seen, direction.reason(), wait)?;
    Ok(())
}

/// Lets all threads that wait for `descriptor` try their calls again: it has been closed.
pub(crate) fn closed(descriptor: RawFd) {
    let Some(entry) = known(descriptor) else { return };
    let token = entry.token();
    let event = Event { token, read: Some(Report::Ready), write: Some(Report::Ready) };
    Entry::event(event, |grants| _ = grants.wake_all());
}
