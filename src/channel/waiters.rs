//! The threads that wait at a channel: lists of entries in the waiters' own frames.
//!
//! An [`Entry`] is one way in which a thread can be served. A thread that sends or receives has one entry.
//! Taking it out of its list wins the thread. A thread that selects has one entry for each operation, in
//! as many lists, and must be claimed besides (`park/sleeper.rs`). If a thread takes out an entry and
//! finds that its thread has been claimed by another, it ignores the entry. The claimed thread is on its
//! way, and will find the entry out of the list.
//!
//! *Order*: by the threads' priority. Among equals, green threads come in order of arrival, kernel
//! threads near-LIFO: the last to arrive is probably still awake. It is served without a system call,
//! while the others sleep undisturbed. (First in, first out, each message woke another thread: four
//! senders and a full channel, 320 ns a message.) Every [`FIFO_EVERY`]th kernel thread goes to the back,
//! so the first does not wait forever. If the last in the list has let [`MAX_BYPASS`] of higher priority
//! pass, one of its priority is next.
//!
//! All of this happens with the channel's lock held.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::park::sleeper::Sleeper;
use crate::park::wait_queue::Grant;
use crate::shim::UnsafeCell;

/// As in the wait queues (`park/table.rs`).
const MAX_BYPASS: u32 = 16;
/// As in the wait queues, too.
const FIFO_EVERY: u32 = 16;

/// An entry in a list.
pub(super) struct Entry {
    links: UnsafeCell<Links>,
    /// The next of the entries that were won with it (`List::take_all`).
    won: UnsafeCell<*const Entry>,
    sleeper: *const Sleeper,
    role: Role,
}

/// What else the thread waits for.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// Nothing. Its message, a `T`, is here, or is to go here.
    Alone(*mut ()),
    /// Other operations; `number` is that of this one.
    OneOf { number: u32, deal: *const UnsafeCell<Deal> },
}

/// What a thread that selects has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deal {
    /// Nothing so far.
    Open,
    /// The other side has gone: the operation returns an error.
    Disconnected,
    /// The operation does not wait, as far as could be seen. For threads that asked for no more.
    Ready,
    /// Receives: a message, in a cell.
    Message(NonNull<()>),
    /// Receives from a clock: the message.
    Struck(Instant),
    /// Sends: the channel keeps room for a message.
    Room,
    /// Sends without room: a receiver sleeps for this message. We have won it, and are to settle it.
    Partner(*const Entry),
}

struct Links {
    next: *const Entry,
    prev: *const Entry,
    linked: bool,
}

impl Entry {
    pub(super) fn new(sleeper: *const Sleeper, role: Role) -> Self {
        let links = Links { next: ptr::null(), prev: ptr::null(), linked: false };
        Self { links: UnsafeCell::new(links), won: UnsafeCell::new(ptr::null()), sleeper, role }
    }

    /// Creates the entry of a thread that waits for nothing else. Its message is in `frame`, or is to go
    /// there.
    #[inline]
    pub(super) fn alone<T>(sleeper: &Sleeper, frame: &UnsafeCell<MaybeUninit<T>>) -> Self {
        Self::new(sleeper, Role::Alone(frame.with_mut(|frame| frame).cast()))
    }

    #[inline]
    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn is_alone(&self) -> bool {
        matches!(self.role, Role::Alone(_))
    }

    /// Runs `f` on the links. Called with the lock of its list held.
    #[inline]
    fn links<R>(&self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the lock is held, and `f` does not call back.
        self.links.with_mut(|links| f(unsafe { &mut *links }))
    }

    /// Returns `true` if the caller is to settle the thread, after it has taken the entry out of its
    /// list.
    #[inline]
    fn is_won(&self) -> bool {
        // SAFETY: its thread stays until it has found the entry out of the list, with the lock held.
        let sleeper = unsafe { &*self.sleeper };
        // In the child of a fork, the thread does not exist.
        (self.is_alone() || sleeper.try_claim()) && !sleeper.is_lost()
    }

