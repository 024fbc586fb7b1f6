//! What each process of a line of forks makes for itself, when it first uses it.
//!
//! **Problem.** A child of `fork` finds locks as they were at that moment. They may be held by a thread that
//! it does not have, or have traces of others that were waiting. So it needs locks of its own.
//!
//! **Rejected.** To free the parent's locks: what they protect is as their holders left it. To make new ones
//! in the child before `fork` returns there: that takes memory, and all places must be known.
//!
//! **Protocol.** A pointer leads to the value and its process. A thread that finds another process's value
//! makes a new one, and puts it in that one's place by compare-and-swap. Of two that do so, one wins. The old
//! value stays where it is, unused: its threads may have been anywhere.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::fork::Generation;

/// See above. Null: the value has not been made yet.
pub(crate) struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    by: Generation,
    value: T,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns this process's value, which `make` makes. Its argument is the value of the process that this
    /// is a fork of, if there is one. Forks are watched ([`Generation::watched`]), or this process has no
    /// parent that had one.
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
                // SAFETY: the box lives as long as this.
                unsafe { &(*made).value }
            }
            Err(others) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: another thread of this process made it, and it lives as long as this.
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
            // SAFETY: no other thread has access. (A value of another process stays, because threads may be
            // in it.)
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
        // SAFETY: no other thread looks.
        unsafe { (*place.0.load(Ordering::Relaxed)).by = Generation::of_another_process() };
        assert_eq!(*place.get(|before| before.unwrap() + 1), 8);
        assert_eq!(*place.get(|_| unreachable!("it has been made")), 8);
    }
}
