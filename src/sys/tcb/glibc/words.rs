//! Plain reads and writes at addresses in a block, and the address of the own one.

use super::super::super::pthread;
pub(super) use super::super::common::{peek, poke};

/// Returns the `struct pthread` of the calling thread, which is what glibc's `pthread_t` points to.
#[inline]
pub(super) fn own_descriptor() -> usize {
    // SAFETY: takes nothing.
    unsafe { pthread::pthread_self() as usize }
}
