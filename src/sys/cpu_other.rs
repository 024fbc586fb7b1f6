//! The CPU that a kernel thread runs on, where the system does not say.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Always 0.
pub(crate) fn current() -> u32 {
    0
}

/// Written by nobody.
pub(crate) type Word = AtomicU32;

/// Never there.
pub(crate) fn word() -> Option<NonNull<Word>> {
    None
}
