//! A place of its own for what is measured.
//!
//! Before each operation the loop stores the address that `black_box` hides. A lock and unlock take some
//! 10.7 ns if that store and the lock share a cache line, and otherwise 12.2. So the layout of a stack
//! would decide which contender wins.

use std::ops::Deref;

/// A value that shares no pair of cache lines with anything.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
