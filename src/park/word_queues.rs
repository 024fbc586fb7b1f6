//! Several queues of one word: who waits for different things of the same lock, under one queue lock.
//!
//! **Problem.** Readers and writers of one lock are granted by different rules, and what is granted depends on who else waits:
//! so they need queues of their own, and one critical section for all of them.
//!
//! **Rejected.** One queue, and a walk through it for those who can be granted together: every unlock would pass by all whom it
//! leaves where they are. Two queues with the locks of both buckets: twice the price of a grant.
//!
//! **Shape.** A word has [`QUEUES`] addresses, and each is the key of a queue. The table's hash takes no notice of the lowest bits, so
//! all of them are in one bucket. Everything else is as in `wait_queue.rs`: the state that the waiters' last look
//! goes by is changed inside, the threads are woken afterwards.

use super::no_preempt::NoPreempt;
use super::table::{self, Bucket};
use super::wait_queue::{Grant, Grants, Token, Waiter, settle};
use crate::shim::bucket_of;

/// How many queues a word has.
pub(crate) const QUEUES: usize = 4;

/// Which of a read-write lock's queues is that of readers: here for those who look from outside.
pub(crate) const READERS: usize = 0;
/// Of writers.
pub(crate) const WRITERS: usize = 2;
/// Of the one who reads and waits for the others to leave.
pub(crate) const UPGRADER: usize = 3;

/// Who is first in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) priority: u8,
    /// Others wait behind it.
    pub(crate) more: bool,
    /// It asked for special care.
    pub(crate) urgent: bool,
}

/// The queues of one word, whose bucket lock is held.
pub(crate) struct Queues<'a> {
    bucket: &'a mut Bucket,
    word: usize,
}

/// Runs `f` with the bucket lock held of the word at the address `word`, which is a multiple of [`QUEUES`]. Who waits in its
/// queue `n` waits on the key `word + n`.
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
        // SAFETY: null, or linked, and so alive for as long as the bucket is borrowed, whose lock is held (I7).
        unsafe { first.as_ref() }
    }

    /// Whoever would be granted first (but for one that has let enough others pass).
    pub(crate) fn first(&self, queue: usize) -> Option<First> {
        self.front(queue).map(|waiter| First {
            priority: waiter.priority(),
            more: waiter.peek(|links| !std::ptr::eq(links.next, waiter)),
            urgent: waiter.urgent,
        })
    }

    /// How many wait.
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
        Some(unsafe { settle(waiter, token) })
    }

    /// Takes all waiters off the queue.
    pub(crate) fn grant_all(&mut self, queue: usize, token: Token) -> Grants {
        let first = self.bucket.take_all(self.key(queue));
        Grants { first, token, _no_preempt: NoPreempt::hold() }
    }
}
