//! The one-token word of a thread that park consumes and unpark posts.

use crate::shim::atomic::{AtomicU32, Ordering};

/// A thread's token.
#[derive(Debug)]
pub(crate) struct Permit(AtomicU32);

impl Permit {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