    /// Tells the thread what it has got, and settles it.
    ///
    /// # Safety
    /// The caller has won the thread, and settles it once.
    #[inline]
    pub(super) unsafe fn settle(this: *const Self, code: u32, got: Deal) -> Grant {
        // SAFETY: a thread that is not settled exists, with its frames.
        let entry = unsafe { &*this };
        let code = match entry.role {
            Role::Alone(_) => code,
            Role::OneOf { number, deal } => {
                // SAFETY: the frame exists until the thread is settled; the thread reads it after that.
                unsafe { &*deal }.with_mut(|deal| unsafe { *deal = got });
                number
            }
        };
        // SAFETY: the caller's promise.
        unsafe { Sleeper::settle(entry.sleeper, code) }
    }
}

/// The threads of one side of a channel.
pub(super) struct Party {
    /// Those that wait to send, or to receive.
    pub(super) waiting: List,
    /// Those that wait until they could. A thread that does the other thing tells them.
    pub(super) watching: List,
    /// The side has no handle any more.
    pub(super) gone: bool,
}

impl Party {
    pub(super) fn new() -> Self {
        Self { waiting: List::new(), watching: List::new(), gone: false }
    }
}

/// Waiting threads, in the order in which they are served.
pub(super) struct List {
    pub(super) first: *const Entry,
    last: *const Entry,
    /// How many kernel threads came while the list was not empty.
    arrivals: u32,
    /// How often threads were served before others of lower priority, since one of those was.
    passed: u32,
}

/// Returns a linked entry as a reference.
///
/// # Safety
/// While the reference is used, the entry is in a list and its lock is held. Otherwise the caller is to
/// settle its thread.
#[inline]
unsafe fn linked<'a>(entry: *const Entry) -> &'a Entry {
    // SAFETY: its thread cannot leave without the lock, or before it is settled.
    unsafe { &*entry }
}

impl List {
    pub(super) const fn new() -> Self {
        Self { first: ptr::null(), last: ptr::null(), arrivals: 0, passed: 0 }
    }

    /// Returns `true` if the list has no entry, not even of a thread that others have claimed.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The entry is in no list, and stays where it is until it is out of this one.
    #[inline]
    pub(super) unsafe fn link(&mut self, entry: &Entry) {
        let to_front = !self.is_empty() && self.goes_first(entry);
        let mine = Self::priority(entry);
        let before = self.last_ahead(|priority| priority > mine || (!to_front && priority == mine));
        // SAFETY: null, or in the list.
        let after = match unsafe { before.as_ref() } {
            Some(there) => there.links(|links| std::mem::replace(&mut links.next, entry)),
            None => std::mem::replace(&mut self.first, entry),
        };
        // SAFETY: null, or in the list.
        match unsafe { after.as_ref() } {
            Some(there) => there.links(|links| links.prev = entry),
            None => self.last = entry,
        }
        entry.links(|links| *links = Links { next: after, prev: before, linked: true });
    }

    /// Returns the last entry with a priority that `is_ahead`; null if there is none. They are in front of
    /// the others. Looks from both ends: there may be many on one side.
    #[inline]
    fn last_ahead(&self, is_ahead: impl Fn(u8) -> bool) -> *const Entry {
        let (mut front, mut back) = (self.first, self.last);
        loop {
            // SAFETY: null, or in the list.
            match unsafe { back.as_ref() } {
                Some(there) if !is_ahead(Self::priority(there)) => back = there.links(|links| links.prev),
                _ => return back,
            }
            // SAFETY: null, or in the list.
            match unsafe { front.as_ref() } {
                Some(there) if is_ahead(Self::priority(there)) => front = there.links(|links| links.next),
                // (Null if a priority has changed meanwhile.)
                there => return there.map_or(self.last, |there| there.links(|links| links.prev)),
            }
        }
    }

    /// Returns `true` if an entry goes before its equals.
    fn goes_first(&mut self, entry: &Entry) -> bool {
        // SAFETY: the entry is about to be linked: its thread exists.
        let kernel = unsafe { &*entry.sleeper }.is_kernel();
        if kernel {
            self.arrivals = self.arrivals.wrapping_add(1);
        }
        kernel && !self.arrivals.is_multiple_of(FIFO_EVERY)
    }

    fn priority(entry: &Entry) -> u8 {
        // SAFETY: the entry is linked, or about to be: its thread exists.
        unsafe { &*entry.sleeper }.priority()
    }

