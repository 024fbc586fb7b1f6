//! The CPU that a kernel thread runs on, if the system does not say.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Never written.
pub(crate) type Word = AtomicU32;

stand_in! {
    pub(crate) fn current() -> u32 = 0;
    pub(crate) fn quick() -> Option<u32> = None;
    pub(crate) fn word() -> Option<NonNull<Word>> = None;
    pub(crate) fn leave_area_of(base: usize) = ();
}
