//! What each process of a line of forks makes for itself, when it first uses it.
//!
//! **Problem.** A child of `fork` finds locks as they were at that moment: perhaps held by a thread that it does not have, or with
//! traces of others that were waiting. So it needs locks of its own.
//!
//! **Rejected.** Freeing the parent's locks: what they protect is as whoever had them left it. Making new ones in the child
//! before `fork` returns there: that takes memory, and all places must be known.
//!
//! **Protocol.** A pointer to the value and its process. Who finds another process's makes a new value, and puts it in that one's place by
//! compare-and-swap; of two that do so, one wins. What was there before stays where it is, unused: its threads may have been anywhere.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::fork::Generation;

/// See above. Null: nobody has made it yet.
pub(crate) struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    by: Generation,
    value: T,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's value, which `make` makes; from the one that the process which this is a fork of had, if there is one. Forks are
    /// watched ([`Generation::watched`]), or this process has no parent that had one.
    pub(crate) fn get(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        // Acquire: pairs with the release below.
        let seen = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a box that lives as long as this.
        let before = unsafe { seen.as_ref() };
        if let Some(made) = before
            && made.by.is_mine()
        {
            return &made.value;
        }
        let value = make(before.map(|made| &made.value));
        let made = Box::into_raw(Box::new(Made { by: Generation::now(), value }));
        match self.0.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: lives as long as this.
                unsafe { &(*made).value }
            }
            Err(others) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as above; made by another thread of this process.
                unsafe { &(*others).value }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let made = *self.0.get_mut();
        // SAFETY: null, or a box that lives as long as this.
        if unsafe { made.as_ref() }.is_some_and(|made| made.by.is_mine()) {
            // SAFETY: nobody else has this any more. (Another process's, whose threads may be in it, stays.)
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_stays() {
        let place = PerProcess::new();
        assert_eq!(*place.get(|before| before.map_or(1, |before: &i32| before + 1)), 1);
        assert_eq!(*place.get(|_| unreachable!("it has been made")), 1);
    }

    #[test]
    fn a_fork_makes_its_own_from_its_parents() {
        let place = PerProcess::new();
        place.get(|_| 7);
        // SAFETY: nobody else looks.
        unsafe { (*place.0.load(Ordering::Relaxed)).by = Generation::of_another_process() };
        assert_eq!(*place.get(|before| before.unwrap() + 1), 8);
        assert_eq!(*place.get(|_| unreachable!("it has been made")), 8);
    }
}
