//! A lock around the few loads and stores that move a chain of stacks.
//!
//! The dispatcher takes it, so it may not sleep in a way that involves a green thread, and nothing may be allocated or
//! mapped while it is held (I4, I9: the holder is not preempted by signal). Where the kernel takes the holder's CPU away,
//! waiters give theirs up after a short spin.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_utils::Backoff;

/// A value that one kernel thread at a time works on.
#[derive(Debug)]
pub(super) struct Lock<T> {
    /// `true`: somebody is in `with`.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one kernel thread at a time reach the value, and hands it from one to the next.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `body`, which must not panic, with the value to itself. One read-modify-write.
    #[inline]
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // Acquire: pairs with the release below, so that we see what the last holder did.
        while self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        // SAFETY: we set `held`, so nobody else is between the swap and the store.
        let result = body(unsafe { &mut *self.value.get() });
        // Release: pairs with the acquire of the next holder.
        self.held.store(false, Ordering::Release);
        result
    }

    #[cold]
    fn wait(&self) {
        let backoff = Backoff::new();
        // Relaxed: the swap that follows decides.
        while self.held.load(Ordering::Relaxed) {
            backoff.snooze();
        }
    }
}
