//! Which threads run the tasks of a group, so that they can be interrupted, and whether they have been.
//!
//! **Problem.** The first error interrupts all other threads of the group. Some are about to begin, some are
//! about to end. A thread that begins too late must find out by itself. An interrupt must not reach a thread
//! that is no longer in the group, nor another thread that has the same core by then.
//!
//! **Rejected.**
//!
//! - A list of handles. It allocates for each task, and must be searched when one ends.
//! - To interrupt with the list locked. An interrupt takes other locks, and wakes.
//!
//! **Protocol.** Each thread has a [`Member`] in its frame, which lies in the list while its task runs.
//!
//! 1. *Begin.* Lock, look if the group is cancelled, link, unlock. If it is cancelled, the task does not run.
//! 2. *Cancel.* Move the word from `OPEN`; only one party does so. Then, again and again: lock, take the
//!    first member off the list, count a reference to its thread, unlock, interrupt the thread, release it.
//! 3. *End.* Lock, unlink the member if it is still in the list, unlock.
//!
//! **Proof.**
//!
//! - *Each thread learns of it.* The party that cancels changes the word before it first takes the lock. It
//!   stops after it has found the list empty. A thread that locks before that is found in the list, and one
//!   that locks later sees the word.
//! - *The frame lives while its member is used.* A member is used with the lock held. Its thread takes the
//!   lock before it leaves its frame.
//! - *No other thread is hit.* The counted reference is made while the thread stands in the frame. It keeps
//!   the core from its next life. If the task ends meanwhile, the flag is set for a thread that ends.
//!
//! **Cost.** Two locks for each task; two read-modify-writes more for each thread that is interrupted.

use std::ptr;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU8, Ordering};

/// Why a group is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cause {
    /// A task, or the group's closure, has returned an error.
    Failed = 1,
    /// One of them has panicked.
    Panicked = 2,
    /// The deadline has passed.
    TimedOut = 3,
    /// A thread that waited in the group was interrupted.
    Interrupted = 4,
}

/// The word of a group that is not cancelled. Any other value is a [`Cause`], and stays.
const OPEN: u8 = 0;

/// The threads of a group.
pub(super) struct Members {
    cause: AtomicU8,
    list: QueueLock<List>,
}

struct List {
    first: *const Member,
}

// SAFETY: the pointer is followed only with the lock held, which each member's thread takes before its frame
// ends.
unsafe impl Send for List {}

/// A thread that runs a task. It lies in the thread's frame.
struct Member {
    thread: ThreadRef,
    links: UnsafeCell<Links>,
}

/// Used only with the list locked.
struct Links {
    next: *const Member,
    previous: *const Member,
    linked: bool,
}

impl Members {
    pub(super) fn new() -> Self {
        Self { cause: AtomicU8::new(OPEN), list: QueueLock::new(Rank::Pool, List { first: ptr::null() }) }
    }

    /// Returns why the group is cancelled, or `None` if it is not.
    pub(super) fn cause(&self) -> Option<Cause> {
        // Acquire: what led to it is visible to a thread that looks. Pairs with `cancel`.
        match self.cause.load(Ordering::Acquire) {
            OPEN => None,
            cause if cause == Cause::Failed as u8 => Some(Cause::Failed),
            cause if cause == Cause::Panicked as u8 => Some(Cause::Panicked),
            cause if cause == Cause::TimedOut as u8 => Some(Cause::TimedOut),
            _ => Some(Cause::Interrupted),
        }
    }

    /// Runs `f` as a task of the running thread, `me`. Returns `None`, and drops `f`, if the group is
    /// cancelled.
    pub(super) fn run<R>(&self, me: ThreadRef, f: impl FnOnce() -> R) -> Option<R> {
        let links = Links { next: ptr::null(), previous: ptr::null(), linked: false };
        let member = Member { thread: me, links: UnsafeCell::new(links) };
        // Leaves, even if `f` unwinds.
        let _entered = self.enter(&member)?;
        Some(f())
    }

    /// Puts `member` into the list, unless the group is cancelled.
    fn enter<'a>(&'a self, member: &'a Member) -> Option<Entered<'a>> {
        let entered = self.list.with(|list| {
            // Relaxed: the lock orders it (see the proof).
            let open = self.cause.load(Ordering::Relaxed) == OPEN;
            if open {
                list.link(member);
            }
            open
        });
        entered.then_some(Entered { members: self, member })
    }

    /// Cancels the group, and interrupts its threads. Returns `false`, and does nothing, if the group is
    /// cancelled already. A caller whose own task still runs is interrupted, too.
    pub(super) fn cancel(&self, cause: Cause) -> bool {
        // Release: pairs with `cause`. Relaxed on failure: nothing is done then.
        let first = self.cause.compare_exchange(OPEN, cause as u8, Ordering::Release, Ordering::Relaxed);
        if first.is_ok() {
            while let Some(thread) = self.list.with(List::pop) {
                thread.interrupt();
                thread.release();
            }
        }
        first.is_ok()
    }
}

impl List {
    fn link(&mut self, member: &Member) {
        // SAFETY: the list is locked, and no other code has the member.
        member.links.with_mut(|links| unsafe {
            *links = Links { next: self.first, previous: ptr::null(), linked: true };
        });
        // SAFETY: null, or a member in the list, whose thread cannot leave without the lock that is held.
        if let Some(next) = unsafe { self.first.as_ref() } {
            // SAFETY: the list is locked.
            next.links.with_mut(|links| unsafe { (*links).previous = member });
        }
        self.first = member;
    }

    /// Takes `member` off the list, if it is there.
    fn unlink(&mut self, member: &Member) {
        // SAFETY: the list is locked.
        let (next, previous, linked) = member.links.with_mut(|links| unsafe {
            let links = &mut *links;
            (links.next, links.previous, std::mem::replace(&mut links.linked, false))
        });
        if !linked {
            return;
        }
        // SAFETY: null, or a member in the list, whose thread cannot leave without the lock that is held.
        if let Some(next) = unsafe { next.as_ref() } {
            // SAFETY: the list is locked.
            next.links.with_mut(|links| unsafe { (*links).previous = previous });
        }
        // SAFETY: null, or a member in the list, whose thread cannot leave without the lock that is held.
        match unsafe { previous.as_ref() } {
            // SAFETY: the list is locked.
            Some(previous) => previous.links.with_mut(|links| unsafe { (*links).next = next }),
            None => self.first = next,
        }
    }

    /// Takes the first member off the list. Returns its thread, with a counted reference for the caller.
    fn pop(&mut self) -> Option<ThreadRef> {
        // SAFETY: null, or a member in the list, whose thread cannot leave without the lock that is held.
        let member = unsafe { self.first.as_ref() }?;
        self.unlink(member);
        Some(member.thread.retain())
    }
}

/// Evidence that a member may be in the list. Takes it off when dropped.
struct Entered<'a> {
    members: &'a Members,
    member: &'a Member,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.members.list.with(|list| list.unlink(self.member));
    }
}

#[cfg(all(test, loom))]
mod loom_members;
