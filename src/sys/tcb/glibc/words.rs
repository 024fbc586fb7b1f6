//! Plain reads and writes at addresses in a block.

use super::super::super::pthread;

/// Reads a field.
///
/// # Safety
/// `at` is the address of a readable `T`, aligned for it, that no other thread writes meanwhile.
#[inline]
pub(super) unsafe fn peek<T: Copy>(at: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance::<T>(at).read() }
}

/// Writes a field.
///
/// # Safety
/// `at` is the address of a writable `T`, aligned for it, that no other thread uses meanwhile.
#[inline]
pub(super) unsafe fn poke<T: Copy>(at: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(at).write(value) };
}

/// Returns the `struct pthread` of the calling thread, which is what glibc's `pthread_t` points to.
#[inline]
pub(super) fn own_descriptor() -> usize {
    // SAFETY: takes nothing.
    unsafe { pthread::pthread_self() as usize }
}
