//! The mutex: a flag.

use super::{Monitor, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// The algorithm of a mutex in a model.
#[derive(Debug, Default)]
pub struct RawMutex(Monitor<bool>);

impl RawMutex {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self(Monitor::new(false))
    }

    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn acquire(&self) {
        self.acquire_with(Wait::forever()).expect("no deadline");
    }

    pub(crate) fn acquire_in_order(&self) {
        self.acquire();
    }

    pub(crate) fn acquire_in_order_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.acquire_with(wait)
    }

    pub(crate) fn try_acquire(&self) -> bool {
        self.0.with(|is_taken| !std::mem::replace(is_taken, true))
    }

    pub(crate) fn acquire_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.0.wait(wait, |is_taken| (!std::mem::replace(is_taken, true)).then_some(()), |_| ())
    }

    pub(crate) fn release(&self) {
        also_unwinding(|| assert!(self.0.change(std::mem::take), "unlocked a mutex that is not locked"));
    }

    pub(crate) fn release_fair(&self) {
        self.release();
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.with(|is_taken| *is_taken)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.0.has_waiters()
    }
}
