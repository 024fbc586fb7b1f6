//! A reference that is filled in later, once, while others look at it.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, Ordering};

/// A reference to something that is never freed, or none yet.
#[derive(Debug)]
pub(crate) struct Late<T: 'static>(AtomicPtr<T>);

impl<T> Late<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with `fill`.
        let it = self.0.load(Ordering::Acquire);
        // SAFETY: null, or put there by `fill` as a reference for all time.
        unsafe { it.as_ref() }
    }

    /// Fills it in, if it is empty. Any thread may call it. Returns `true` if it was empty.
    pub(crate) fn fill(&self, with: &'static T) -> bool {
        let with = ptr::from_ref(with).cast_mut();
        // Release: pairs with `get`.
        self.0.compare_exchange(ptr::null_mut(), with, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Late;

    #[test]
    fn the_first_one_stays() {
        let late = Late::new();
        assert_eq!(late.get(), None);
        assert!(late.fill(&1));
        assert!(!late.fill(&2));
        assert_eq!(late.get(), Some(&1));
    }
}
