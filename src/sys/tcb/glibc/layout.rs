//! Where a block's parts lie: a file for each instruction set, and what those with TLS variant I share.
//! Beside each block lies a note of this crate's.

use super::super::super::pthread;
use super::exit::WayOut;
use super::symbols::Static;

#[cfg_attr(target_arch = "x86_64", path = "layout/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "layout/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "layout/riscv64.rs")]
mod machine;
#[cfg(not(target_arch = "x86_64"))]
mod variant_1;

pub(super) use machine::*;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use variant_1::*;

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
    place_below(top - NOTE, sizes)
}

/// Returns the `struct pthread` of the calling thread, which is what glibc's `pthread_t` points to.
#[inline]
pub(super) fn own_descriptor() -> usize {
    // SAFETY: takes nothing.
    unsafe { pthread::pthread_self() as usize }
}
