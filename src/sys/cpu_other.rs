//! The CPU that a kernel thread runs on, if the system does not say.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Returns 0.
pub(crate) fn current() -> u32 {
    0
}

/// Returns `None`.
pub(crate) fn quick() -> Option<u32> {
    None
}

/// Never written.
pub(crate) type Word = AtomicU32;

/// Returns `None`.
pub(crate) fn word() -> Option<NonNull<Word>> {
    None
}

/// Does nothing.
pub(crate) fn leave_area_of(_base: usize) {}
