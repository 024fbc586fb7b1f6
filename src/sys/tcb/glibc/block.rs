//! The note that this crate keeps beside each block.

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

/// Returns, for a slot that ends at `top`, the thread register and the first byte above the stack.
pub(super) fn place(top: usize, sizes: &Static) -> (usize, usize) {
    // In cache lines.
    const NOTE: usize = size_of::<Note>().next_multiple_of(64);
    layout::place(top - NOTE, sizes)
}

/// Returns the note of block `tp`.
#[inline]
pub(super) fn note(tp: usize, sizes: &Static) -> *mut Note {
    std::ptr::with_exposed_provenance_mut(layout::note(tp, sizes))
}
