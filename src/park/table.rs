//! The table of wait queues: from an address to the threads that wait on it.
//!
//! **Problem.** A lock of four bytes has no room for a queue, and needs none while no thread waits. So the
//! queues are in a table, hashed by the lock's address. Ten thousand threads may wait on ten thousand locks,
//! or on one.
//!
//! **Rejected.** One list for each bucket, with all keys mixed. Ten thousand waiters of one barrier would be
//! in the way of every lock that shares the bucket.
//!
//! **Shape.** A bucket chains the *first waiter* of each key. Each first waiter holds the queue of its key, a
//! ring:
//!
//! ```text
//!  bucket.chain -> A1 -chain-> B1 -chain-> null        A1.prev is the last waiter of A
//!                  |ring       |ring
//!                  A2          B1
//!                  A3
//! ```
//!
//! If many keys share a bucket, it has several such chains (`chains`), and none in the bucket itself.
//!
//! To grant, to link at either end and to unlink are O(1) after the chain walk. The only linear step: a
//! waiter walks past waiters of higher priority in its queue.
//!
//! **Order.** By priority, then near-LIFO. The last thread to come has the warmest caches. Under contention,
//! a short stack of threads does all the work while the others sleep undisturbed. That is unfair, and would
//! starve the oldest waiter for as long as new ones come. So every [`FIFO_EVERY`]th arrival goes to the back,
//! which lets the front sink by one each time.
//!
//! | every | effect |
//! |---|---|
//! | 1 | FIFO: fair, and each hand-off wakes the thread with the coldest caches |
//! | 2 to 8 | tail latency falls, throughput of contended locks falls |
//! | 16 | mostly LIFO; no thread waits longer than about 16 times the length of the queue |
//! | 64 and more | throughput gains nothing more |
//! | never | LIFO: starvation, and live locks between threads that need each other |
//!
//! Priority would starve the lowest as well. So when [`MAX_BYPASS`] threads have been granted before others
//! of lower priority, the oldest waiter of the lowest priority is next. That is counted for the queue, and
//! not for its oldest waiter. Otherwise new waiters of that priority would take its count from it, or begin
//! their own behind it.
//!
//! All of this happens with the bucket's lock held. Debug builds walk the bucket at each lock and unlock.

mod chains;
mod of_thread;
pub(super) mod pair;
pub(super) mod take;

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

use self::chains::{Chains, Place};
use super::debugger::{Fact, Facts};
use super::no_preempt::NoPreempt;
use super::queue_lock::{QueueLock, Rank};
use super::waiter::{self, Linked, Links, Waiter};
use crate::shim::{BUCKET_BITS, bucket_of, global};

/// Where a waiter goes among those of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// To the front, where caches are warm; at times to the back (see [`FIFO_EVERY`]).
    NearLifo,
    /// To the back.
    Fifo,
    /// To the front: it has waited before.
    Again,
}

/// How many arrivals at a queue that is not empty it takes until one goes to the back. Illumos has used the
/// same ratio for its sleep queues since Solaris 9. Range: 1 to never (see the table in the header); a power
/// of two.
const FIFO_EVERY: u32 = 16;

/// How many waiters are granted before others of lower priority, until one of those is next. Range: 1
/// (priorities mean next to nothing) to never (threads of low priority may starve).
const MAX_BYPASS: u32 = 16;

/// The most waiters of a bucket that a debug build walks. More would make tests with thousands of waiters
/// quadratic.
const VERIFIED: usize = 256;

/// A bucket, on a cache line of its own. All its bits are zero at first, so an idle program pays nothing for
/// the table.
#[repr(align(64))]
struct Line(QueueLock<Bucket>);

global! {
    static TABLE: [Line; 1 << BUCKET_BITS] =
        [const { Line(QueueLock::new(Rank::Bucket, Bucket::new())) }; 1 << BUCKET_BITS];
}

/// For debuggers.
pub(crate) static FACTS: Facts<7> = Facts::new([
    Fact::address("more", &raw const waiter::FACTS),
    Fact::address("table", &raw const TABLE),
    Fact::number("table.buckets", 1 << BUCKET_BITS),
    Fact::number("bucket.size", size_of::<Line>()),
    Fact::number("bucket.only", QueueLock::<Bucket>::VALUE + offset_of!(Bucket, only)),
    Fact::number("bucket.row", QueueLock::<Bucket>::VALUE + offset_of!(Bucket, chains.row)),
    Fact::number("bucket.chains", QueueLock::<Bucket>::VALUE + offset_of!(Bucket, chains.count)),
]);

#[inline]
fn lock_of(key: usize) -> &'static QueueLock<Bucket> {
    &TABLE[bucket_of(key)].0
}

