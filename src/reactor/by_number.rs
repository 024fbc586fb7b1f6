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
//! **Shape.** Each number has one entry for good. A thread whose call would block forgets what the entry's
//! word says, and asks the set anew. That is one system call, which reports what the descriptor is at that
//! moment. So a thread that forgets what another one waits for has it reported once more. Each waits for an
//! event that has come since it forgot, by the count of events, whatever others have made of the word. An
//! event of an earlier descriptor only makes a call be tried for nothing. And if a call has taken all that
//! there was, the next one may wait at once: should that be untrue, the set says so.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use super::entries::Entry;
use super::readiness::{Readiness, Seen};
use super::source::Direction;
use crate::park::no_preempt::NoPreempt;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::global;
use crate::shim::poll_set::{Event, Report};

/// Numbers in a page.
const PAGE: usize = 1 << 10;
/// Pages: more than the kernel's limit of descriptors, as a rule.
const PAGES: usize = 1 << 10;

type Page = [AtomicPtr<Entry>; PAGE];

global! {
    static NUMBERS: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(ptr::null_mut()) }; PAGES];
}

fn place(descriptor: RawFd) -> Option<(&'static AtomicPtr<Page>, usize)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((NUMBERS.get(number / PAGE)?, number % PAGE))
}

/// Returns the entry of a number that threads have waited for.
fn known(descriptor: RawFd) -> Option<&'static Entry> {
    let (page, at) = place(descriptor)?;
    // Acquire: pairs with `keep`.
    // SAFETY: null, or a page that is never freed.
    let page = unsafe { page.load(Ordering::Acquire).as_ref() }?;
    // Acquire: pairs with `keep`.
    // SAFETY: null, or an entry that is never given back.
    unsafe { page[at].load(Ordering::Acquire).as_ref() }
}

/// Returns the entry of a number, or `None` for a number that no descriptor has.
fn entry(descriptor: RawFd) -> Option<&'static Entry> {
    known(descriptor).or_else(|| make(descriptor))
}

#[cold]
fn make(descriptor: RawFd) -> Option<&'static Entry> {
    let (page, at) = place(descriptor)?;
    let page = keep(
        page,
        || Box::leak(Box::new([const { AtomicPtr::new(ptr::null_mut()) }; PAGE])),
        |page| {
            // SAFETY: leaked by this call, and no other thread has it.
            drop(unsafe { Box::from_raw(ptr::from_ref(page).cast_mut()) });
        },
    );
    Some(keep(&page[at], Entry::take, Entry::give_back))
}

/// Returns what is kept in `place`. If there is nothing, keeps what `make` returns; `drop` gets it if another
/// thread was faster.
fn keep<T>(
    place: &AtomicPtr<T>,
    make: impl FnOnce() -> &'static T,
    drop: impl FnOnce(&'static T),
) -> &'static T {
    // Acquire: pairs with the exchange.
    // SAFETY: null, or kept for good.
    if let Some(kept) = unsafe { place.load(Ordering::Acquire).as_ref() } {
        return kept;
    }
    let new = make();
    let pointer = ptr::from_ref(new).cast_mut();
    // Release: pairs with `known`. Acquire: as above.
    match place.compare_exchange(ptr::null_mut(), pointer, Ordering::Release, Ordering::Acquire) {
        Ok(_) => new,
        Err(kept) => {
            drop(new);
            // SAFETY: another thread keeps it there for good.
            unsafe { &*kept }
        }
    }
}

/// What was known of a descriptor before a call.
pub(crate) struct Look(&'static Readiness, Seen);

impl Look {
    /// Looks at a descriptor. Returns `None` if no thread has waited for its number.
    #[inline]
    pub(crate) fn at(descriptor: RawFd, direction: Direction) -> Option<Self> {
        let readiness = direction.of(known(descriptor)?);
        Some(Self(readiness, readiness.look()))
    }

    /// Returns `true` unless a call on it has taken all that there was, and no event has come since.
    pub(crate) fn is_ready(&self) -> bool {
        self.1.is_ready()
    }

    /// Notes that a call has taken all that there was.
    pub(crate) fn note_used_up(self) {
        self.0.is_used_up(self.1);
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
    let readiness = direction.of(entry);
    let seen = readiness.forget();
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
