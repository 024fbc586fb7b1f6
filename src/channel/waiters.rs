//! Who waits at a channel: lists of places in the waiters' own frames.
//!
//! A [`Place`] is one way in which a thread can be served. A thread that sends or receives has one, and is won by who takes it out of
//! its list; a thread that selects has one for each operation, in as many lists, and must be claimed besides
//! (`park/sleeper.rs`). Whoever takes out a place whose thread somebody else has claimed forgets it: that thread is on its way, and
//! will find that it is out already.
//!
//! Order: by the threads' priority; among equals, green threads as they came, kernel threads near-LIFO: the last to come is likely still
//! awake, and is served without a system call, while the others sleep undisturbed. (First in, first out, each message woke
//! another thread: four senders and a full channel, 320 ns a message.) Every [`FIFO_EVERY`]th goes to the back, so that the first
//! does not wait for ever. Whoever stands last and has let [`PASSES`] of higher priority pass is next.
//!
//! All of this happens with the channel's lock held.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::park::sleeper::Sleeper;
use crate::park::wait_queue::Grant;
use crate::shim::UnsafeCell;

/// As in the wait queues (`park/table.rs`).
const PASSES: u32 = 16;
/// As there.
const FIFO_EVERY: u32 = 16;

/// A place in a list.
pub(super) struct Place {
    links: UnsafeCell<Links>,
    /// The next of those that were won with it (`List::take_all`).
    won: UnsafeCell<*const Place>,
    sleeper: *const Sleeper,
    role: Role,
}

/// What the thread waits for, besides this.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// Nothing. Its message is, or is to go, here: a `T`.
    Alone(*mut ()),
    /// Other operations: this is the one of that number.
    OneOf { number: u32, deal: *const UnsafeCell<Deal> },
}

/// What who selects has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deal {
    /// Nothing so far.
    Open,
    /// The other side has gone: the operation gives an error.
    Disconnected,
    /// The operation does not wait, as far as could be seen. For those who asked for no more.
    Ready,
    /// Receives: a message, in a cell.
    Message(NonNull<()>),
    /// Receives from a clock: the message.
    Struck(Instant),
    /// Sends: the channel keeps room for a message.
    Room,
    /// Sends for which there is no room: a receiver sleeps for this message; it has been won, and is to be settled by us.
    Partner(*const Place),
}

struct Links {
    next: *const Place,
    prev: *const Place,
    linked: bool,
}

impl Place {
    pub(super) fn new(sleeper: *const Sleeper, role: Role) -> Self {
        let links = Links { next: ptr::null(), prev: ptr::null(), linked: false };
        Self { links: UnsafeCell::new(links), won: UnsafeCell::new(ptr::null()), sleeper, role }
    }

    /// Of a thread that waits for nothing else; its message is in `slot`, or is to go there.
    #[inline]
    pub(super) fn alone<T>(sleeper: &Sleeper, slot: &UnsafeCell<MaybeUninit<T>>) -> Self {
        Self::new(sleeper, Role::Alone(slot.with_mut(|slot| slot).cast()))
    }

    #[inline]
    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn is_alone(&self) -> bool {
        matches!(self.role, Role::Alone(_))
    }

    /// Called with the lock of its list held.
    #[inline]
    fn links<R>(&self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the lock is held, and `f` does not call back.
        self.links.with_mut(|links| f(unsafe { &mut *links }))
    }

    /// Whether the thread is the caller's to settle, now that the place is out of its list.
    #[inline]
    fn is_won(&self) -> bool {
        // SAFETY: its thread stays until it has found the place out of the list, with the lock held.
        let sleeper = unsafe { &*self.sleeper };
        // In the child of a fork its thread is not there.
        (self.is_alone() || sleeper.try_claim()) && !sleeper.is_lost()
    }

    /// Says to the thread what it has got, and settles it.
    ///
    /// # Safety
    /// The caller has won it, and settles it once.
    #[inline]
    pub(super) unsafe fn settle(this: *const Self, code: u32, got: Deal) -> Grant {
        // SAFETY: a thread that is not settled is there, with its frames.
        let place = unsafe { &*this };
        let code = match place.role {
            Role::Alone(_) => code,
            Role::OneOf { number, deal } => {
                // SAFETY: as above; the thread reads it when it has been settled.
                unsafe { &*deal }.with_mut(|deal| unsafe { *deal = got });
                number
            }
        };
        // SAFETY: the caller's promise.
        unsafe { Sleeper::settle(place.sleeper, code) }
    }
}

/// Waiting threads, in the order in which they are served.
pub(super) struct List {
    pub(super) first: *const Place,
    last: *const Place,
    /// Of kernel threads, where somebody was.
    arrivals: u32,
    /// How often somebody was served before others of lower priority, since one of those was.
    passed: u32,
}

/// A linked place, as a reference.
///
/// # Safety
/// It is in a list whose lock is held for as long as the reference is used, or its thread is the caller's to settle.
#[inline]
unsafe fn linked<'a>(place: *const Place) -> &'a Place {
    // SAFETY: its thread cannot leave without the lock, or before it is settled.
    unsafe { &*place }
}

impl List {
    pub(super) const fn new() -> Self {
        Self { first: ptr::null(), last: ptr::null(), arrivals: 0, passed: 0 }
    }

