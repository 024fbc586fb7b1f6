//! A place of its own for what is measured.
//!
//! Before each operation the loop stores the address that `black_box` hides. If that store and the lock
//! share a cache line, the lock's first read-modify-write takes some 10.7 ns a pair, else 12.2: the
//! layout of a stack would decide which contender wins.

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
