//! A thread in a queue: what its granter needs of it, and its part of the table's lists.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

use super::backend::Backend;
use super::debugger::{Fact, Facts};
use super::sleep_word::SleepWord;
use super::thread::ThreadRef;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicUsize, Ordering};

/// One waiting thread. Lives on that thread's stack.
pub(super) struct Waiter {
    pub(super) word: SleepWord,
    pub(super) key: Key,
    pub(super) links: UnsafeCell<Links>,
    pub(super) thread: ThreadRef,
    pub(super) backend: &'static dyn Backend,
    /// The thread spins and enters the kernel by itself ([`Backend::sleeps_in_kernel`]).
    pub(super) kernel: bool,
    pub(super) spin: bool,
    pub(super) priority: u8,
    pub(super) urgent: bool,
    /// Changed only by a party that unlinks the waiter and settles it, with the bucket lock held.
    pub(super) demand: Cell<usize>,
    pub(super) heir: bool,
}

// SAFETY: `links` and `demand` are reached with the bucket lock held (I7), or by the thread itself after its
// sleep; the rest is atomic or constant.
unsafe impl Sync for Waiter {}

impl Waiter {
    /// Returns the key, as far as it can be known without the bucket lock.
    #[inline]
    pub(super) fn key(&self) -> usize {
        self.key.get()
    }

    pub(super) fn set_key(&self, key: usize) {
        self.key.set(key);
    }

    /// Returns the address of the thread's core.
    pub(super) fn address(&self) -> usize {
        self.thread.address()
    }

    #[inline]
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// Calls `f` with the links. The caller holds the lock of the bucket that the waiter is linked in, or is
    /// about to be.
    #[inline]
    pub(super) fn links<R>(&self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the bucket lock is held (I7), and `f` does not call back.
        self.links.with_mut(|links| f(unsafe { &mut *links }))
    }

    /// Calls `f` with the links, for reading. The caller holds the bucket lock, or has unlinked the waiter
    /// and not settled it. In the second case a deadline may read at the same time, but nothing writes.
    #[inline]
    pub(super) fn peek<R>(&self, f: impl FnOnce(&Links) -> R) -> R {
        // SAFETY: links are written with the bucket lock held, while the waiter is linked (I7).
        self.links.with(|links| f(unsafe { &*links }))
    }

    /// Returns where a first waiter notes the first waiter of the next key. The caller holds the bucket lock
    /// for as long as it uses that.
    #[inline]
    pub(super) fn chain_place(&self) -> *mut *const Waiter {
        // SAFETY: a field of what is there.
        self.links.with_mut(|links| unsafe { &raw mut (*links).chain })
    }
}

/// The queue that a waiter is linked in. Changed with the locks of both queues' buckets held, read without.
pub(super) struct Key(AtomicUsize);

impl Key {
    #[inline]
    pub(super) fn new(key: usize) -> Self {
        Self(AtomicUsize::from(key))
    }

    #[inline]
    fn get(&self) -> usize {
        // Relaxed: code that acts on it locks the bucket and looks again.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, key: usize) {
        // Relaxed: as in `get`.
        self.0.store(key, Ordering::Relaxed);
    }
}

/// A waiter's part of the lists. Touched only with the bucket lock held (I7).
#[derive(Debug)]
pub(super) struct Links {
    /// The next waiter of the same key; for the last one, the first.
    pub(super) next: *const Waiter,
    /// The waiter before; for the first one, the last.
    pub(super) prev: *const Waiter,
    /// In a first waiter: the first waiter of the bucket's next key, or null.
    pub(super) chain: *const Waiter,
    /// In a first waiter: how many waiters were granted before others of lower priority, since one of those
    /// was.
    pub(super) passed: u32,
    /// Its number among the arrivals at its bucket. An arrival at an empty queue has the number of the
    /// arrival before.
    pub(super) arrival: u32,
    /// Set if it was moved here, with all others of another queue.
    pub(super) moved: bool,
    pub(super) linked_as: Linked,
}

/// For debuggers.
pub(super) static FACTS: Facts<5> = Facts::new([
    Fact::number("waiter.thread", offset_of!(Waiter, thread)),
    Fact::number("waiter.key", offset_of!(Waiter, key)),
    Fact::number("waiter.links", offset_of!(Waiter, links)),
    Fact::number("links.next", offset_of!(Links, next)),
    Fact::number("links.chain", offset_of!(Links, chain)),
]);

/// Which of its links are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    /// None: it is in no queue.
    Out,
    /// All: it is the first of its key.
    First,
    /// The ring only.
    Behind,
}

impl Links {
    pub(super) fn unlinked() -> Self {
        Self {
            next: ptr::null(),
            prev: ptr::null(),
            chain: ptr::null(),
            passed: 0,
            arrival: 0,
            moved: false,
            linked_as: Linked::Out,
        }
    }
}