    /// Nobody is there, not even somebody who has been claimed by others.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds a place.
    ///
    /// # Safety
    /// It is in no list, and stays where it is until it is out of this one.
    #[inline]
    pub(super) unsafe fn link(&mut self, place: &Place) {
        let to_front = !self.is_empty() && self.goes_first(place);
        let mine = Self::priority(place);
        let mut before = if to_front { ptr::null() } else { self.last };
        if to_front {
            let mut next = self.first;
            // SAFETY: null, or in the list.
            while let Some(there) = unsafe { next.as_ref() }.filter(|there| Self::priority(there) > mine) {
                before = next;
                next = there.links(|links| links.next);
            }
        }
        // SAFETY: null, or in the list.
        while let Some(there) = unsafe { before.as_ref() }.filter(|there| Self::priority(there) < mine) {
            before = there.links(|links| links.prev);
        }
        // SAFETY: null, or in the list.
        let after = match unsafe { before.as_ref() } {
            Some(there) => there.links(|links| std::mem::replace(&mut links.next, place)),
            None => std::mem::replace(&mut self.first, place),
        };
        // SAFETY: null, or in the list.
        match unsafe { after.as_ref() } {
            Some(there) => there.links(|links| links.prev = place),
            None => self.last = place,
        }
        place.links(|links| *links = Links { next: after, prev: before, linked: true });
    }

    /// Whether a place goes before its equals.
    fn goes_first(&mut self, place: &Place) -> bool {
        // SAFETY: the place is about to be linked: its thread is there.
        let kernel = unsafe { &*place.sleeper }.is_kernel();
        if kernel {
            self.arrivals = self.arrivals.wrapping_add(1);
        }
        kernel && !self.arrivals.is_multiple_of(FIFO_EVERY)
    }

    fn priority(place: &Place) -> u8 {
        // SAFETY: the place is linked, or about to be: its thread is there.
        unsafe { &*place.sleeper }.priority()
    }

    /// Takes a place out; `false`: somebody has done so before.
    #[inline]
    pub(super) fn unlink(&mut self, place: &Place) -> bool {
        let Links { next, prev, linked: was_linked, .. } = place.links(|links| {
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

    /// Who is next, whether or not it can be won.
    #[inline]
    fn next(&mut self) -> Option<*const Place> {
        if self.first == self.last {
            self.passed = 0;
            return (!self.first.is_null()).then_some(self.first);
        }
        // SAFETY: in the list.
        let first = unsafe { linked(self.first) };
        // SAFETY: as above.
        let last = unsafe { linked(self.last) };
        self.passed = if Self::priority(last) < Self::priority(first) { self.passed + 1 } else { 0 };
        if self.passed <= PASSES {
            return Some(self.first);
        }
        self.passed = 0;
        Some(self.first_of_last())
    }

    /// Of those with the lowest priority, the one that has waited longest; of kernel threads, who go before their equals, the last.
    #[cold]
    fn first_of_last(&self) -> *const Place {
        let mut found = self.last;
        // SAFETY: in the list.
        let last = unsafe { linked(found) };
        // SAFETY: its thread is there.
        let kernel = unsafe { &*last.sleeper }.is_kernel();
        let lowest = Self::priority(last);
        loop {
            // SAFETY: in the list.
            let prev = unsafe { linked(found) }.links(|links| links.prev);
            // SAFETY: null, or in the list.
            match unsafe { prev.as_ref() } {
                Some(there) if !kernel && Self::priority(there) == lowest => found = prev,
                _ => return found,
            }
        }
    }

    /// Takes out the next that can be won, and wins it. Stops before one that `admits` says no to: `Err`.
    #[inline]
    pub(super) fn pop_if(&mut self, admits: impl Fn(&Place) -> bool) -> Result<Option<*const Place>, ()> {
        while let Some(next) = self.next() {
            // SAFETY: in the list.
            let place = unsafe { linked(next) };
            if !admits(place) {
                return Err(());
            }
            self.unlink(place);
            if place.is_won() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// [`pop_if`](Self::pop_if) without a condition.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<*const Place> {
        self.pop_if(|_| true).unwrap_or(None)
    }

    /// Whether somebody is there who could be won this moment.
    pub(super) fn has_some(&self) -> bool {
        let mut place = self.first;
        // SAFETY: null, or in the list.
        while let Some(there) = unsafe { place.as_ref() } {
            // SAFETY: a linked place's thread is there.
            let sleeper = unsafe { &*there.sleeper };
            if (there.is_alone() || !sleeper.is_claimed()) && !sleeper.is_lost() {
                return true;
            }
            place = there.links(|links| links.next);
        }
        false
    }

    /// Takes all out, and wins those who can be won: a list, by `next`, that goes on with `rest`.
    pub(super) fn take_all(&mut self, rest: *const Place) -> *const Place {
        let mut first = rest;
        while let Some(place) = self.pop() {
            // SAFETY: won by us.
            unsafe { linked(place) }.won.with_mut(|won| unsafe { *won = first });
            first = place;
        }
        first
    }
}

#[cfg(test)]
impl List {
    /// How many are there.
    pub(super) fn len(&self) -> usize {
        let (mut place, mut len) = (self.first, 0);
        // SAFETY: null, or in the list.
        while let Some(there) = unsafe { place.as_ref() } {
            place = there.links(|links| links.next);
            len += 1;
        }
        len
    }
}

/// The next in a list of those that have been won.
///
/// # Safety
/// `place` is from [`List::take_all`], and not settled.
pub(super) unsafe fn next_won(place: *const Place) -> *const Place {
    // SAFETY: the caller's promise, and it is for who has won it alone. (Its links are not: a deadline may look whether it is linked.)
    unsafe { linked(place) }.won.with(|won| unsafe { *won })
}
