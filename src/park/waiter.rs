//! A thread in a queue: what its granter needs of it, and its part of the table's lists. And the same
//! thread once it was taken off the queue, on its way to be woken.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

use super::backend::Backend;
use super::debugger::{Fact, Facts};
use super::no_preempt::NoPreempt;
use super::sleep_word::{CODE_SHIFT, GRANTED, SleepWord};
use super::thread::ThreadRef;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::time::Moment;

/// One waiting thread. Lives on that thread's stack.
pub(super) struct Waiter {
    pub(super) word: SleepWord,
    pub(super) key: Key,
    pub(super) links: UnsafeCell<Links>,
    pub(super) thread: ThreadRef,
    pub(super) backend: &'static dyn Backend,
    /// The thread spins and enters the kernel by itself (`ThreadCore::is_kernel`).
    pub(super) kernel: bool,
    pub(super) spin: bool,
    pub(super) priority: u8,
    pub(super) urgent: bool,
    /// Changed only by a party that unlinks the waiter and settles it, with the bucket lock held.
    pub(super) demand: Cell<usize>,
    pub(super) heir: bool,
    /// The deadline, if it is far ahead ([`Sleep::has_far_deadline`](super::sleep_word::Sleep)).
    pub(super) far: Option<Moment>,
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

/// What a granter tells the waiter. Each primitive has a few of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u8);

/// A thread that was taken off its queue. It sleeps on until it is woken.
#[must_use = "the thread sleeps until it is woken"]
pub(crate) struct Grant {
    pub(super) settled: Settled,
    /// If the waker were preempted before the wake-up, the thread would stay asleep for as long as others
    /// run.
    pub(super) _no_preempt: NoPreempt,
}

impl Grant {
    /// Wakes the thread. Called with no queue lock held.
    #[inline]
    pub(crate) fn wake(self) {
        self.settled.wake();
    }
}

/// What is to be woken of such a thread. Its granter forbids preemption meanwhile.
#[must_use = "the thread sleeps until it is woken"]
pub(super) struct Settled {
    pub(super) thread: ThreadRef,
    pub(super) backend: &'static dyn Backend,
    /// Not to be read through, because the waiter may be gone.
    pub(super) word: *const AtomicU32,
    /// `false` for a kernel thread that had not entered the kernel.
    pub(super) wake: bool,
}

impl Settled {
    #[inline]
    fn wake(self) {
        if self.wake {
            self.backend.wake(self.thread, self.word);
        }
    }
}

/// Threads that were taken off their queue together and not settled yet.
#[must_use = "the threads sleep until they are woken"]
pub(crate) struct Grants {
    /// A list by `Links::next` that ends in null.
    pub(super) first: *const Waiter,
    pub(super) token: Token,
    /// As in [`Grant`].
    pub(super) _no_preempt: NoPreempt,
}

impl Grants {
    /// Settles and wakes all, in queue order. Returns how many. Called with no queue lock held.
    ///
    /// A deadline that passes meanwhile finds its waiter unlinked, and leaves the waiter to this call.
    #[inline]
    pub(crate) fn wake_all(self) -> usize {
        if self.first.is_null() { 0 } else { self.wake_each() }
    }

    fn wake_each(mut self) -> usize {
        let mut count = 0;
        while let Some(next) = self.pop() {
            if count == 0 || !next.wake {
                next.wake();
            } else {
                count += next.backend.wake_behind(next.thread, next.word, &mut self);
            }
            count += 1;
        }
        count
    }

    /// Settles the next one, which must then be woken.
    #[inline]
    fn pop(&mut self) -> Option<Settled> {
        let waiter = self.first;
        if waiter.is_null() {
            return None;
        }
        // SAFETY: unlinked by the maker of this list and not settled, so its thread cannot have left.
        self.first = unsafe { &*waiter }.peek(|links| links.next);
        // SAFETY: the maker of this list unlinked it with the lock held. It is settled once, since it is off
        // the list.
        Some(unsafe { settle(waiter, self.token) })
    }

    /// Settles the next one, if it is a thread of `backend`. Threads of `backend` must always be woken.
    #[inline]
    pub(crate) fn pop_of(&mut self, backend: &dyn Backend) -> Option<ThreadRef> {
        // SAFETY: null, or unlinked and not settled, so its thread cannot have left.
        let next = unsafe { self.first.as_ref() }?;
        if !ptr::addr_eq(next.backend, backend) {
            return None;
        }
        debug_assert!(!next.kernel);
        self.pop().map(|next| next.thread)
    }
}

/// Settles the sleep of a waiter that the caller has unlinked, and returns the thread to wake.
///
/// # Safety
/// The caller unlinked `waiter` with the bucket lock held, and settles it once.
#[inline]
pub(super) unsafe fn grant(waiter: *const Waiter, token: Token) -> Grant {
    let no_preempt = NoPreempt::hold();
    // SAFETY: the caller's promise.
    Grant { settled: unsafe { settle(waiter, token) }, _no_preempt: no_preempt }
}

/// Does what [`grant`] does, for a caller that forbids preemption until it has woken the thread.
///
/// # Safety
/// As there.
#[inline]
pub(super) unsafe fn settle(waiter: *const Waiter, token: Token) -> Settled {
    // SAFETY: an unsettled waiter is alive: its thread cannot return from its wait.
    let waiter = unsafe { &*waiter };
    let mut settled =
        Settled { thread: waiter.thread, backend: waiter.backend, word: waiter.word.futex(), wake: true };
    settled.wake = waiter.word.settle_for(waiter.kernel, GRANTED | u32::from(token.0) << CODE_SHIFT);
    // From here on a kernel thread's waiter may be gone.
    settled
}
