//! Wake-ups that a handler of a signal leaves to a helper.
//!
//! **Problem.** A handler may call `sem_post`. To wake a green thread takes a lock of this crate, and the
//! handler may have interrupted the code that holds it.
//!
//! **Rejected.** *To leave the wake-up to the interrupted thread*, which makes it when it may: each end of a
//! critical section would look for such wake-ups.
//!
//! **Protocol.** The handler leaves the address of the futex in a table, without a lock, and rings. The
//! helper, a kernel thread in which no handlers run, sees to all places, wakes all threads that wait there,
//! and sleeps until the bell is rung again. Each thread that was woken looks at its semaphore.
//!
//! **Proof** that no wake-up is lost.
//!
//! - *The helper looks at the bell, then at the places.* If the handler has rung before that look, the helper
//!   finds the address. If it rings afterwards, the helper does not fall asleep.
//! - *An address that is there already is left again*, by a read-modify-write. So it comes before the helper
//!   takes it, and the change of the futex comes before the helper's wake-up. A look would not do: it may
//!   find what the helper has taken already.
//!
//! **Limit.** A handler that finds all places taken waits for the helper. The helper may wait for a lock that
//! the handler has interrupted. So a handler must not post to more semaphores than there are places.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::shim::{futex, spin_hint};

/// A table with `N` places.
pub(crate) struct Left<const N: usize> {
    /// Futexes whose waiters are to be woken, or null.
    places: [AtomicPtr<u32>; N],
    /// How often the bell was rung: the helper's futex.
    rung: AtomicU32,
}

impl<const N: usize> Left<N> {
    pub(crate) const fn new() -> Self {
        Self { places: [const { AtomicPtr::new(ptr::null_mut()) }; N], rung: AtomicU32::new(0) }
    }

    /// Leaves the wake-up of all that wait for a futex to the helper. Async-signal-safe.
    pub(crate) fn leave(&self, futex: *const u32) {
        let futex = futex.cast_mut();
        let leave = |place: &AtomicPtr<u32>| {
            let mine = |left: *mut u32| (left.is_null() || left == futex).then_some(futex);
            // Release: pairs with the acquire of `serve`. Relaxed on failure: another place is tried.
            place.fetch_update(Ordering::Release, Ordering::Relaxed, mine).is_ok()
        };
        while !self.places.iter().any(leave) {
            spin_hint();
        }
        self.ring();
    }

    fn ring(&self) {
        // Release: pairs with the acquire of `serve`.
        self.rung.fetch_add(1, Ordering::Release);
        futex::wake(&self.rung, 1);
    }

    /// Gives all that was left to `wake`, which wakes all waiters. Returns what [`sleep`](Self::sleep) needs.
    pub(crate) fn serve(&self, mut wake: impl FnMut(*const u32)) -> u32 {
        // Acquire: the places are looked at afterwards.
        let rung = self.rung.load(Ordering::Acquire);
        for place in &self.places {
            // Relaxed: what was left before the bell was rung is seen.
            if !place.load(Ordering::Relaxed).is_null() {
                // Acquire: pairs with the release of `leave`, whose bell may not have been heard yet.
                wake(place.swap(ptr::null_mut(), Ordering::Acquire));
            }
        }
        rung
    }

    /// Sleeps until the bell has been rung since `rung`, or for less.
    pub(crate) fn sleep(&self, rung: u32) {
        let _ = futex::wait(&self.rung, rung, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_left_twice_is_served_once() {
        let left = Left::<2>::new();
        let words = [1, 2];
        let [one, two] = words.each_ref().map(ptr::from_ref);
        [one, two, one].into_iter().for_each(|word| left.leave(word));
        let mut served = Vec::new();
        let rung = left.serve(|word| served.push(word));
        assert_eq!((served, rung), (vec![one, two], 3));
        left.leave(two);
        // It has been rung since.
        left.sleep(rung);
        left.serve(|word| assert_eq!(word, two));
    }
}

#[cfg(all(test, loom))]
mod loom_left;