    /// Takes an entry out. Returns `false` if it was out already.
    #[inline]
    pub(super) fn unlink(&mut self, entry: &Entry) -> bool {
        let Links { next, prev, linked: was_linked, .. } = entry.links(|links| {
            let linked = std::mem::replace(&mut links.linked, false);
            Links { linked, ..*links }
        });
        if !was_linked {
            return false;
        }
        // SAFETY: null, or in the list.
        match unsafe { prev.as_ref() } {
            Some(there) => there.links(|links| links.next = next),
            None => self.first = next,
        }
        // SAFETY: null, or in the list.
        match unsafe { next.as_ref() } {
            Some(there) => there.links(|links| links.prev = prev),
            None => self.last = prev,
        }
        true
    }

    /// Returns the next entry, even if it cannot be won.
    #[inline]
    fn next(&mut self) -> Option<*const Entry> {
        if self.first == self.last {
            self.passed = 0;
            return (!self.first.is_null()).then_some(self.first);
        }
        // SAFETY: in the list.
        let first = unsafe { linked(self.first) };
        // SAFETY: in the list.
        let last = unsafe { linked(self.last) };
        self.passed = if Self::priority(last) < Self::priority(first) { self.passed + 1 } else { 0 };
        if self.passed <= MAX_BYPASS {
            return Some(self.first);
        }
        self.passed = 0;
        Some(self.first_of_last())
    }

    /// Returns the entry that has waited longest among those with the lowest priority. If these are
    /// kernel threads, which go before their equals, that is the last.
    #[cold]
    fn first_of_last(&self) -> *const Entry {
        // SAFETY: in the list.
        let last = unsafe { linked(self.last) };
        // SAFETY: its thread exists.
        if unsafe { &*last.sleeper }.is_kernel() {
            return self.last;
        }
        let lowest = Self::priority(last);
        // SAFETY: null, or in the list.
        let found = match unsafe { self.last_ahead(|priority| priority > lowest).as_ref() } {
            Some(there) => there.links(|links| links.next),
            None => self.first,
        };
        // It is null if the priority of the last has changed meanwhile.
        if found.is_null() { self.last } else { found }
    }

    /// Takes out the next entry that can be won, and wins it. Stops with `Err` before one that `admits`
    /// refuses.
    #[inline]
    pub(super) fn pop_if(&mut self, admits: impl Fn(&Entry) -> bool) -> Result<Option<*const Entry>, ()> {
        while let Some(next) = self.next() {
            // SAFETY: in the list.
            let entry = unsafe { linked(next) };
            if !admits(entry) {
                return Err(());
            }
            self.unlink(entry);
            if entry.is_won() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// [`pop_if`](Self::pop_if) without a condition.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<*const Entry> {
        self.pop_if(|_| true).unwrap_or(None)
    }

    /// Returns `true` if there is a thread that could be won at this moment. Takes out the entries before it:
    /// none of those will ever be won, and each look would pass them again.
    pub(super) fn has_some(&mut self) -> bool {
        // SAFETY: null, or in the list.
        while let Some(there) = unsafe { self.first.as_ref() } {
            // SAFETY: the thread of a linked entry exists.
            let sleeper = unsafe { &*there.sleeper };
            if (there.is_alone() || !sleeper.is_claimed()) && !sleeper.is_lost() {
                return true;
            }
            self.unlink(there);
        }
        false
    }

    /// Takes all out, and wins those that can be won. Returns them as a list, by `won`, that goes on with
    /// `rest`. None is passed by, so none is looked for.
    pub(super) fn take_all(&mut self, rest: *const Entry) -> *const Entry {
        let mut first = rest;
        // SAFETY: null, or in the list.
        while let Some(entry) = unsafe { self.first.as_ref() } {
            self.unlink(entry);
            if entry.is_won() {
                // SAFETY: we have won it.
                entry.won.with_mut(|won| unsafe { *won = first });
                first = entry;
            }
        }
        first
    }
}

#[cfg(test)]
impl List {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        let (mut entry, mut len) = (self.first, 0);
        // SAFETY: null, or in the list.
        while let Some(there) = unsafe { entry.as_ref() } {
            entry = there.links(|links| links.next);
            len += 1;
        }
        len
    }
}

/// Returns the next in a list of entries that have been won.
///
/// # Safety
/// `entry` is from [`List::take_all`], and not settled.
pub(super) unsafe fn next_won(entry: *const Entry) -> *const Entry {
    // SAFETY: the caller's promise. `won` is for the thread that has won the entry alone. (Its links are
    // not: a deadline may look if it is linked.)
    unsafe { linked(entry) }.won.with(|won| unsafe { *won })
}
