//! One block: plain reads and writes at addresses, and the note that this crate keeps beside it.

use super::exit::WayOut;
use super::layout;
use super::symbols::Static;

/// What this crate keeps in each block, between `struct pthread` and the top of the slot.
#[repr(C)]
pub(super) struct Note {
    /// [`super::modules::Modules::signature`] from before the block's thread-locals were made.
    pub(super) signature: usize,
    /// The id that the C library sees. Kept across renewals.
    pub(super) tid: u32,
    /// Where `pthread_exit` leads (`exit.rs`).
    pub(super) way_out: WayOut,
}

/// Room for a [`Note`], in cache lines.
pub(super) const NOTE_SIZE: usize = size_of::<Note>().next_multiple_of(64);

/// Returns the note of block `tp`.
#[inline]
pub(super) fn note(tp: usize, sizes: &Static) -> *mut Note {
    std::ptr::with_exposed_provenance_mut(layout::note(tp, sizes))
}

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
