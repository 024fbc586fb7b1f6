//! A lock around the few loads and stores that move a chain of stacks.
//!
//! The dispatcher takes it. So it may not sleep in a way that involves a green thread, and nothing may be
//! allocated while it is held (I4). The holder is not preempted by signal (I9). If the kernel takes the
//! holder's CPU away, waiters back off (`park::backoff`).
//!
//! `park::queue_lock` does the same under a model checker. Locks in a static must be made by constants, and
//! the model's cannot.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::park::backoff::Backoff;
use crate::park::no_preempt::NoPreempt;

/// A value that one kernel thread at a time works on.
#[derive(Debug)]
pub(super) struct Lock<T> {
    /// `true`: the value belongs to the thread that is in `with`.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one kernel thread at a time reach the value, and hands it from one to the next.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `body`, which alone reaches the value. One read-modify-write.
    #[inline]
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _no_preempt = NoPreempt::hold();
        // Acquire: pairs with the release of `Held`, so this sees what the last holder did.
        while self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        let _held = Held(&self.held);
        // SAFETY: this thread set `held`, so no other is between the swap and the store of `Held`.
        body(unsafe { &mut *self.value.get() })
    }

    /// Frees the lock if its holder does not exist in this process. That holder may have left a change half
    /// done, which `mend` must repair.
    ///
    /// # Safety
    /// Called in the child of a fork by its only thread, which does not hold the lock.
    pub(super) unsafe fn mend(&self, mend: impl FnOnce(&mut T)) {
        // Relaxed: there is no other thread.
        if self.held.load(Ordering::Relaxed) {
            // SAFETY: this is the only thread, and it does not hold the lock.
            mend(unsafe { &mut *self.value.get() });
            self.held.store(false, Ordering::Relaxed);
        }
    }

    #[cold]
    fn wait(&self) {
        let mut backoff = Backoff::new();
        // Relaxed: the swap that follows decides.
        while self.held.load(Ordering::Relaxed) {
            backoff.pause();
        }
    }
}

/// Frees the lock, also when the body unwinds.
struct Held<'a>(&'a AtomicBool);

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire of the next holder.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_never_lost() {
        static COUNT: Lock<u32> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| COUNT.with(|count| *count += 1)));
            }
        });
        assert_eq!(COUNT.with(|count| *count), 80_000);
    }

    #[test]
    fn an_unwinding_holder_lets_go() {
        let lock = Lock::new(());
        let unwound =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.with(|()| panic!("meant"))));
        assert!(unwound.is_err());
        lock.with(|()| ());
    }
}
