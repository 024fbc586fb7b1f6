//! All rings of the process, each with the account of its kernel thread, and the waits of threads that were
//! dispatched there. They are never freed. When its kernel thread has ended, another one takes the ring, and
//! its events follow those that are there. Between them is a mark that names both owners
//! ([`Taken`](super::event::Kind::Taken)).

use std::ptr;

use super::account::Account;
use super::event::Event;
use super::late::Late;
use super::ring::Ring;
use super::waits::Waits;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shim::global;

/// A ring in the list of all.
#[derive(Debug)]
pub(crate) struct Listed {
    ring: Ring,
    account: Account,
    /// How long threads waited that were dispatched there.
    waits: Waits,
    /// Which ring it is, in the order of their making, from 1 on. Set before others know the ring.
    number: AtomicU32,
    /// A kernel thread writes into it, or may.
    taken: AtomicBool,
    /// The number of the first event of this process. Those before are its parent's.
    first: AtomicU64,
    /// The kernel thread that has it, or had it last, as [`Owner::to_word`] says.
    owner: AtomicU64,
    older: *const Listed,
}

// SAFETY: `older` does not change, and points to a ring that is never freed. The rest is atomic.
unsafe impl Sync for Listed {}
// SAFETY: nothing in it belongs to one kernel thread for good.
unsafe impl Send for Listed {}

/// The kernel thread of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The number of its runtime; 0 for none.
    pub(crate) runtime: u32,
    /// The number of its LWP in that runtime; [`NO_LWP`] for none.
    pub(crate) lwp: u32,
}

impl Owner {
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.runtime) | u64::from(self.lwp) << 32
    }

    pub(super) fn of_word(word: u64) -> Self {
        Self { runtime: word as u32, lwp: (word >> 32) as u32 }
    }

    pub(crate) fn is_lwp(self) -> bool {
        self.lwp != NO_LWP
    }
}

/// How many events are kept of an LWP if nothing else is set: 512 KiB of them.
const EVENTS: usize = 16_000;

global! {
    /// How many events are kept of an LWP; 0: nothing is set.
    static SET: AtomicUsize = AtomicUsize::new(0);
}

/// Sets how many events are kept of an LWP, in rings that are made from now on.
pub(crate) fn set_events(events: usize) {
    // Relaxed: a figure.
    SET.store(events, Ordering::Relaxed);
}

/// Does the same, if nothing is set.
pub(crate) fn set_default_events(events: usize) {
    // Relaxed: a figure.
    let _ = SET.compare_exchange(0, events, Ordering::Relaxed, Ordering::Relaxed);
}

/// Returns how many events are kept of an LWP.
pub(crate) fn events() -> usize {
    // Relaxed: a figure.
    match SET.load(Ordering::Relaxed) {
        0 => EVENTS,
        set => set,
    }
}

/// The ring is that of a kernel thread that is no LWP.
pub(crate) const NO_LWP: u32 = u32::MAX;

global! {
    static NEWEST: AtomicPtr<Listed> = AtomicPtr::new(ptr::null_mut());
}

/// Returns all rings.
pub(crate) fn all() -> impl Iterator<Item = &'static Listed> {
    // Acquire: pairs with the release of `take`.
    let mut next: *const Listed = NEWEST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null, or in the list, and never freed.
        let this: &'static Listed = unsafe { next.as_ref() }?;
        next = this.older;
        Some(this)
    })
}

/// Takes a ring that keeps at least the last `events`, for a kernel thread of this runtime, or makes
/// one. May allocate.
pub(crate) fn take(runtime: u32, lwp: u32, events: usize) -> &'static Listed {
    // AcqRel: what the last kernel thread wrote comes before what the next one writes.
    let free = |it: &&Listed| it.ring.keeps(events) && !it.taken.swap(true, Ordering::AcqRel);
    let listed = match all().filter(|it| !it.taken.load(Ordering::Relaxed)).find(free) {
        Some(listed) => listed,
        None => return add(runtime, lwp, events),
    };
    let (before, owner) = (listed.owner(), Owner { runtime, lwp });
    listed.ring.push(Event::taken(before, owner));
    // Release: a look that finds the next owner finds the mark.
    listed.owner.store(owner.to_word(), Ordering::Release);
    listed.account.forget();
    listed.waits.forget();
    listed
}

