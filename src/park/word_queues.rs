//! Several queues of one word, under one queue lock: threads that wait for different things of the same
//! lock.
//!
//! **Problem.** Readers and writers of one lock are granted by different rules, and what is granted depends
//! on the other waiters. So they need queues of their own, and one critical section for all of them.
//!
//! **Rejected.** One queue, with a walk to collect the threads that can be granted together. Every unlock
//! would pass all those that it leaves in place. Two queues with the locks of both buckets: twice the price
//! of a grant.
//!
//! **Shape.** A word has [`QUEUES`] addresses, and each is the key of a queue. The table's hash ignores the
//! lowest bits, so all of them are in one bucket. Everything else is as in `wait_queue.rs`: the state that
//! the waiters' last look reads is changed inside, and the threads are woken afterwards.

use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::table::{self, Bucket, Order};
use super::waiter::{Grant, Grants, Token, Waiter, grant};
use crate::shim::bucket_of;

/// The number of queues of a word.
pub(crate) const QUEUES: usize = 4;

/// A read-write lock's queue of readers. It is named here for looks from outside.
pub(crate) const READERS: usize = 0;
/// The queue of writers.
pub(crate) const WRITERS: usize = 2;
/// The queue of the upgrading reader, which waits for the others to leave.
pub(crate) const UPGRADER: usize = 3;

/// Green threads that wait for a word of several processes. At the same byte as a futex of the program.
pub(crate) const FOLLOWERS: usize = 1;
/// The one of them that looks out for wake-ups from other processes.
pub(crate) const SEAT: usize = 2;

/// The first waiter of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) priority: u8,
    /// Set if others wait behind it.
    pub(crate) more: bool,
    /// Set if it asked for special care.
    pub(crate) urgent: bool,
}

/// The queues of one word, with the lock of its bucket held.
pub(crate) struct Queues<'a> {
    bucket: &'a mut Bucket,
    word: usize,
}

impl WaitReason {
    /// Returns the address of the object that a thread waits for at `at`. A read-write lock has a queue at
    /// each of its four bytes, and a futex of the program has its queue at the second.
    pub(crate) fn object(self, at: usize) -> usize {
        if matches!(self, Self::RwLock | Self::Futex) { at & !(QUEUES - 1) } else { at }
    }

    /// Returns the address of that object if the program knows it.
    pub(crate) fn known_address(self, at: usize) -> Option<usize> {
        let unknown = matches!(self, Self::Park | Self::Sleep | Self::Join | Self::Scope | Self::Select);
        let known = self == Self::Futex || !unknown && !self.is_outside();
        known.then_some(self.object(at))
    }
}

/// Runs `f` with the bucket lock of the word at the address `word` held. The address is a multiple of
/// [`QUEUES`]. A waiter in queue `n` waits on the key `word + n`.
pub(crate) fn with<R>(word: usize, f: impl FnOnce(&mut Queues<'_>) -> R) -> R {
    debug_assert_eq!(bucket_of(word), bucket_of(word + QUEUES - 1), "not the address of a word");
    table::with(&NoPreempt::hold(), word, |bucket| f(&mut Queues { bucket, word }))
}

impl Queues<'_> {
    fn key(&self, queue: usize) -> usize {
        debug_assert!(queue < QUEUES);
        self.word + queue
    }

    fn front(&self, queue: usize) -> Option<&Waiter> {
        let (_, first) = self.bucket.find(self.key(queue));
        // SAFETY: null, or linked. A linked waiter is alive while the bucket, with its lock held, is
        // borrowed (I7).
        unsafe { first.as_ref() }
    }

    /// Returns the waiter that would be granted first, unless one that has let enough others pass goes
    /// before it.
    pub(crate) fn first(&self, queue: usize) -> Option<First> {
        self.front(queue).map(|waiter| First {
            priority: waiter.priority(),
            more: waiter.peek(|links| !std::ptr::eq(links.next, waiter)),
            urgent: waiter.urgent,
        })
    }

    /// Returns the number of waiters.
    pub(crate) fn count(&self, queue: usize) -> usize {
        let Some(first) = self.front(queue) else { return 0 };
        let mut count = 1;
        let mut next = first.peek(|links| links.next);
        while !std::ptr::eq(next, first) {
            count += 1;
            // SAFETY: in the ring of `first`, and the lock is held (I7).
            next = unsafe { &*next }.peek(|links| links.next);
        }
        count
    }

    /// Takes the first waiter off the queue.
    pub(crate) fn grant_one(&mut self, queue: usize, token: Token) -> Option<Grant> {
        let (waiter, _) = self.bucket.pop(self.key(queue))?;
        // SAFETY: unlinked just above, with the lock held.
        Some(unsafe { grant(waiter, token) })
    }

    /// Takes the first waiter off the queue, and tells it `told`, which takes the place of its demand.
    pub(super) fn grant_one_told(&mut self, queue: usize, token: Token, told: usize) -> Option<Grant> {
        let (waiter, _) = self.bucket.pop(self.key(queue))?;
        // SAFETY: it was linked until a moment ago and is not settled, so its thread cannot have left.
        unsafe { &*waiter }.demand.set(told);
        // SAFETY: unlinked just above, with the lock held.
        Some(unsafe { grant(waiter, token) })
    }

    /// Takes at most `most` waiters off the queue, and returns how many.
    pub(super) fn grant_some(&mut self, queue: usize, token: Token, most: usize) -> (Grants, usize) {
        let (first, count) = self.bucket.take_up_to(self.key(queue), most);
        (Grants { first, token, _no_preempt: NoPreempt::hold() }, count)
    }

    /// Links `waiter` in the queue.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays alive and in place until it is unlinked.
    pub(super) unsafe fn link(&mut self, waiter: &Waiter, queue: usize, order: Order) {
        waiter.set_key(self.key(queue));
        // SAFETY: the caller's promise.
        unsafe { self.bucket.link(waiter, order) };
    }

    /// Takes `waiter` off its queue.
    ///
    /// # Safety
    /// It is linked in a queue of this word.
    pub(super) unsafe fn unlink(&mut self, waiter: &Waiter) {
        // SAFETY: the caller's promise.
        unsafe { self.bucket.unlink(waiter) };
    }

    /// Takes all waiters off the queue.
    pub(crate) fn grant_all(&mut self, queue: usize, token: Token) -> Grants {
        let first = self.bucket.take_all(self.key(queue));
        Grants { first, token, _no_preempt: NoPreempt::hold() }
    }
}
