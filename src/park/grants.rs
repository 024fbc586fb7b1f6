//! Threads that were taken off a queue, on their way to be woken.

use std::ptr;

use super::backend::Backend;
use super::no_preempt::NoPreempt;
use super::sleep_word::{CODE_SHIFT, GRANTED};
use super::thread::ThreadRef;
use super::waiter::Waiter;
use crate::shim::atomic::AtomicU32;

/// What a granter tells the waiter. Each primitive has a few of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u8);

/// A thread that was taken off its queue. It sleeps on until it is woken.
#[must_use = "the thread sleeps until it is woken"]
pub(crate) struct Grant {
    pub(super) thread: ThreadRef,
    pub(super) backend: &'static dyn Backend,
    /// Not to be read through, because the waiter may be gone.
    pub(super) word: *const AtomicU32,
    /// `false` for a kernel thread that had not entered the kernel.
    pub(super) wake: bool,
    /// If the waker were preempted before the wake-up, the thread would stay asleep for as long as others
    /// run.
    pub(super) _no_preempt: NoPreempt,
}

impl Grant {
    /// Wakes the thread. Called with no queue lock held.
    #[inline]
    pub(crate) fn wake(self) {
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
        while let Some(grant) = self.pop() {
            if count == 0 || !grant.wake {
                grant.wake();
            } else {
                count += grant.backend.wake_behind(grant.thread, grant.word, &mut self);
            }
            count += 1;
        }
        count
    }

    /// Settles the next one, which must then be woken.
    #[inline]
    fn pop(&mut self) -> Option<Grant> {
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
        debug_assert!(!backend.sleeps_in_kernel());
        // SAFETY: null, or unlinked and not settled, so its thread cannot have left.
        let next = unsafe { self.first.as_ref() }?;
        if !ptr::addr_eq(next.backend, backend) {
            return None;
        }
        self.pop().map(|grant| grant.thread)
    }
}

/// Settles the sleep of a waiter that the caller has unlinked, and returns the thread to wake.
///
/// # Safety
/// The caller unlinked `waiter` with the bucket lock held, and settles it once.
#[inline]
pub(super) unsafe fn settle(waiter: *const Waiter, token: Token) -> Grant {
    // SAFETY: an unsettled waiter is alive: its thread cannot return from its wait.
    let waiter = unsafe { &*waiter };
    let mut grant = Grant {
        thread: waiter.thread,
        backend: waiter.backend,
        word: waiter.word.futex(),
        wake: true,
        _no_preempt: NoPreempt::hold(),
    };
    grant.wake = waiter.word.settle_for(waiter.kernel, GRANTED | u32::from(token.0) << CODE_SHIFT);
    // From here on a kernel thread's waiter may be gone.
    grant
}