/// Forgets all events: they are those of the parent's threads. Called in the child of a
/// fork, by its only thread.
pub(crate) fn in_child() {
    for listed in all() {
        // Relaxed: there is no other thread.
        listed.first.store(listed.ring.written(), Ordering::Relaxed);
    }
}

fn add(runtime: u32, lwp: u32, events: usize) -> &'static Listed {
    let added = Box::leak(Box::new(Listed {
        ring: Ring::new(events),
        account: Account::new(),
        waits: Waits::new(),
        number: AtomicU32::from(0),
        taken: AtomicBool::from(true),
        first: AtomicU64::default(),
        owner: AtomicU64::from(Owner { runtime, lwp }.to_word()),
        older: ptr::null(),
    }));
    loop {
        // Acquire: pairs with the exchange, for the number.
        let newest = NEWEST.load(Ordering::Acquire);
        // SAFETY: null, or in the list, and never freed.
        let number = unsafe { newest.as_ref() }.map_or(0, Listed::number) + 1;
        added.older = newest;
        added.number.store(number, Ordering::Relaxed);
        // Release: pairs with `all`.
        if NEWEST.compare_exchange(newest, added, Ordering::Release, Ordering::Relaxed).is_ok() {
            return added;
        }
    }
}

impl Listed {
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Returns which ring it is, from 1 on. It tells kernel threads apart.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Gives the ring up: its kernel thread writes no more. Its events can still be read.
    fn give_back(&self) {
        // Release: pairs with `take`.
        self.taken.store(false, Ordering::Release);
    }

    /// Returns the owner of the events up to the next mark. Called before they are read.
    pub(crate) fn owner(&self) -> Owner {
        // Acquire: pairs with `take`.
        Owner::of_word(self.owner.load(Ordering::Acquire))
    }

    /// Returns the number of the first event of this process.
    pub(crate) fn first(&self) -> u64 {
        // Relaxed: a figure.
        self.first.load(Ordering::Relaxed)
    }
}

/// A kernel thread's ring, once it has one. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct RingCell(Late<Listed>);

impl RingCell {
    pub(crate) const fn new() -> Self {
        Self(Late::new())
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static Listed> {
        self.0.get()
    }

    /// Takes a ring, if there is none yet; see [`take`]. Any thread may call it. May allocate.
    pub(crate) fn open(&self, runtime: u32, lwp: u32, events: usize) -> &'static Listed {
        if let Some(listed) = self.get() {
            return listed;
        }
        let listed = take(runtime, lwp, events);
        if self.0.fill(listed) {
            return listed;
        }
        listed.give_back();
        self.get().expect("another thread has filled it")
    }
}

impl Drop for RingCell {
    fn drop(&mut self) {
        if let Some(listed) = self.get() {
            listed.give_back();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_rings;

#[cfg(test)]
mod tests {
    use super::super::account::Look;
    use super::super::event::{Event, Kind};
    use super::super::session::Session;
    use super::*;

    #[test]
    fn a_ring_is_used_again() {
        let (large, small) = (take(7, 3, 1 << 12), take(7, NO_LWP, 8));
        assert!(all().any(|it| ptr::eq(it, large)) && all().any(|it| ptr::eq(it, small)));
        let owners = (large.owner(), small.owner());
        assert_eq!(owners, (Owner { runtime: 7, lwp: 3 }, Owner { runtime: 7, lwp: NO_LWP }));
        assert!(large.number() > 0 && small.number() > 0 && large.number() != small.number());
        large.ring().push(Event::new(1, Kind::Idle, 0));
        let session = Session { number: 9, began: 0 };
        large.waits().add(session, 7);
        assert!(large.waits().look(session).is_some());
        large.account().spawned(session, 5, 0);
        large.give_back();
        let again = take(8, 0, 1 << 12);
        assert!(ptr::eq(large, again), "no other test has one as large");
        let owner = Owner { runtime: 8, lwp: 0 };
        assert_eq!((again.owner(), again.first()), (owner, 0));
        let mut events = Vec::new();
        again.ring().read(0, |event| events.push(event));
        assert_eq!(events[1..], [Event::taken(owners.0, owner)], "the event before it is there");
        assert_eq!(events[1].owners(), Some((owners.0, owner)));
        assert_eq!(again.waits().look(session), None, "they are those of another kernel thread");
        assert_eq!(again.account().look(session, 9), Look::Unchanged, "it is that of another kernel thread");
        again.give_back();
        small.give_back();
    }
}