/// Begins to fetch the bucket of `key`.
#[inline]
pub(super) fn fetch(key: usize) {
    crate::shim::fetch_to_write(ptr::from_ref(lock_of(key)).cast());
}

/// Runs `f` with the lock of `key`'s bucket held.
#[inline]
pub(super) fn with<R>(no_preempt: &NoPreempt, key: usize, f: impl FnOnce(&mut Bucket) -> R) -> R {
    lock_of(key).with_held(no_preempt, |bucket| {
        bucket.verify();
        let result = f(bucket);
        bucket.verify();
        result
    })
}

/// Empties all queues: no thread waits.
///
/// # Safety
/// Called in the child of a fork, by its only thread, which holds no bucket's lock.
pub(super) unsafe fn forget_all() {
    for (at, bucket) in TABLE.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { bucket.0.mend(|it, torn| it.chains.clear(&it.only, chains::row_of(at), torn)) };
    }
}

/// Unlinks `waiter` from the queue that it is in. Returns `false` if it was unlinked before. Called with no
/// queue lock held, while the waiter is alive.
pub(super) fn unlink_if_linked(waiter: &Waiter) -> bool {
    let no_preempt = NoPreempt::hold();
    loop {
        let key = waiter.key();
        let done = with(&no_preempt, key, |bucket| {
            if waiter.key() != key {
                // Requeued between the look and the lock.
                return None;
            }
            let linked = waiter.peek(|links| links.linked_as != Linked::Out);
            if linked {
                // SAFETY: it is linked under its key, and the lock of that bucket is held.
                unsafe { bucket.unlink(waiter) };
            }
            Some(linked)
        });
        if let Some(linked) = done {
            return linked;
        }
    }
}

/// The queues of some keys. All methods are called with the bucket's lock held, and all waiters in it are
/// alive (I7).
#[derive(Debug)]
pub(super) struct Bucket {
    /// The head of the chain, while there is one.
    only: Cell<*const Waiter>,
    /// All of them, if there are several.
    chains: Chains,
    /// Arrivals at queues that were not empty.
    arrivals: u32,
}

// SAFETY: the waiters it points to are `Sync` and alive while they are linked.
unsafe impl Send for Bucket {}

/// Makes a reference of a linked waiter.
///
/// # Safety
/// `waiter` is linked in a bucket, and the lock of that bucket is held for as long as the reference is used.
#[inline]
unsafe fn linked<'a>(waiter: *const Waiter) -> &'a Waiter {
    // SAFETY: a linked waiter is alive (I7).
    unsafe { &*waiter }
}

/// Returns the waiters of a ring, from `first` on. Called with the bucket lock held for as long as they are
/// used.
fn ring(first: &Waiter) -> impl Iterator<Item = &Waiter> {
    std::iter::successors(Some(first), move |waiter| {
        // SAFETY: in the ring, and the lock is held.
        let next = unsafe { linked(waiter.peek(|links| links.next)) };
        (!ptr::eq(next, first)).then_some(next)
    })
}

impl Bucket {
    const fn new() -> Self {
        Self { only: Cell::new(ptr::null()), chains: Chains::none(), arrivals: 0 }
    }

    /// Returns the head of the chain of `key`.
    #[inline]
    fn head(&self, key: usize) -> Place {
        if self.chains.row.is_null() { self.only.as_ptr() } else { self.chains.head(key) }
    }

    /// Returns the first waiter of `key`, and where it is noted. Null: there is none, and a new one would be
    /// noted there.
    #[inline]
    pub(super) fn find(&self, key: usize) -> (Place, *const Waiter) {
        Self::find_from(self.head(key), key)
    }

    /// Does what `find` does, from the head of the chain.
    #[inline]
    fn find_from(mut place: Place, key: usize) -> (Place, *const Waiter) {
        loop {
            // SAFETY: in the chain, and the lock is held.
            let first = unsafe { place.read() };
            // SAFETY: null, or in the chain, and the lock is held.
            match unsafe { first.as_ref() } {
                Some(waiter) if waiter.key() != key => place = waiter.chain_place(),
                _ => return (place, first),
            }
        }
    }

    /// Returns the first waiter of each ring. Called with the lock held for as long as they are used.
    fn rings(&self) -> impl Iterator<Item = &Waiter> {
        // SAFETY: null, or in the chain, and the lock is held.
        let at = |waiter: *const Waiter| unsafe { waiter.as_ref() };
        let chain = move |first| std::iter::successors(at(first), move |it| at(it.peek(|links| links.chain)));
        std::iter::once(self.only.get()).chain(self.chains.each()).flat_map(chain)
    }

    /// Returns all waiters. Called with the lock held for as long as they are used.
    fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.rings().flat_map(ring)
    }

    /// Returns `true` if no thread waits on `key`.
    pub(super) fn is_empty(&self, key: usize) -> bool {
        self.find(key).1.is_null()
    }

    /// Queues `waiter` under its key.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays alive and in place until it is unlinked.
    #[inline(always)]
    pub(super) unsafe fn link(&mut self, waiter: &Waiter, order: Order) {
        let key = waiter.key();
        let head = self.head(key);
        let (place, first) = Self::find_from(head, key);
        if first.is_null() {
            let arrival = self.arrivals;
            waiter.links(|links| {
                *links = Links {
                    next: waiter,
                    prev: waiter,
                    arrival,
                    linked_as: Linked::First,
                    ..Links::unlinked()
                }
            });
            // SAFETY: at the end of the chain, and the lock is held.
            unsafe { place.write(waiter) };
            if place != head {
                self.chains.grow_if_long(&self.only, head, key);
            }
            return;
        }
        self.link_behind(place, first, waiter, order);
    }

    /// Does what `link` does, for a queue that is not empty.
    fn link_behind(&mut self, place: Place, first: *const Waiter, waiter: &Waiter, order: Order) {
        self.arrivals = self.arrivals.wrapping_add(1);
        let to_front = match order {
            Order::NearLifo => !self.arrivals.is_multiple_of(FIFO_EVERY),
            Order::Fifo => false,
            Order::Again => true,
        };
        // SAFETY: the waiters that these are asked about are in the ring, and the lock is held.
        let priority = |waiter| unsafe { linked(waiter) }.priority();
        // SAFETY: in the ring, and the lock is held.
        let next = |waiter| unsafe { linked(waiter) }.peek(|links| links.next);
        // SAFETY: in the ring, and the lock is held.
        let prev = |waiter| unsafe { linked(waiter) }.peek(|links| links.prev);
        // The waiter behind the new one in the ring, and `true` if the new one becomes the first.
        let (successor, leads) = if to_front {
            let mut there = first;
            while priority(there) > waiter.priority() {
                there = next(there);
                if there == first {
                    break;
                }
            }
            let leads = there == first && priority(first) <= waiter.priority();
            (there, leads)
        } else {
            let mut there = prev(first);
            while priority(there) < waiter.priority() && there != first {
                there = prev(there);
            }
            let leads = priority(there) < waiter.priority();
            (if leads { first } else { next(there) }, leads)
        };
        let predecessor = prev(successor);
        waiter.links(|links| {
            *links = Links {
                next: successor,
                prev: predecessor,
                arrival: self.arrivals,
                linked_as: Linked::Behind,
                ..Links::unlinked()
            };
        });
        // One at a time: they may be the same waiter.
        // SAFETY: in the ring, and the lock is held.
        unsafe { linked(predecessor) }.links(|links| links.next = waiter);
        // SAFETY: in the ring, and the lock is held.
        unsafe { linked(successor) }.links(|links| links.prev = waiter);
        if leads {
            Self::lead(place, first, waiter);
        }
    }

    /// Makes `heir`, of the same ring, the first waiter instead of `first`.
    #[inline]
    fn lead(place: Place, first: *const Waiter, heir: *const Waiter) {
        // SAFETY: in the ring, and the lock is held.
        let (chain, passed) = unsafe { linked(first) }.links(|links| {
            links.linked_as = Linked::Behind;
            (links.chain, links.passed)
        });
        // SAFETY: in the ring, and the lock is held.
        unsafe { linked(heir) }.links(|links| {
            links.linked_as = Linked::First;
            links.chain = chain;
            links.passed = passed;
        });
        // SAFETY: it is where `first` was noted, and the lock is held.
        unsafe { place.write(heir) };
    }

    /// Returns the next waiter of the ring of `first`, and how many will then have been granted before
    /// others of lower priority.
    #[inline]
    fn next_waiter(first: *const Waiter) -> (*const Waiter, u32) {
        // SAFETY: in the chain, and the lock is held.
        let waiter = unsafe { linked(first) };
        let (last, passed) = waiter.peek(|links| (links.prev, links.passed));
        // SAFETY: in the ring, and the lock is held.
        if unsafe { linked(last) }.priority() == waiter.priority() {
            (first, 0)
        } else if passed < MAX_BYPASS {
            (first, passed + 1)
        } else {
            (Self::oldest_of_lowest(last), 0)
        }
    }

    /// Returns the oldest of the waiters that have the priority of the last one of a ring. The oldest is at
    /// one end of these or at the other, in the order in which they were queued. Waiters that came out of
    /// turn are in between.
    #[cold]
    fn oldest_of_lowest(last: *const Waiter) -> *const Waiter {
        // SAFETY: in the ring, and the lock is held.
        let (lowest, arrival) = {
            // SAFETY: in the ring, and the lock is held.
            let last = unsafe { linked(last) };
            (last.priority(), last.peek(|links| links.arrival))
        };
        let (mut oldest, mut earliest, mut this) = (last, arrival, last);
        loop {
            // SAFETY: in the ring, and the lock is held.
            let waiter = unsafe { linked(this) };
            if waiter.priority() != lowest {
                // The ring has waiters of higher priority, or this would not be called.
                return oldest;
            }
            let (prev, arrival) = waiter.peek(|links| (links.prev, links.arrival));
            if arrival.wrapping_sub(earliest) > u32::MAX / 2 {
                (oldest, earliest) = (this, arrival);
            }
            this = prev;
        }
    }

    /// Takes off the queue of `key` the waiter that is next in turn. Returns it, and `true` if there are
    /// more.
    #[inline(always)]
    pub(super) fn pop(&mut self, key: usize) -> Option<(*const Waiter, bool)> {
        let (place, first) = self.find(key);
        if first.is_null() {
            return None;
        }
        let (next, passed) = Self::next_waiter(first);
        // SAFETY: in the chain, and the lock is held.
        unsafe { linked(first) }.links(|links| links.passed = passed);
        if next != first {
            Self::unlink_behind(next);
            return Some((next, true));
        }
        let more = Self::unlink_first(place, first);
        Some((first, more))
    }

    /// Unlinks a first waiter. Returns `true` if others remain.
    #[inline]
    fn unlink_first(place: Place, first: *const Waiter) -> bool {
        // SAFETY: in the chain, and the lock is held.
        let (next, chain) = unsafe { linked(first) }.peek(|links| (links.next, links.chain));
        let more = next != first;
        if more {
            Self::lead(place, first, next);
            Self::unring(first);
        } else {
            // SAFETY: it is where `first` was noted, and the lock is held.
            unsafe { place.write(chain) };
        }
        // SAFETY: the lock is held, and the waiter has not been settled yet.
        unsafe { linked(first) }.links(|links| links.linked_as = Linked::Out);
        more
    }

    /// Unlinks a waiter that is not the first of its key.
    fn unlink_behind(waiter: *const Waiter) {
        Self::unring(waiter);
        // SAFETY: the lock is held, and the waiter has not been settled yet.
        unsafe { linked(waiter) }.links(|links| links.linked_as = Linked::Out);
    }

    /// Closes the ring over `waiter`.
    #[inline]
    fn unring(waiter: *const Waiter) {
        // SAFETY: in a ring of at least two, and the lock is held.
        let (next, prev) = unsafe { linked(waiter) }.peek(|links| (links.next, links.prev));
        // SAFETY: in the ring, and the lock is held.
        unsafe { linked(next) }.links(|links| links.prev = prev);
        // SAFETY: in the ring, and the lock is held.
        unsafe { linked(prev) }.links(|links| links.next = next);
    }

    /// Takes `waiter` off its queue.
    ///
    /// # Safety
    /// It is linked in this bucket.
    pub(super) unsafe fn unlink(&mut self, waiter: &Waiter) {
        if waiter.peek(|links| links.linked_as) == Linked::First {
            let (place, first) = self.find(waiter.key());
            debug_assert!(ptr::eq(first, waiter), "a first waiter that the chain does not know");
            Self::unlink_first(place, first);
        } else {
            Self::unlink_behind(waiter);
        }
    }

    /// Checks, in debug builds, that the chain has each key once, and that the rings are closed and in order
    /// of priority.
    #[inline]
    fn verify(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut left = VERIFIED;
        for head in self.rings() {
            let first = ptr::from_ref(head);
            assert_eq!(head.peek(|links| links.linked_as), Linked::First);
            assert_eq!(self.find(head.key()).1, first, "two queues of one key");
            for this in ring(head).take(left) {
                left -= 1;
                let next = this.peek(|links| links.next);
                // SAFETY: in the ring, and the lock is held.
                let that = unsafe { linked(next) };
                assert_eq!(this.key(), head.key(), "a waiter in the wrong queue");
                assert!(that.peek(|links| ptr::eq(links.prev, this)), "a ring that is not closed");
                assert!(next == first || that.peek(|links| links.linked_as) == Linked::Behind);
                assert!(next == first || this.priority() >= that.priority(), "a queue out of order");
            }
        }
    }
}

/// Returns for each waiter the address of the thread's core, and the key of its queue: for reports. Each
/// bucket is of its own moment.
pub(crate) fn all_waiters() -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for bucket in TABLE.iter() {
        bucket.0.copy_to(&mut found, |bucket, add| {
            bucket.waiters().for_each(|waiter| add((waiter.address(), waiter.key())));
        });
    }
    found
}
